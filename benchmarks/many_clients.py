"""Many small clients: 100,000 of them, 20 x 10 each, K = 5."""

from typing import Any

import numpy as np

import pdmm
from benchmarks.timing import Rounds, agree, heading, peak_gigabytes, read_once, side_by_side
from pdmm.common.threads import Threads, available

CLIENTS, SAMPLES, FEATURES, STEPS, ETA, ROUNDS = 100_000, 20, 10, 5, 0.01, 100


def main() -> None:
    heading(
        f"Many small clients, m={CLIENTS}, n={SAMPLES}, d={FEATURES}, K={STEPS}, float64, AGPDMM"
    )
    before = peak_gigabytes()
    rng = np.random.default_rng(0)
    A = rng.standard_normal((CLIENTS, SAMPLES, FEATURES))
    b = rng.standard_normal((CLIENTS, SAMPLES))
    data = (A.nbytes + b.nbytes) / 1e9
    problem = pdmm.LeastSquares(A, b)
    method = pdmm.AGPDMM(ETA, STEPS)
    rho, inner = method.penalty, method.inner_step
    result = pdmm.solve(problem, method, rounds=ROUNDS)
    used = peak_gigabytes() - before
    print(
        f"  solve(rounds={ROUNDS}): set-up {result.setup_seconds:.2f} s, "
        f"median round {np.median(np.diff(result.history['seconds'])) * 1e3:.1f} ms"
    )
    print(
        f"  peak memory {used:.2f} GB = {used / data:.2f} times the data's {data:.2f} GB "
        "(target: at most 2)"
    )
    state = {"x": np.zeros(FEATURES), "z": np.zeros((CLIENTS, FEATURES))}

    def reference() -> None:
        """A Python loop over clients."""
        z = np.empty_like(state["z"])
        for i in range(CLIENTS):
            A_i, b_i = A[i], b[i]
            anchor = 2 * state["x"] - state["z"][i]
            x = state["x"]
            for _ in range(STEPS):
                x = x - inner * (A_i.T @ (A_i @ x - b_i) + rho * (x - anchor))
            z[i] = 2 * x - anchor
        state["z"], state["x"] = z, z.mean(axis=0)

    with Threads() as threads, Threads(1) as one:
        ours = Rounds(problem, method, ROUNDS, threads)
        single = Rounds(problem, method, ROUNDS, one)
        reference()
        ours.step()
        single.step()
        agree(ours.x, state["x"], 1e-10)
        source: Any = ours.clients.here.source
        W = source.W
        best = side_by_side(2, reference=reference)
        best |= side_by_side(15, ours=ours.step, one_thread=single.step, limit=lambda: read_once(W))
    unit = best["reference"]
    print(f"  Python loop over clients        {unit:.2f} s a round")
    for label, name in (
        (f"pdmm, {available()} threads", "ours"),
        ("pdmm, 1 thread", "one_thread"),
        ("limit: one read of m d² numbers", "limit"),
    ):
        print(f"  {label:32s} {best[name] * 1e3:6.1f} ms = {best[name] / unit:.4f} of the loop")
    print("  (target: 0.02)")


if __name__ == "__main__":
    main()
