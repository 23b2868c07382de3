"""NVIDIA FLARE: a round of a real federation on this machine, beside the bare engine's."""

import json
import os
import tempfile
import time
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from nvflare.collab import collab

import pdmm
from benchmarks.timing import heading
from pdmm.flare import kits, model_files, runs
from pdmm.flare.admin import Admin
from pdmm.flare.job import site_config, write_job
from pdmm.flare.processes import LocalFederation
from pdmm.privacy.policy import Policy

LENGTHS = (1_000, 1_000_000)
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"secure": False},
    "secure": {"secure": True},
    "sites": {"secure": False, "verify": "sites"},
    "both": {"secure": True, "verify": "sites"},
}
TIMES = 2  # each way is run so often, in turns; the best median counts
SITES = ["site-1", "site-2", "site-3"]
CALLS, ROUNDS = 40, 60
SITE_FILE = """
import os, numpy as np, pdmm

def problem():
    d, k = int(open({path!r}).read()), int({site!r}[-1])
    return pdmm.Quadratic(np.full((1, d), 1.0 + k), np.full((1, d), float(k)))
"""


class BareServer:
    """Sends an array to every site and takes it back, with nothing of pdmm."""

    @collab.main  # type: ignore[untyped-decorator]  # FLARE has no types
    def main(self) -> None:
        times = {}
        for length in LENGTHS:
            x, taken = np.ones(length), []
            for _ in range(CALLS):
                start = perf_counter()
                replies = list(collab.clients(timeout=30).echo(x))
                taken.append(perf_counter() - start)
                assert len(replies) == len(SITES)
            times[str(length)] = float(np.median(taken))
        job = collab.fl_ctx.get_job_id()
        out = Path(collab.workspace.get_result_root(job)) / "pdmm"
        out.mkdir(parents=True)
        (out / "bare.json").write_text(json.dumps(times))


class BareSite:
    """Gives back what it gets."""

    @collab.publish  # type: ignore[untyped-decorator]  # FLARE has no types
    def echo(self, x: Any) -> Any:
        return x


def main() -> None:
    heading(f"FLARE: a round of AGPDMM, {len(SITES)} sites as processes here, mutual TLS")
    root = Path(__file__).resolve().parent.parent
    os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    for whose, name in (("server", "BareServer"), ("site", "BareSite")):
        kits.CLASSES[whose].append(f"benchmarks.flare.{name}")
    kits.OTHER_JOBS.append(json.loads(_bare_config(json.dumps(site_config()), "Site")))
    with tempfile.TemporaryDirectory(prefix="pdmm-bench-") as name:
        folder = Path(name)
        length = folder / "length"
        length.write_text(str(LENGTHS[0]))
        begun = perf_counter()
        with LocalFederation(
            SITES, files(folder, length, SITES), folder / "nodes", policy=Policy.open()
        ) as federation:
            print(f"  provisioned, started and connected in {perf_counter() - begun:.1f} s")
            with federation.admin() as admin:
                bare = _bare(admin, folder)
            for d in LENGTHS:
                length.write_text(str(d))
                _report(d, federation, bare[str(d)])


def files(folder: Path, length: Path, sites: list[str]) -> dict[str, str]:
    """The problem of each site, whose dimension is in a file that may change between runs."""
    problems = {}
    for site in sites:
        path = folder / f"{site}.py"
        path.write_text(SITE_FILE.format(path=str(length), site=site))
        problems[site] = f"{path}:problem"
    return problems


def _bare(admin: Admin, folder: Path) -> dict[str, float]:
    """The bare engine: FLARE's own way with arrays, inline as its notes advise."""
    job = write_job(folder / "bare", {"run": "bare"}, "bare", SITES)
    for path, whose in ((job / "server", "Server"), (job / "site", "Site")):
        for file in (path / "config").glob("config_fed_*.json"):
            file.write_text(_bare_config(file.read_text(), whose))
    number = admin._do(lambda session: session.submit_job(str(job)))
    while not (status := admin.status(number)).over:
        time.sleep(0.3)
    out = folder / "bare-result"
    if not any(path.name == "bare.json" for path in admin.result(number, out)):
        raise SystemExit(f"the bare engine failed: {status.detail}")
    found: dict[str, float] = json.loads((out / "bare.json").read_text())
    return found


def _bare_config(config: str, whose: str) -> str:
    named = config.replace(f"pdmm.flare.collab.{whose}", f"benchmarks.flare.Bare{whose}")
    return json.dumps({**json.loads(named), "np_download_chunk_size": 0})


def _report(d: int, federation: LocalFederation, bare: float) -> None:
    each = [
        {way: round_seconds(d, federation, WAYS[way], ROUNDS, len(SITES)) for way in WAYS}
        for _ in range(TIMES)
    ]
    taken = {way: min(one[way] for one in each) for way in WAYS}
    plain = taken["plain"]
    print(f"  {d:9,d} floats: the bare engine {bare:.3f} s, a median round of pdmm")
    for way, words in (
        ("plain", "without secure sums"),
        ("secure", "with secure sums"),
        ("sites", "where the sites compute x"),
        ("both", "both"),
    ):
        ratio = f"{taken[way] / bare:.2f} of the bare engine, {taken[way] / plain:.2f} of plain"
        print(f"    {words:26} {taken[way]:.3f} s: {ratio}")


def round_seconds(
    d: int, federation: LocalFederation, way: dict[str, Any], rounds: int, sites: int
) -> float:
    """The median time of a round, of a run that ends at the optimum."""
    method = pdmm.AGPDMM(step_size=0.25, local_steps=5, rho=3.0)
    asked = runs.settings(method, rounds=rounds, every=rounds, **way)
    out = federation.folder / f"model-{d}.safetensors"
    names = [f"site-{k + 1}" for k in range(sites)]
    model = runs.complete(federation.kits.admin, asked, out, sites=names, force=True)
    lines = model_files.history_path(out).read_text().splitlines()
    column = lines[0].split(",").index("seconds")
    k = np.arange(1, sites + 1)
    exact = k.sum() / (1 + k).sum()  # the optimum of sum_k (1 + k)/2 ‖x‖² - k x
    assert float(np.abs(model.x - exact).max()) < 1e-9
    return float(np.median(np.diff([float(line.split(",")[column]) for line in lines[1:]])))


if __name__ == "__main__":
    main()
