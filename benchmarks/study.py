"""A study over a real federation: four sites of 10,000 rows and 30 columns, command to report."""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from benchmarks.timing import heading
from pdmm.flare.processes import LocalFederation
from pdmm.flare.site_data import OwnTable, own_table
from pdmm.flare.studies import Asking, Found, run_fit, save_model
from pdmm.tables.silos import Options

SITES, ROWS, COLUMNS = 4, 10_000, 30
FORMULA = "y ~ " + " + ".join(f"x{j}" for j in range(COLUMNS))


def main() -> None:
    heading(f"A study: {SITES} sites, {ROWS:,} rows each, {COLUMNS} columns, logistic")
    with tempfile.TemporaryDirectory(prefix="pdmm-bench-") as name:
        folder = Path(name)
        tables = {f"site-{k + 1}": _table(folder, k) for k in range(SITES)}
        with LocalFederation(list(tables), tables, folder / "nodes") as federation:
            for secure in (True, False):
                # a policy of the default kind refuses a study without secure sums
                if not secure:
                    _allow(federation)
                _report(federation.kits.admin, folder, secure)


def _table(folder: Path, k: int) -> OwnTable:
    rng = np.random.default_rng([18, k])
    X = rng.standard_normal((ROWS, COLUMNS)) * np.geomspace(0.1, 1000, COLUMNS)
    eta = X @ (rng.standard_normal(COLUMNS) / np.geomspace(0.1, 1000, COLUMNS)) / 4
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
    frame["y"] = (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int)
    path = folder / f"site-{k + 1}.parquet"
    frame.to_parquet(path)
    return own_table(path)


def _allow(federation: LocalFederation) -> None:
    for kit in federation.kits.sites.values():
        path = kit / "local" / "policy.toml"
        text = path.read_text()
        for old, new in (
            ('secure_sums = "auto"', 'secure_sums = "optional"'),
            ('hessians = "secure"', 'hessians = "allowed"'),
        ):
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)


def _report(kit: Path, folder: Path, secure: bool) -> None:
    begun = perf_counter()
    found: Found = run_fit(kit, FORMULA, Options(), None, Asking(secure=secure))
    name = "secure" if secure else "plain"
    save_model(found.value, folder / f"{name}.pdmm")
    found.value.report(folder / f"{name}.html")
    took = perf_counter() - begun
    times = found.times
    assert times is not None
    words = "with secure sums" if secure else "without"
    history = found.value.result.history
    each = ", ".join(f"{s:.3f}" for s in np.diff(history["seconds"]))
    print(
        f"  {words}: {took:.1f} s from the command to the report: FLARE begins {times.begin:.1f}, "
        f"ends {times.end:.1f}; the study {times.run:.1f}, of which rounds take {each}"
    )


if __name__ == "__main__":
    main()
