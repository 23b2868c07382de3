"""A model of 51 hospitals: 5,000 rows in all, 20 columns, from start to certificate.

``python -m benchmarks.glm`` prints the seconds of one core for Newton's method and for PDMM in
metrics, beside a Newton's method in plain NumPy on the pooled table in the same process, and how
many evaluations of gradient and Hessian an exact step takes.
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import numpy.typing as npt

import pdmm
from benchmarks.timing import heading

Vector = npt.NDArray[np.float64]

CLIENTS, ROWS, COLUMNS, TRIES = 51, 5000, 20, 7


def data() -> tuple[list[Vector], list[Vector]]:
    """Columns of scales from 1e-3 to 1e3; hospitals differ in their rows and in their means."""
    rng = np.random.default_rng(15)
    cuts = np.sort(rng.choice(np.arange(1, ROWS // 20), CLIENTS - 1, replace=False)) * 20
    scale = 10.0 ** rng.uniform(-3, 3, COLUMNS)
    slopes = rng.standard_normal(COLUMNS) / (2 * scale)
    X, y = [], []
    for rows in np.split(np.arange(ROWS), cuts):
        here = (rng.standard_normal((len(rows), COLUMNS)) + rng.standard_normal(COLUMNS)) * scale
        X.append(here)
        y.append((rng.random(len(rows)) < 1 / (1 + np.exp(-here @ slopes))).astype(float))
    return X, y


def pooled(X: Vector, y: Vector) -> Vector:
    """Newton's method in plain NumPy, columns scaled, to the last digits."""
    A = np.column_stack([X / X.std(axis=0), np.ones(len(X))])
    x = np.zeros(A.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-A @ x))
        step = np.linalg.solve(A.T @ (A * (p * (1 - p))[:, None]), A.T @ (p - y))
        x = x - step
        if np.abs(step).max() < 1e-12:
            break
    return x


def best(call: Callable[[], object]) -> float:
    times = []
    for _ in range(TRIES):
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return min(times)


def solved(problem: pdmm.GLM, method: pdmm.Method) -> pdmm.Result:
    """To 1e-12 of the first gap, proven; Newton's method knows its end."""
    tolerance = None if isinstance(method, pdmm.Newton) else 1e-12
    return pdmm.solve(problem, method, rounds=200, threads=1, optimum=False, tolerance=tolerance)


def main() -> None:
    heading(f"{CLIENTS} clients, {ROWS:,} rows, {COLUMNS} columns: to a certificate, one core")
    X, y = data()
    rows, outcomes = np.vstack(X), np.concatenate(y)
    plain = best(lambda: pooled(rows, outcomes))
    print(f"  {'plain NumPy, pooled':34s} {plain:7.4f} s")
    anderson = pdmm.PDMM(rho="auto", relaxation=0.9, acceleration="anderson", metric="full")
    methods = {
        "Newton()": pdmm.Newton(),
        "PDMM(metric='own')": pdmm.PDMM(rho="auto", metric="own"),
        "PDMM(metric='full'), Anderson": anderson,
    }
    for name, method in methods.items():
        result = solved(pdmm.GLM(X, y), method)
        seconds = best(lambda method=method: solved(pdmm.GLM(X, y), method))  # type: ignore[misc]
        errors = result.certificate.standard_errors
        proven = "no certificate" if errors is None else f"{errors:.0e} standard errors"
        steps = float(result.history["exact_calls"][-1])
        calls = float(result.history["gradient_calls"][-1]) / steps if steps else 1.0
        print(
            f"  {name:34s} {seconds:7.4f} s = {seconds / plain:5.1f} times plain NumPy, "
            f"{result.rounds} rounds, {proven}, {calls:.1f} evaluations a step"
        )


if __name__ == "__main__":
    main()
