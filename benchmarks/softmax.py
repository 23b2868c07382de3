"""Softmax regression on MNIST's shapes: 10 clients x 6000 x 784, batches of 300, K = 10."""

import numpy as np

import pdmm
from benchmarks.timing import Rounds, agree, heading, peak_gigabytes, read_once, side_by_side
from pdmm.common.threads import Threads, available

CLIENTS, SAMPLES, FEATURES, CLASSES, BATCH, STEPS, ETA = 10, 6000, 784, 10, 300, 10, 0.05


def main() -> None:
    heading(
        f"Softmax, {CLIENTS} x {SAMPLES} x {FEATURES}, batch {BATCH}, K={STEPS}, float32, AGPDMM"
    )
    rng = np.random.default_rng(0)
    shape = (CLIENTS, SAMPLES, FEATURES)
    X = rng.random(shape, dtype=np.float32) * (rng.random(shape, dtype=np.float32) < 0.2)
    y = np.repeat(np.arange(CLIENTS)[:, None], SAMPLES, axis=1)
    problem = pdmm.SoftmaxRegression(list(X), list(y), classes=CLASSES, batch_size=BATCH)
    method = pdmm.AGPDMM(ETA, STEPS)
    rho, inner = np.float32(method.penalty), np.float32(method.inner_step)
    with_bias = np.concatenate([X, np.ones((CLIENTS, SAMPLES, 1), np.float32)], axis=2)
    size = (FEATURES + 1, CLASSES)
    state = {"x": np.zeros(size, np.float32), "z": np.zeros((CLIENTS, *size), np.float32)}
    cursor = 0

    def reference() -> None:
        """A plain loop over clients and steps."""
        nonlocal cursor
        z = np.empty_like(state["z"])
        for i in range(CLIENTS):
            anchor = 2 * state["x"] - state["z"][i]
            W = state["x"].copy()
            for k in range(STEPS):
                s = (cursor + k) % (SAMPLES // BATCH) * BATCH
                rows, labels = with_bias[i, s : s + BATCH], y[i, s : s + BATCH]
                P = rows @ W
                P = np.exp(P - P.max(axis=1, keepdims=True))
                P /= P.sum(axis=1, keepdims=True)
                P[np.arange(BATCH), labels] -= 1
                W = W - inner * (rows.T @ P / np.float32(BATCH) + rho * (W - anchor))
            z[i] = 2 * W - anchor
        state["z"], state["x"] = z, z.mean(axis=0)
        cursor += STEPS

    with Threads() as threads, Threads(1) as one:  # one BLAS thread: so the reference too
        ours, single = Rounds(problem, method, 1000, threads), Rounds(problem, method, 1000, one)
        for _ in range(5):
            reference()
            ours.step()
            single.step()
        agree(ours.x, state["x"].ravel(), 1e-4)
        A = rng.random((1200, 1200), dtype=np.float32)
        best = side_by_side(
            40,
            reference=reference,
            ours=ours.step,
            one_thread=single.step,
            read=lambda: read_once(X[:, : BATCH * STEPS].reshape(CLIENTS, -1)),
            gemm=lambda: list(threads.map(lambda M: M @ M, [A] * available())),
        )
    unit = best["reference"]
    steps = CLIENTS * STEPS
    flop = steps * 4 * BATCH * size[0] * size[1]
    peak = available() * 2 * 1200**3 / best["gemm"]
    print(
        f"  {'plain NumPy loop, one thread':34s} {unit * 1e3:6.1f} ms a round, "
        f"{unit / steps * 1e6:.0f} µs a step"
    )
    for label, time in (
        (f"pdmm, {available()} threads", best["ours"]),
        ("pdmm, 1 thread", best["one_thread"]),
        ("limit: flop at GEMM's best speed", flop / peak),
        ("limit: reading the batches once", best["read"]),
    ):
        print(f"  {label:34s} {time * 1e3:6.1f} ms = {time / unit:.3f} of the loop")
    print(f"  (target: 0.6) {flop / best['ours'] / 1e9:.0f} GFlop/s of {peak / 1e9:.0f}")
    print(f"  peak memory {peak_gigabytes():.2f} GB, of which data {X.nbytes / 1e9:.2f} twice here")


if __name__ == "__main__":
    main()
