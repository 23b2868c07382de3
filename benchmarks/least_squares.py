"""The paper's least squares at full size: 500 clients, 5000 x 500 each, K = 20."""

from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import pdmm
from benchmarks.timing import Rounds, agree, heading, peak_gigabytes, read_once, side_by_side
from pdmm.common.threads import Threads, available

CLIENTS, SAMPLES, FEATURES, STEPS, ROUNDS, ETA = 500, 5000, 500, 20, 200, 1e-4


def main() -> None:
    heading(f"Least squares, m={CLIENTS}, n={SAMPLES}, d={FEATURES}, K={STEPS}, float64, AGPDMM")
    begun = perf_counter()
    problem = pdmm.LeastSquares.random(CLIENTS, SAMPLES, FEATURES, seed=0)
    print(f"  generated in {perf_counter() - begun:.1f} s, peak memory {peak_gigabytes():.2f} GB")
    given = problem._forms.given
    assert given is not None
    H, g = given.H, given.g
    method = pdmm.AGPDMM(ETA, STEPS)
    rho, inner = method.penalty, method.inner_step

    state = {"x": np.zeros(FEATURES), "z": np.zeros((CLIENTS, FEATURES))}

    def reference() -> None:
        """K batched mat-vecs over all clients, on as many BLAS threads as NumPy takes."""
        x_s, z = state["x"], state["z"]
        anchor = 2 * x_s - z
        x = np.repeat(x_s[None], CLIENTS, axis=0)
        for _ in range(STEPS):
            x = x - inner * (np.matmul(H, x[..., None])[..., 0] - g + rho * (x - anchor))
        state["z"] = 2 * x - anchor
        state["x"] = state["z"].mean(axis=0)

    def reference_one_thread() -> None:
        with threadpool_limits(1):
            reference()

    begun = perf_counter()
    with Threads() as threads, Threads(1) as one:
        ours = Rounds(problem, method, ROUNDS, threads)
        print(
            f"  factorised in {perf_counter() - begun:.1f} s, "
            f"peak memory {peak_gigabytes():.2f} GB (target: under 3)"
        )
        single = Rounds(problem, method, ROUNDS, one)
        for _ in range(3):
            reference()
            ours.step()
            single.step()
        agree(ours.x, state["x"], 1e-10)
        source: Any = ours.clients.here.source
        W = source.W
        best = side_by_side(
            6,
            reference=reference,
            reference_one_thread=reference_one_thread,
            ours=ours.step,
            one_thread=single.step,
            limit=lambda: read_once(W),
        )
    unit = min(best["reference"], best["reference_one_thread"])
    print(f"  NumPy reference, K batched mat-vecs    {best['reference']:.3f} s a round")
    print(f"  the same with one BLAS thread          {best['reference_one_thread']:.3f} s")
    for name, label in (
        ("ours", f"pdmm, {available()} threads (target: 0.25)"),
        ("one_thread", "pdmm, 1 thread"),
        ("limit", "limit: one read of m d² numbers"),
    ):
        print(f"  {label:38s} {best[name]:.3f} s = {best[name] / unit:.3f} of the faster reference")
    print(f"  distance to the limit: {best['ours'] / best['limit']:.2f} times")

    begun = perf_counter()
    result = pdmm.solve(problem, method, rounds=ROUNDS)
    rounds = np.diff(result.history["seconds"])
    print(
        f"  solve(rounds={ROUNDS}), everything recorded: median round {np.median(rounds):.3f} s = "
        f"{np.median(rounds) / unit:.3f}, set-up {result.setup_seconds:.1f} s (factors reused), "
        f"all {perf_counter() - begun:.1f} s"
    )
    print(f"  peak memory {peak_gigabytes():.2f} GB, gap {result.history['gap'][-1]:.1e}")


if __name__ == "__main__":
    main()
