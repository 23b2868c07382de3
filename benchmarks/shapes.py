"""One gradient of every client, on shapes for which different forms are best."""

import numpy as np

import pdmm
from benchmarks.timing import Rounds, heading, side_by_side
from pdmm.common.threads import Threads

SHAPES = ((1000, 20, 10), (25, 5000, 500), (10, 300, 784))


def main() -> None:
    heading("One gradient of every client, in ms: the best form depends on the shape")
    print(f"  {'clients x n x d':18s} {'loop':>8s} {'stacked':>8s} {'Gram':>8s} {'pdmm':>8s}  form")
    for m, n, d in SHAPES:
        rng = np.random.default_rng(0)
        A, b = rng.standard_normal((m, n, d)), rng.standard_normal((m, n))
        H, g = A.transpose(0, 2, 1) @ A, np.einsum("mnd,mn->md", A, b)
        x = np.zeros(d)
        problem = pdmm.LeastSquares(A, b)

        def loop() -> None:
            sum(a.T @ (a @ x - v) for a, v in zip(A, b, strict=True))  # noqa: B023

        def stacked() -> None:
            r = np.matmul(A, x[:, None])[..., 0] - b  # noqa: B023
            np.matmul(A.transpose(0, 2, 1), r[..., None])[..., 0].mean(0)  # noqa: B023

        def gram() -> None:
            (np.matmul(H, x[:, None])[..., 0] - g).mean(0)  # noqa: B023

        with Threads() as threads:
            ours = Rounds(problem, pdmm.GradientDescent(1e-9), 10, threads)
            best = side_by_side(10, loop=loop, stacked=stacked, gram=gram, ours=ours.step)
        times = " ".join(f"{1e3 * best[k]:8.2f}" for k in ("loop", "stacked", "gram", "ours"))
        print(f"  {f'{m} x {n} x {d}':18s} {times}  {type(ours.clients.here.source).__name__}")


if __name__ == "__main__":
    main()
