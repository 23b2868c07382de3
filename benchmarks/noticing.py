"""What it takes to notice that data were changed: a checksum of them before each run."""

import numpy as np

import pdmm
from benchmarks.timing import heading, side_by_side

METHOD = pdmm.AGPDMM(1e-9, 1, rho=1.0)
SHAPES = ((25, 10_000, 500), (3, 6, 3), (10_000, 20, 10))


def measure(m: int, n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((n, d)) for _ in range(m)]
    b = [rng.standard_normal(n) for _ in range(m)]
    problem = pdmm.LeastSquares(A, b)
    pdmm.solve(problem, METHOD, 1)  # what the data give is kept from here on
    best = side_by_side(
        10,
        made=lambda: pdmm.LeastSquares(A, b),
        checksum=problem.check_data,
        run=lambda: pdmm.solve(problem, METHOD, 1),
    )
    times = " ".join(f"{1e3 * best[name]:10.3g}" for name in ("made", "checksum", "run"))
    print(f"  {f'{m} x {n} x {d}':18s} {8 * m * n * d / 1e6:10.3g} {times}")


def main() -> None:
    heading("Before each run, in ms: a checksum of all data, which is part of a run of one round")
    print(f"  {'clients x n x d':18s} {'MB':>10s} {'made':>10s} {'checksum':>10s} {'run':>10s}")
    for shape in SHAPES:
        measure(*shape)


if __name__ == "__main__":
    main()
