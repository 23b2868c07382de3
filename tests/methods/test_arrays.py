"""Methods only add and scale: they run on any array that can, PyTorch's and JAX's among them."""

from typing import Any

import numpy as np
import pytest

import pdmm


class Plain:
    """A vector that can be added, subtracted and scaled, and nothing else."""

    __array_ufunc__ = None  # NumPy must not take over

    def __init__(self, entries: list[float]) -> None:
        self.entries = entries

    def __add__(self, other: "Plain") -> "Plain":
        return Plain([a + b for a, b in zip(self.entries, other.entries, strict=True)])

    def __sub__(self, other: "Plain") -> "Plain":
        return self + (-other)

    def __neg__(self) -> "Plain":
        return -1.0 * self

    def __rmul__(self, factor: float) -> "Plain":
        return Plain([factor * a for a in self.entries])

    def __truediv__(self, divisor: float) -> "Plain":
        return (1 / divisor) * self


class PlainOracle:
    """f(x) = 1/2 ‖x - c‖² on plain vectors."""

    def __init__(self, c: Plain) -> None:
        self.c = c

    def gradient(self, x: Plain) -> Plain:
        return x - self.c

    def value_and_gradient(self, x: Plain) -> tuple[float, Plain]:
        away = self.gradient(x)
        return sum(a * a for a in away.entries) / 2, away

    def steps(
        self,
        start: Plain,
        *,
        step: float,
        count: int,
        shift: Plain | None = None,
        anchor: Plain | None = None,
        rho: float = 0.0,
        average: bool = False,
    ) -> tuple[Plain, Plain]:
        x, total = start, 0.0 * start
        for _ in range(count):
            g = x - self.c
            if shift is not None:
                g = g + shift
            if anchor is not None:
                g = g + rho * (x - anchor)
            x = x - step * g
            total = total + x
        return x, total / count

    def prox(self, anchor: Plain, rho: float, start: Plain, slack: Plain | None = None) -> Plain:
        return (self.c + rho * anchor) / (1 + rho)


METHODS: list[pdmm.Method] = [
    pdmm.PDMM(0.7),
    pdmm.FedSplit(1.5, relaxation=0.8),
    pdmm.InexactFedSplit(1.5, 0.3, 3),
    pdmm.InexactFedSplit(1.5, 0.3, 3, start="server"),
    pdmm.GPDMM(0.4, 3),
    pdmm.GPDMM(0.4, 3, iterate="last"),
    pdmm.AGPDMM(0.4, 3),
    pdmm.Scaffold(0.4, 3, server_step=0.9),
    pdmm.FedAvg(0.4, 3),
    pdmm.FedProx(0.3, 3, 0.5),
    pdmm.FedDyn(0.3, 3, 0.5),
    pdmm.GradientDescent(0.5),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_method_needs_only_sums_and_multiples(method: pdmm.Method) -> None:
    centres = [[0.0, 1.0], [4.0, -2.0], [1.0, 7.0]]
    clients = [PlainOracle(Plain(c)) for c in centres]
    x0 = Plain([0.5, -0.5])

    def prox(v: Any, t: float) -> Any:
        return v

    server = method.server_start(x0, prox)
    memories = [method.client_start(1.0 * x0) for _ in clients]
    for _ in range(12):
        message = method.broadcast(server)
        uploads = []
        for i, f in enumerate(clients):
            memories[i] = method.receive(message, memories[i])
            upload, draft = method.client(message, memories[i], f, method.steps)
            memories[i] = method.accept(memories[i], draft, upload)
            uploads.append(upload)
        fields = zip(*uploads, strict=True)
        mean = type(uploads[0])(*((a + b + c) / 3 for a, b, c in fields))
        server = method.server(server, mean, 1.0, prox)

    problem = pdmm.LeastSquares([np.eye(2)] * 3, [np.array(c) for c in centres])
    expected = pdmm.solve(problem, method, rounds=12, x0=[0.5, -0.5]).x
    np.testing.assert_allclose(method.broadcast(server).x.entries, expected, rtol=1e-12)
