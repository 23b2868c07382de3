"""Naive twins of the methods, in the message form in which the paper writes them.

Every multiplier is explicit, every client has its turn in a loop, every local step is a line:
slow and plain, so that they can be checked against the paper by reading. Line numbers are
those of its Algorithms 1 and 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Gradient = Callable[[int, Vector, int], Vector]
Prox = Callable[[int, Vector, float], Vector]
Eta = float | Callable[[int], float]


def of_round(eta: Eta, r: int) -> float:
    """A step size, which may be a callable of the round, from 1 on; r counts from 0."""
    return eta(r + 1) if callable(eta) else eta


def no_regulariser(v: Vector, t: float) -> Vector:
    return v


@dataclass
class Network:
    """A server and its clients, who answer questions about their functions."""

    m: int
    x0: Vector
    gradient: Gradient
    """gradient(i, x, step): of f_i at x; step counts client i's gradient steps from 0."""
    prox: Prox
    """prox(i, anchor, rho): argmin f_i(x) + rho/2 ‖x - anchor‖²."""
    weights: Sequence[float] = field(default=())
    server_prox: Callable[[Vector, float], Vector] = no_regulariser
    """server_prox(v, t): argmin h(x) + ‖x - v‖²/(2 t)."""

    def __post_init__(self) -> None:
        self.weights = list(self.weights) or [1.0] * self.m

    @property
    def total_weight(self) -> float:
        return sum(self.weights)

    def mean(self, vectors: Sequence[Vector]) -> Vector:
        total = np.zeros_like(self.x0)
        for w, v in zip(self.weights, vectors, strict=True):
            total = total + w * v
        return total / self.total_weight

    def server_estimate(self, uploads: Sequence[Vector], rho: float) -> Vector:
        """x_s from what the clients sent: their mean, or the regulariser's prox of it."""
        return self.server_prox(self.mean(uploads), 1 / (rho * self.total_weight))


def _start(net: Network, rho: float) -> tuple[Vector, list[Vector], list[Vector]]:
    """x_s^1, the uploads that would have led to it, lam_{s|i}^1 (0 without a regulariser)."""
    uploads = [net.x0.copy() for _ in range(net.m)]
    x_s = net.server_estimate(uploads, rho)
    return x_s, uploads, [rho * (upload - x_s) for upload in uploads]


def _relaxed(relaxation: float, x_i: Vector, lam_i: Vector, z_i: Vector, rho: float) -> Vector:
    """What client i sends: x_i - lam_{i|s}/rho, or only part of the way there from z_i."""
    return z_i + relaxation * (x_i - lam_i / rho - z_i)


def _server_dual(
    relaxation: float, x_i: Vector, lam_i: Vector, z_i: Vector, x_s: Vector, rho: float
) -> Vector:
    """lam_{s|i} = rho (x_i - x_s) - lam_{i|s}, or only part of the way there."""
    full = rho * (x_i - x_s) - lam_i  # eq. server_update
    return relaxation * full + (1 - relaxation) * rho * (z_i - x_s)


def pdmm(net: Network, rounds: int, rho: float, relaxation: float = 1.0) -> list[Vector]:
    x_s, z, lam_s = _start(net, rho)
    result = []
    for _ in range(rounds):
        x, lam, uploads = [], [], []
        for i in range(net.m):
            x.append(net.prox(i, x_s - lam_s[i] / rho, rho))  # eq. client_update
            lam.append(rho * (x_s - x[i]) - lam_s[i])
            uploads.append(_relaxed(relaxation, x[i], lam[i], z[i], rho))
        x_s = net.server_estimate(uploads, rho)  # eq. server_update
        for i in range(net.m):
            lam_s[i] = _server_dual(relaxation, x[i], lam[i], z[i], x_s, rho)
        z = uploads
        result.append(x_s)
    return result


def fedsplit(net: Network, rounds: int, gamma: float, relaxation: float = 1.0) -> list[Vector]:
    x_s, z, _ = _start(net, 1 / gamma)
    z_s = [2 * x_s - z[i] for i in range(net.m)]
    result = []
    for _ in range(rounds):
        for i in range(net.m):
            x_i = net.prox(i, z_s[i], 1 / gamma)  # eq. client_update_split
            z[i] = z[i] + relaxation * (2 * x_i - z_s[i] - z[i])
        x_s = net.server_estimate(z, 1 / gamma)  # eq. server_update_split
        z_s = [2 * x_s - z[i] for i in range(net.m)]
        result.append(x_s)
    return result


def inexact_fedsplit(
    net: Network,
    rounds: int,
    gamma: float,
    eta: float,
    K: int,
    start: str,
    relaxation: float = 1.0,
) -> list[Vector]:
    x_s, z, _ = _start(net, 1 / gamma)
    z_s = [2 * x_s - z[i] for i in range(net.m)]
    result = []
    for r in range(rounds):
        for i in range(net.m):
            x_i = {"anchor": z_s[i], "server": x_s}[start]  # the flaw, or Remark 2
            for k in range(K):  # eq. gradient_xi_fedsplit
                x_i = x_i - eta * (net.gradient(i, x_i, r * K + k) + (x_i - z_s[i]) / gamma)
            z[i] = z[i] + relaxation * (2 * x_i - z_s[i] - z[i])
        x_s = net.server_estimate(z, 1 / gamma)
        z_s = [2 * x_s - z[i] for i in range(net.m)]
        result.append(x_s)
    return result


