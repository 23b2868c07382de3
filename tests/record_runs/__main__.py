"""``python -m record_runs``: record the runs, or compare them with what was recorded."""

import argparse
import os
import pickle
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import pdmm
from record_runs import (  # noqa: F401 - they enter their runs
    cases_automatic,
    cases_checkpoints,
    cases_errors,
    cases_links,
    cases_methods,
    cases_networks,
    cases_ranks,
    cases_sites,
)
from record_runs.differences import differences
from record_runs.plain import Plain, outcome
from record_runs.registry import RUNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="record_runs", description=__doc__)
    parser.add_argument("what", choices=["record", "compare", "list", "worker"])
    parser.add_argument("file", nargs="?", type=Path, help="what was or will be recorded")
    parser.add_argument("--only", default="", help="runs whose names contain this")
    given = parser.parse_args()
    names = [name for name in RUNS if given.only in name]
    if given.what == "list":
        print("\n".join(names))
        return 0
    if given.file is None:
        parser.error(f"{given.what} needs a FILE")
    if given.what == "worker":  # what mpirun starts for the runs of real ranks
        cases_ranks.worker(given.file)
        return 0
    print(f"pdmm of {Path(pdmm.__file__).parent}")
    return (record if given.what == "record" else compare)(names, given.file)


def record(names: list[str], file: Path) -> int:
    """Do the runs and write what came out."""
    begun, runs = time.perf_counter(), {}
    for name in names:
        runs[name] = done(name)
        print(f"{name}: {summary(runs[name])}", flush=True)
    file.write_bytes(pickle.dumps({"versions": versions(), "runs": runs}))
    print(f"{len(runs)} runs recorded in {time.perf_counter() - begun:.0f} s")
    return 0


def compare(names: list[str], file: Path) -> int:
    """Do the runs again and say what is not as it was; 1 if that is more than byte counts."""
    recorded = pickle.loads(file.read_bytes())
    before: dict[str, Plain] = recorded["runs"]
    if recorded["versions"] != versions():
        print(f"recorded with {recorded['versions']}, this is {versions()}: bits may differ")
    same, in_bytes, other = 0, 0, 0
    gone = [name for name in before if name not in RUNS]
    for name in [*names, *(gone if set(names) == set(RUNS) else [])]:
        if name in gone or name not in before:
            print(f"{name}: {'is no longer a run' if name in gone else 'was not recorded'}")
            other += 1
            continue
        found = differences(before[name], done(name))
        graver = [difference for difference in found if not difference.in_bytes]
        same, in_bytes, other = (
            same + (not found),
            in_bytes + (bool(found) and not graver),
            other + bool(graver),
        )
        print(f"{name}: {'same' if not found else 'differs' if graver else 'same but for bytes'}")
        for difference in graver:
            print(f"    {difference}")
        if len(found) > len(graver):
            print("    byte counts differ:")
            for difference in found:
                if difference.in_bytes:
                    print(f"        {difference}")
        sys.stdout.flush()
    total = same + in_bytes + other
    print(
        f"{total} runs, {same} same, {in_bytes} differ in byte counts only, {other} differ",
    )
    return 1 if other else 0


def done(name: str) -> Plain:
    """The outcome of a run, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="record_runs_") as folder:
        return outcome(RUNS[name], Path(folder))


def summary(found: Plain) -> str:
    """Why a run ended, or what it raised: its last part's, where it has several."""
    said = [
        f"{found[name[: -len('message')] + 'error']}: {text}" if name.endswith("message") else text
        for name, text in found.items()
        if name.split("/")[-1] in ("reason", "message")
    ]
    return f"{said[-1]} ({len(found)} fields)" if said else f"{len(found)} fields"


def versions() -> dict[str, Any]:
    """What the bits depend on beside the library."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


if __name__ == "__main__":
    sys.exit(main())
