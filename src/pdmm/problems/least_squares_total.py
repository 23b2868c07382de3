"""F of least squares as one quadratic: its minimum by a direct solve, gaps without cancellation."""

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.checks import PerClient
from pdmm.problems.base import Floats, Total

Vector = npt.NDArray[np.float64]


class _QuadraticTotal(Total):
    """F(x) = F_min + 1/2 (x - x_min)'H(x - x_min), in float64."""

    calls = 0  # nothing is asked of the clients

    x_min: Vector
    f_min: float

    def product(self, v: Floats) -> Vector:
        """H v."""
        raise NotImplementedError

    def divergence(self, x: Floats, y: Floats) -> float:
        v = np.subtract(x, y, dtype=np.float64)
        return 0.5 * float(v @ self.product(v))

    def value(self, x: Floats) -> float:
        return self.f_min + self.divergence(x, self.x_min)

    def gradient(self, x: Floats) -> Vector:
        return self.product(np.subtract(x, self.x_min, dtype=np.float64))


class DenseTotal(_QuadraticTotal):
    """At least as many samples as features: H is a d by d matrix."""

    def __init__(
        self,
        H: Vector,
        g: Vector,
        c: float,
        data: tuple[PerClient, PerClient] | None,
        weights: Vector,
    ) -> None:
        self.H, self.g, self.data, self.weights = H, g, data, weights
        self.x_min = self.minimiser(0.0)
        if data is None:
            self.f_min = c - float(g @ self.x_min) + 0.5 * float(self.x_min @ H @ self.x_min)
        else:  # from the residuals, which do not cancel
            residuals = (A @ self.x_min - b for A, b in zip(*data, strict=True))
            self.f_min = sum(
                0.5 * float(w) * float(r @ r) for w, r in zip(weights, residuals, strict=True)
            )

    def product(self, v: Floats) -> Vector:
        return self.H @ v

    def minimiser(self, l2: float) -> Vector:
        H = self.H + l2 * np.eye(len(self.H))
        factor, info = linalg.lapack.dpotrf(H)
        if info == 0:
            reciprocal, _ = linalg.lapack.dpocon(factor, np.abs(H).sum(0).max())
            if reciprocal > 1e-13:
                x = linalg.cho_solve((factor, False), self.g)
                return np.asarray(x + linalg.cho_solve((factor, False), self.g - H @ x))
        if self.data is None:
            return np.asarray(linalg.pinvh(H) @ self.g)
        roots = np.sqrt(self.weights)
        A = np.concatenate([w * A for w, A in zip(roots, self.data[0], strict=True)])
        b = np.concatenate([w * b for w, b in zip(roots, self.data[1], strict=True)])
        return _lstsq(A, b, l2)


class WideTotal(_QuadraticTotal):
    """Fewer samples than features: H stays the product A'A of the stacked data."""

    def __init__(self, A: Floats, b: Floats) -> None:
        self.A, self.b = A.astype(np.float64), b.astype(np.float64)
        self.x_min = self.minimiser(0.0)
        r = self.A @ self.x_min - self.b
        self.f_min = 0.5 * float(r @ r)

    def product(self, v: Floats) -> Vector:
        return (self.A @ v) @ self.A

    def minimiser(self, l2: float) -> Vector:
        if l2 == 0:
            return _lstsq(self.A, self.b, 0.0)
        K = self.A @ self.A.T + l2 * np.eye(len(self.A))
        return np.asarray(linalg.solve(K, self.b, assume_a="pos") @ self.A)


def _lstsq(A: Floats, b: Floats, l2: float) -> Vector:
    """The least-squares solution of smallest norm."""
    if l2:
        d = A.shape[1]
        A, b = np.concatenate([A, np.sqrt(l2) * np.eye(d)]), np.concatenate([b, np.zeros(d)])
    return np.asarray(linalg.lstsq(A.astype(np.float64), b.astype(np.float64))[0])