def gpdmm(
    net: Network,
    rounds: int,
    eta: Eta,
    K: int,
    rho: float | None = None,
    iterate: str = "mean",
    relaxation: float = 1.0,
) -> list[Vector]:
    if rho is None:
        rho = 1 / (K * of_round(eta, 0))  # Alg. 1, line 1
    x_s, z, lam_s = _start(net, rho)
    x_own = [net.x0.copy() for _ in range(net.m)]  # Alg. 1, line 1: x_i^{0,K}
    result = []
    for r in range(rounds):  # Alg. 1, line 2
        step = of_round(eta, r)
        x, lam, uploads = [], [], []
        for i in range(net.m):  # Alg. 1, line 4
            x_k = x_own[i]  # Alg. 1, line 5
            iterates = []
            for k in range(K):  # Alg. 1, line 6
                slope = net.gradient(i, x_k, r * K + k) + rho * (x_k - x_s) + lam_s[i]
                x_k = x_k - slope / (1 / step + rho)  # Alg. 1, line 7
                iterates.append(x_k)
            x_own[i] = x_k
            x.append(
                sum(iterates, 0 * x_k) / K if iterate == "mean" else x_k
            )  # line 9, or Remark 1
            lam.append(rho * (x_s - x[i]) - lam_s[i])  # Alg. 1, line 9
            uploads.append(_relaxed(relaxation, x[i], lam[i], z[i], rho))  # Alg. 1, line 10
        x_s = net.server_estimate(uploads, rho)  # Alg. 1, line 12
        for i in range(net.m):  # Alg. 1, line 13
            lam_s[i] = _server_dual(relaxation, x[i], lam[i], z[i], x_s, rho)
        z = uploads
        result.append(x_s)
    return result


def agpdmm(
    net: Network,
    rounds: int,
    eta: Eta,
    K: int,
    rho: float | None = None,
    relaxation: float = 1.0,
) -> list[Vector]:
    if rho is None:
        rho = 1 / (K * of_round(eta, 0))  # Alg. 2, line 1
    x_s, z, lam_s = _start(net, rho)
    result = []
    for r in range(rounds):  # Alg. 2, line 2
        step = of_round(eta, r)
        x, lam, uploads = [], [], []
        for i in range(net.m):  # Alg. 2, line 4
            x_k = x_s  # Alg. 2, line 5
            for k in range(K):  # Alg. 2, line 6
                slope = net.gradient(i, x_k, r * K + k) + rho * (x_k - x_s) + lam_s[i]
                x_k = x_k - slope / (1 / step + rho)  # Alg. 2, line 7
            x.append(x_k)
            lam.append(rho * (x_s - x[i]) - lam_s[i])  # Alg. 2, line 9
            uploads.append(_relaxed(relaxation, x[i], lam[i], z[i], rho))  # Alg. 2, line 10
        x_s = net.server_estimate(uploads, rho)  # Alg. 2, line 12
        for i in range(net.m):  # Alg. 2, line 13
            lam_s[i] = _server_dual(relaxation, x[i], lam[i], z[i], x_s, rho)
        z = uploads
        result.append(x_s)
    return result


def scaffold(net: Network, rounds: int, eta: Eta, K: int, eta_g: float = 1.0) -> list[Vector]:
    x_s, c = net.x0.copy(), np.zeros_like(net.x0)
    c_own = [np.zeros_like(net.x0) for _ in range(net.m)]
    result = []
    for r in range(rounds):
        step = of_round(eta, r)
        changes_x, changes_c = [], []
        for i in range(net.m):
            x = x_s
            for k in range(K):  # eq. SCAFFOLD_client_update
                x = x - step * (net.gradient(i, x, r * K + k) - c_own[i] + c)
            c_new = c_own[i] - c + (x_s - x) / (K * step)
            changes_x.append(x - x_s)
            changes_c.append(c_new - c_own[i])
            c_own[i] = c_new
        x_s = x_s + eta_g * net.mean(changes_x)  # eq. SCAFFOLD_server_update
        c = c + net.mean(changes_c)
        result.append(x_s)
    return result


def fedavg(net: Network, rounds: int, eta: Eta, K: int) -> list[Vector]:
    x_s = net.x0.copy()
    result = []
    for r in range(rounds):
        step = of_round(eta, r)
        uploads = []
        for i in range(net.m):
            x = x_s
            for k in range(K):
                x = x - step * net.gradient(i, x, r * K + k)
            uploads.append(x)
        x_s = net.mean(uploads)
        result.append(x_s)
    return result


def fedprox(net: Network, rounds: int, eta: Eta, K: int, mu: float) -> list[Vector]:
    x_s = net.x0.copy()
    result = []
    for r in range(rounds):
        step = of_round(eta, r)
        uploads = []
        for i in range(net.m):
            x = x_s
            for k in range(K):
                x = x - step * (net.gradient(i, x, r * K + k) + mu * (x - x_s))
            uploads.append(x)
        x_s = net.mean(uploads)
        result.append(x_s)
    return result


