"""A million rows from a Parquet file: pdmm.fit over 50 clients against scikit-learn, pooled."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

CLIENTS = 50
COLUMNS = 30


def write_table(path: Path, rows: int, scaled: bool) -> None:
    """Independent columns, of standard deviation 1 or of any."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS))
    coefficients = rng.standard_normal(COLUMNS) / 3
    p = 1 / (1 + np.exp(0.5 - X @ coefficients))
    if not scaled:
        X = X * np.exp(rng.standard_normal(COLUMNS)) + rng.standard_normal(COLUMNS)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
    table["y"] = (rng.random(rows) < p).astype(int)
    table["site"] = rng.integers(0, CLIENTS, rows)
    table.to_parquet(path)


def ours(path: Path) -> tuple[float, int]:
    import pdmm

    formula = "y ~ " + " + ".join(f"x{j}" for j in range(COLUMNS))
    begun = time.perf_counter()
    fit = pdmm.fit(formula, path, client="site")
    assert fit.error_bound is not None
    assert fit.error_bound < 1e-7
    assert fit.result is not None
    return time.perf_counter() - begun, fit.result.rounds


def theirs(path: Path) -> tuple[float, float, int]:
    """Seconds with reading, seconds of the fit alone, iterations."""
    from sklearn.linear_model import LogisticRegression

    begun = time.perf_counter()
    table = pd.read_parquet(path)
    X = table[[f"x{j}" for j in range(COLUMNS)]].to_numpy()
    y = table["y"].to_numpy()
    read = time.perf_counter()
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000).fit(X, y)
    done = time.perf_counter()
    return done - begun, done - read, int(model.n_iter_[0])


MEMORY = """
import sys, threading, time
from pathlib import Path
sys.path.insert(0, {root!r})
import pyarrow.parquet, sklearn.linear_model, pdmm.tables
from benchmarks.big_table import ours
now = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
before, most, done = now(), [0.0], []
def watch():
    while not done:
        most[0] = max(most[0], now())
        time.sleep(0.02)
thread = threading.Thread(target=watch)
thread.start()
ours(Path({path!r}))
done.append(True)
thread.join()
print(before, most[0])
"""


def memory(path: Path) -> tuple[float, float]:
    """Megabytes of a process before the fit, and the most during it."""
    code = MEMORY.format(root=str(Path(__file__).parent.parent), path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, most = done.stdout.split()
    return float(before), float(most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    size = rows * (COLUMNS + 2) * 8 / 1e6
    print(
        f"{rows:,} rows, {COLUMNS} columns, {CLIENTS} clients, {size:.0f} MB as numbers; best of 3"
    )
    with tempfile.TemporaryDirectory() as folder:
        for scaled in (True, False):
            path = Path(folder) / f"table_{scaled}.parquet"
            write_table(path, rows, scaled)
            mine = [ours(path) for _ in range(3)]
            other = [theirs(path) for _ in range(3)]
            best = min(seconds for seconds, _ in mine)
            whole = min(total for total, _, _ in other)
            alone = min(fitting for _, fitting, _ in other)
            print(
                f"{'columns of one scale' if scaled else 'columns as they come':22}"
                f"pdmm {best:6.2f} s in {mine[0][1]} rounds, scikit-learn {whole:6.2f} s "
                f"({alone:.2f} s without reading) in {other[0][2]} iterations: "
                f"{best / whole:.2f} times ({best / alone:.2f})"
            )
        before, most = memory(path)
        print(
            f"memory: {before:.0f} MB before, {most:.0f} MB at most: "
            f"{(most - before) / size:.1f} times the table on top"
        )


if __name__ == "__main__":
    main()
