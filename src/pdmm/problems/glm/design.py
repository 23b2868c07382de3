"""Linear predictors of a block's rows: products with the clients' matrices, in any variables."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, dense
from pdmm.common.rounding import gamma
from pdmm.common.variables import Mixed, Scaled, Variables

Vector = npt.NDArray[np.float64]


class Design:
    """eta = A_i v + offset for the rows of b clients, with v = x or v = T x.

    Where a row has C linear predictors, v is a matrix (q, C) in row order.

    Args:
        A: one matrix (n_i, q) for each client, dense or sparse.
        starts: (b + 1,): where each client's rows begin, and the end.
        offset: (N,) or (N, C).
        given: (N,): the part of it that the user gave: the rest belongs to x.
        turn: T, where x is not what the matrices are multiplied with.
    """

    def __init__(
        self,
        A: list[Matrix],
        starts: npt.NDArray[np.int64],
        offset: Vector,
        given: Vector,
        turn: Variables | None = None,
    ) -> None:
        self.A = A
        self.starts = starts
        self.offset = offset
        self.given = given
        self.turn = turn
        self.columns = offset.shape[1] if offset.ndim == 2 else None
        self.features = int(A[0].shape[1])
        self.dimension = self.features * (self.columns or 1)

    def rows(self, i: int) -> slice:
        """The i-th client's rows."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    def eta(self, x: Vector) -> Vector:
        """Linear predictors at x, which is (d,) or (b, d)."""
        return self.change(x) + self.offset

    def change(self, x: Vector) -> Vector:
        """What x adds to the linear predictors."""
        v = x if self.turn is None else self.turn.times(x)
        return self._products(v, absolute=False)

    def margins(self, eta: Vector) -> Vector:
        """The linear predictors without the offset that was given."""
        return eta - self.given

    def eta_doubt(self, x: Vector) -> Vector:
        """How far rounding can move the linear predictors at x."""
        v = np.abs(x)
        if self.turn is not None:
            v = absolute(self.turn).times(v)
        sizes = self._products(v, absolute=True) + np.abs(self.offset) + np.abs(self.given)
        return gamma(self.features + self._turned + 4) * sizes

    @property
    def _turned(self) -> int:
        """How many products in a row T adds."""
        return 0 if self.turn is None else self.dimension + 4

    def _products(self, v: Vector, absolute: bool) -> Vector:
        shape = (self.features,) if self.columns is None else (self.features, self.columns)
        each = v.reshape(*v.shape[:-1], *shape)
        out = np.empty_like(self.offset)
        for i, A in enumerate(self.A):
            own = each if v.ndim == 1 else each[i]
            out[self.rows(i)] = (abs(A) if absolute else A) @ own
        return out

    def gradient(self, slope: Vector) -> Vector:
        """(b, d): the gradients, of the slopes in eta."""
        g = self._sums(slope, absolute=False)
        return g if self.turn is None else self.turn.transposed(g)

    def gradient_doubt(self, slope: Vector, doubt: Vector) -> Vector:
        """(b, d): how far rounding can move them, where slopes are off by ``doubt``."""
        slack = np.empty_like(doubt)
        for i, A in enumerate(self.A):
            rows = self.rows(i)
            operations = A.shape[0] + self._turned + 4
            slack[rows] = 1.01 * doubt[rows] + gamma(operations) * np.abs(slope[rows])
        g = self._sums(slack, absolute=True)
        return g if self.turn is None else absolute(self.turn).transposed(g)

    def _sums(self, slope: Vector, absolute: bool) -> Vector:
        out = np.empty((len(self.A), self.dimension))
        for i, A in enumerate(self.A):
            out[i] = ((abs(A) if absolute else A).T @ slope[self.rows(i)]).ravel()
        return out

    def turned(self, H: Vector) -> Vector:
        """T' H T, of a Hessian in v."""
        if self.turn is None:
            return H
        return self.turn.transposed(self.turn.transposed(H).T)

    def diagonal(
        self, i: int, bends: Vector, intercepts: npt.NDArray[np.int64] | None
    ) -> tuple[Vector, Vector] | None:
        """The diagonal of the i-th client's Hessian and its entries with the intercepts, (d,).

        None where T mixes the columns, so that the whole Hessian is needed.

        Args:
            i: which client.
            bends: (n, C): second derivatives by the entries of eta, of rows that are alone.
            intercepts: which entry of x is the intercept of each; None where there is none.
        """
        if isinstance(self.turn, Mixed):
            return None
        A = self.A[i]
        own = np.asarray((A * A).T @ bends).ravel()
        beside = np.zeros_like(own)
        if intercepts is not None:
            column = dense(A[:, [self.features - 1]])
            beside = np.asarray(A.T @ (bends * column)).ravel()
        if self.turn is None:
            return own, beside
        assert isinstance(self.turn, Scaled)
        means = self.turn.means
        scale = self.turn.scale
        if intercepts is None:
            return scale**2 * own, beside
        square = own[intercepts]
        own = scale**2 * (own - 2 * means * beside + means**2 * square)
        return own, scale * scale[intercepts] * (beside - means * square)

    # --- in the coordinates of x + T y ------------------------------------------------------

    def coordinates(self, T: Vector | None) -> Vector:
        """(q, C, k): what v changes by, with y."""
        T = np.eye(self.dimension) if T is None else T
        whole = T if self.turn is None else self.turn.times(T.T).T
        return whole.reshape(self.features, self.columns or 1, -1)

    def in_coordinates(self, i: int, T: Vector) -> list[Vector]:
        """The i-th client's rows times T (q, C, k), for each of the C linear predictors."""
        return [np.asarray(dense(self.A[i] @ T[:, c])) for c in range(T.shape[1])]

    def doubt_in_coordinates(
        self, i: int, Z: list[Vector], T: Vector, slope: Vector, doubt: Vector
    ) -> float:
        """How far rounding can move the i-th client's Z' slope, as a norm."""
        rows = self.rows(i)
        A = abs(self.A[i])
        own = slope[rows].reshape(-1, len(Z))
        slack = 1.01 * doubt[rows].reshape(-1, len(Z)) + gamma(own.size + 4) * np.abs(own)
        moved = np.zeros(T.shape[2])
        for c, Zc in enumerate(Z):
            moved += np.abs(Zc).T @ slack[:, c]
            # The rows times T are rounded themselves.
            sizes = A.T @ (np.abs(own[:, c]) + slack[:, c])
            moved += gamma(self.features + self._turned + 4) * (sizes @ np.abs(T[:, c]))
        return float(np.linalg.norm(moved))


def absolute(variables: Variables) -> Variables:
    """The change of variables whose products bound the sizes of all that cancels."""
    if isinstance(variables, Mixed):
        return replace(variables, T=np.abs(variables.T))
    assert isinstance(variables, Scaled)
    return replace(variables, means=-np.abs(variables.means))
