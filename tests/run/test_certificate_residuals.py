"""Residuals of a certificate, by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.certified import Data, least_squares, methods, regulariser
from pdmm.methods import Method
from twins import methods as twins
from twins.methods import Vector

Local = Callable[[int, Vector, Vector, Vector], tuple[Vector, Vector]]


def naive(
    data: Data, h: Any, rho: float, relaxation: float, rounds: int, local: Local
) -> tuple[Vector, float, float]:
    """(x_s, consensus, dual sum) after so many rounds, a client and a multiplier at a time."""
    W = float(data.w.sum())

    def server(z: list[Vector]) -> tuple[Vector, Vector]:
        mean = sum((w * v for w, v in zip(data.w, z, strict=True)), 0 * data.x0) / W
        x_s = mean if h is None else h.prox(mean, 1 / (rho * W))
        return x_s, W * rho * (mean - x_s)  # the prox chooses this subgradient of h at x_s

    z = [data.x0.copy() for _ in data.A]
    own = [data.x0.copy() for _ in data.A]
    x_s, v = server(z)
    apart, total = 0.0, 0 * x_s
    for _ in range(rounds):
        apart, total = 0.0, v
        for i, w in enumerate(data.w):
            lam_s = rho * (z[i] - x_s)
            x_i, own[i] = local(i, x_s, x_s - lam_s / rho, own[i])
            lam_i = rho * (x_s - x_i) - lam_s
            apart += w * float(np.sum((x_i - x_s) ** 2)) / W
            total = total + w * lam_i
            z[i] = z[i] + relaxation * (x_i - lam_i / rho - z[i])
        x_s, v = server(z)
    return x_s, float(np.sqrt(apart)), float(np.linalg.norm(total))


def steps(data: Data, eta: float, K: int, rho: float, start: str, mean: bool) -> Local:
    def local(i: int, x_s: Vector, anchor: Vector, own: Vector) -> tuple[Vector, Vector]:
        x, seen = {"server": x_s, "own": own, "anchor": anchor}[start], []
        for _ in range(K):
            x = x - eta * (data.A[i].T @ (data.A[i] @ x - data.b[i]) + rho * (x - anchor))
            seen.append(x)
        return (np.mean(seen, axis=0) if mean else x), x

    return local


def exact(data: Data, rho: float) -> Local:
    _, prox = twins.least_squares(data.A, data.b)
    return lambda i, x_s, anchor, own: (prox(i, anchor, rho), own)


def family(data: Data) -> dict[str, tuple[Method, float, float, Local]]:
    """Method, rho, relaxation and what its clients do, in plain words."""
    L = data.client_L
    eta, rho = 0.9 / L, L / 3
    inner = 1 / (1 / eta + rho)
    return {
        "PDMM": (pdmm.PDMM(rho), rho, 1.0, exact(data, rho)),
        "PDMM, relaxed": (pdmm.PDMM(rho, 0.6), rho, 0.6, exact(data, rho)),
        "FedSplit": (pdmm.FedSplit(1 / rho, 0.5), rho, 0.5, exact(data, rho)),
        "GPDMM": (
            pdmm.GPDMM(eta, 3, rho, relaxation=0.8),
            rho,
            0.8,
            steps(data, inner, 3, rho, "own", mean=True),
        ),
        "AGPDMM": (
            pdmm.AGPDMM(eta, 4, rho),
            rho,
            1.0,
            steps(data, inner, 4, rho, "server", mean=False),
        ),
        "InexactFedSplit": (
            pdmm.InexactFedSplit(1 / rho, 0.6 / L, 2),
            rho,
            1.0,
            steps(data, 0.6 / L, 2, rho, "anchor", mean=False),
        ),
    }


@pytest.mark.parametrize("name", list(family(least_squares(0, "tall"))))
@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_consensus_and_dual_sum_by_hand(name: str, kind: str, rounds: int) -> None:
    data, h = least_squares(11, "ragged"), regulariser(kind)
    method, rho, relaxation, local = family(data)[name]
    x_s, consensus, dual_sum = naive(data, h, rho, relaxation, rounds, local)
    result = pdmm.solve(data.problem, method, rounds, x0=data.x0, weights=data.w, regulariser=h)
    np.testing.assert_allclose(result.x, x_s, rtol=1e-10, atol=1e-12)
    assert result.certificate.consensus == pytest.approx(consensus, rel=1e-9)
    assert result.certificate.dual_sum == pytest.approx(dual_sum, rel=1e-8)


@pytest.mark.parametrize("rounds", [1, 3])
def test_fedavg_has_a_consensus_and_no_duals(rounds: int) -> None:
    data = least_squares(11, "ragged")
    eta, W = 0.5 / data.client_L, float(data.w.sum())
    x_s, apart = data.x0, 0.0
    for _ in range(rounds):
        changes = []
        for a, v in zip(data.A, data.b, strict=True):
            x = x_s
            for _ in range(3):
                x = x - eta * (a.T @ (a @ x - v))
            changes.append(x - x_s)
        apart = sum(w * float(c @ c) for w, c in zip(data.w, changes, strict=True)) / W
        x_s = x_s + sum((w * c for w, c in zip(data.w, changes, strict=True)), 0 * x_s) / W
    result = pdmm.solve(data.problem, pdmm.FedAvg(eta, 3), rounds, x0=data.x0, weights=data.w)
    np.testing.assert_allclose(result.x, x_s, rtol=1e-11)
    assert result.certificate.consensus == pytest.approx(np.sqrt(apart), rel=1e-10)
    assert result.certificate.dual_sum is None


def test_gradient_descent_has_neither() -> None:
    data = least_squares(11, "ragged")
    certificate = pdmm.solve(data.problem, pdmm.GradientDescent(1e-3), 3).certificate
    assert certificate.consensus is None
    assert certificate.dual_sum is None
    certificate = pdmm.solve(data.problem, pdmm.Scaffold(1e-3, 2), 3).certificate
    assert certificate.dual_sum is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
def test_residuals_vanish_where_a_run_converges(kind: str) -> None:
    data, h = least_squares(12, "tall"), regulariser(kind)
    converging = {
        name: method
        for name, method in methods(data.client_L).items()
        if "PDMM" in name or name in ("FedSplit", "InexactFedSplit, server")
    }
    assert len(converging) == 8
    for name, method in converging.items():
        run = [
            pdmm.solve(
                data.problem, method, n, weights=data.w, regulariser=h, record_every=n, threads=1
            ).certificate
            for n in (3, 250)
        ]
        first, last = run
        for what in ("consensus", "dual_sum", "stationarity"):
            before, after = getattr(first, what), getattr(last, what)
            assert before is not None, (name, what)
            assert after <= 1e-6 * max(before, 1e-2), (name, what, before, after)


def test_a_stall_shows() -> None:
    data = least_squares(12, "tall")
    eta = 0.9 / data.client_L
    stalled = pdmm.solve(data.problem, pdmm.FedAvg(eta, 5), 2000).certificate
    assert stalled.consensus is not None
    assert stalled.consensus > 1e-3
    assert stalled.stationarity > 1e-3