def feddyn(net: Network, rounds: int, eta: Eta, K: int, alpha: float) -> list[Vector]:
    x_s, h = net.x0.copy(), np.zeros_like(net.x0)
    g = [np.zeros_like(net.x0) for _ in range(net.m)]
    result = []
    for r in range(rounds):
        step = of_round(eta, r)
        uploads = []
        for i in range(net.m):
            x = x_s
            for k in range(K):
                x = x - step * (net.gradient(i, x, r * K + k) - g[i] + alpha * (x - x_s))
            g[i] = g[i] - alpha * (x - x_s)
            uploads.append(x)
        mean = net.mean(uploads)
        h = h - alpha * (mean - x_s)
        x_s = mean - h / alpha
        result.append(x_s)
    return result


def gradient_descent(net: Network, rounds: int, eta: Eta) -> list[Vector]:
    x_s = net.x0.copy()
    result = []
    for r in range(rounds):
        step = of_round(eta, r)
        gradients = [net.gradient(i, x_s, r) for i in range(net.m)]
        x_s = net.server_prox(x_s - step * net.mean(gradients), step / net.total_weight)
        result.append(x_s)
    return result


def least_squares(A: Sequence[Any], b: Sequence[Any]) -> tuple[Gradient, Prox]:
    """Oracles of f_i(x) = 1/2 ‖A_i x - b_i‖²."""
    As = [np.asarray(part, dtype=np.float64) for part in A]
    bs = [np.asarray(part, dtype=np.float64) for part in b]

    def gradient(i: int, x: Vector, step: int) -> Vector:
        return As[i].T @ (As[i] @ x - bs[i])

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        H = As[i].T @ As[i] + rho * np.eye(len(anchor))
        return np.asarray(np.linalg.solve(H, As[i].T @ bs[i] + rho * anchor), np.float64)

    return gradient, prox


def softmax_gradient(X: Matrix, y: Any, classes: int, l2: float, x: Vector) -> Vector:
    """Gradient of mean cross-entropy + l2/2 ‖x‖²."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    p = np.exp(rows @ x.reshape(-1, classes))
    p = p / p.sum(axis=1, keepdims=True)
    return np.asarray((rows.T @ (p - np.eye(classes)[y])).ravel() / len(X) + l2 * x)


def softmax_parts(
    X: Matrix, y: Any, classes: int, l2: float, x: Vector
) -> tuple[float, Vector, Matrix]:
    """Value, gradient and Hessian of mean cross-entropy + l2/2 ‖x‖²."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    targets = np.eye(classes)[y]
    p = np.exp(rows @ x.reshape(-1, classes))
    p = p / p.sum(axis=1, keepdims=True)
    value = -float(np.log((p * targets).sum(axis=1)).mean()) + l2 / 2 * float(x @ x)
    gradient = softmax_gradient(X, y, classes, l2, x)
    hessian = l2 * np.eye(len(x))
    for row, q in zip(rows, p, strict=True):
        spread = np.diag(q) - np.outer(q, q)
        outer = row[:, None, None, None] * row[None, None, :, None] * spread[None, :, None, :]
        hessian = hessian + outer.reshape(len(x), len(x)) / len(X)
    return value, gradient, hessian


def newton(parts: Callable[[Vector], tuple[float, Vector, Matrix]], start: Vector) -> Vector:
    """Minimise a smooth, strongly convex function to rounding, by damped Newton steps."""
    x = start
    for _ in range(100):
        value, gradient, hessian = parts(x)
        step = np.linalg.solve(hessian, gradient)
        if float(gradient @ step) < 1e-8:
            break
        t = 1.0
        while parts(x - t * step)[0] > value - t / 4 * float(gradient @ step):
            t /= 2
        x = x - t * step
    for _ in range(3):  # values no longer tell which step is better, gradients still do
        _, gradient, hessian = parts(x)
        x = x - np.linalg.solve(hessian, gradient)
    return x


def softmax(
    X: Sequence[Any], y: Sequence[Any], classes: int, l2: float, batch_size: int | None = None
) -> tuple[Gradient, Prox]:
    """Oracles of softmax regression; mini-batches in stored order, a partial one left out."""
    Xs = [np.asarray(part, dtype=np.float64) for part in X]

    def gradient(i: int, x: Vector, step: int) -> Vector:
        rows, labels = Xs[i], np.asarray(y[i])
        if batch_size is not None:
            first = step % (len(rows) // batch_size) * batch_size
            rows, labels = rows[first : first + batch_size], labels[first : first + batch_size]
        return softmax_gradient(rows, labels, classes, l2, x)

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        def parts(x: Vector) -> tuple[float, Vector, Matrix]:
            value, slope, hessian = softmax_parts(Xs[i], y[i], classes, l2, x)
            away = x - anchor
            return (
                value + rho / 2 * float(away @ away),
                slope + rho * away,
                hessian + rho * np.eye(len(x)),
            )

        return newton(parts, anchor)

    return gradient, prox
