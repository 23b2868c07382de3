"""Multinomial logistic regression: a row has one linear predictor for each class but one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, row_squares
from pdmm.common.rounding import gamma
from pdmm.problems.glm.families import EVALUATED, exp_remainder
from pdmm.problems.glm.models import Look, Model, gram

Vector = npt.NDArray[np.float64]


class MultinomialModel(Model):
    """Rows whose outcomes are classes.

    Args:
        starts: where each client's rows begin, and the end.
        w: the weights of the rows.
        Y: (N, C): 1 where a row is of a class, 0 elsewhere. Without a reference, every row has a
            1; with one, the rows of the reference have none.
        reference: whether there is one: a class whose linear predictor is 0.
    """

    columns: int

    def __init__(
        self, starts: npt.NDArray[np.int64], w: Vector, Y: Vector, reference: bool
    ) -> None:
        super().__init__(starts, w)
        self.Y = Y
        self.columns = int(Y.shape[1])
        self.reference = reference

    def _log_sum(self, eta: Vector) -> tuple[Vector, Vector, Vector]:
        """The largest of eta (N,); exp of eta less that; and the sum of those over the classes."""
        top = eta.max(1)
        if self.reference:
            top = np.maximum(top, 0.0)
        E = np.exp(eta - top[:, None])
        total = E.sum(1)
        if self.reference:
            total = total + np.exp(-top)
        return top, E, total

    def probabilities(self, eta: Vector) -> Vector:
        """(N, C): those of the classes but the reference."""
        _, E, total = self._log_sum(eta)
        return np.asarray(E / total[:, None])

    def _rest(self, eta: Vector, P: Vector) -> Vector:
        """(N,): the probability of the reference; 0 where there is none."""
        if not self.reference:
            return np.zeros(len(P))
        top, _, total = self._log_sum(eta)
        return np.asarray(np.exp(-top) / total)

    def look(self, eta: Vector) -> Look:
        top, E, total = self._log_sum(eta)
        P = E / total[:, None]
        # log total + top - eta_y, the two largest terms taken together: they may cancel
        own = (self.Y * eta).sum(1)
        loss = np.log(total) + (top - own)
        rest = self._rest(eta, P)
        slope = np.where(self.Y == 1, -_others(P, rest), P)  # p - y
        weighed = np.where(self.w > 0, self.w * loss, 0.0)
        return Look(self.sums(weighed), self.w[:, None] * slope, np.column_stack([P, rest]))

    def values(self, eta: Vector) -> Vector:
        top, _, total = self._log_sum(eta)
        loss = np.log(total) + (top - (self.Y * eta).sum(1))
        return self.sums(np.where(self.w > 0, self.w * loss, 0.0))

    def divergence(self, eta: Vector, t: Vector) -> Vector:
        # As in softmax regression: log1p of the mean of exp(s) - 1 - s, s the change of the
        # linear predictors about its mean under p.
        P = self.probabilities(eta)
        rest = self._rest(eta, P)
        mean = (P * t).sum(1)
        s = t - mean[:, None]
        near = np.log1p((P * exp_remainder(s)).sum(1) + rest * exp_remainder(-mean))
        before, _, sum_before = self._log_sum(eta)
        after, _, sum_after = self._log_sum(eta + t)
        far = np.log(sum_after / sum_before) + (after - before) - mean
        size = np.maximum(np.abs(s).max(1), np.abs(mean) * self.reference)
        each = np.where(size < 1, near, np.maximum(far, 0.0))
        return self.sums(np.where(self.w > 0, self.w * each, 0.0))

    def working(self, eta: Vector) -> tuple[Look, Vector]:
        classes = self.columns + int(self.reference)
        mu = (self.w[:, None] * self.Y + 1 / classes) / (self.w[:, None] + 1)
        own = self.w if self.reference else np.zeros_like(self.w)
        rest = (own * (1 - self.Y.sum(1)) + 1 / classes) / (self.w + 1)
        start = np.log(mu) - np.log(rest)[:, None] * int(self.reference)
        if not self.reference:
            rest = np.zeros_like(rest)
        r = eta - start
        slope = mu - self.Y
        bent = mu * r - mu * (mu * r).sum(1, keepdims=True)
        loss = -np.log(np.where(self.Y.any(1), (self.Y * mu).sum(1), rest))
        value = loss + (slope * r).sum(1) + (r * bent).sum(1) / 2
        look = Look(
            self.sums(self.w * value),
            self.w[:, None] * (slope + bent),
            np.column_stack([mu, rest]),
        )
        sizes = 1 + 4 * (np.abs(eta) + np.abs(start)).max(1, keepdims=True)
        return look, EVALUATED * self.w[:, None] * np.broadcast_to(sizes, eta.shape)

    def rows_bend(self, look: Look) -> Vector:
        P = look.bend if self.reference else look.bend[:, :-1]
        return np.asarray(self.w[:, None] * P * (1 - P))

    def hessian(self, i: int, A: Matrix, look: Look) -> Vector:
        rows = self.rows(i)
        P = look.bend[rows, :-1]
        w = self.w[rows]
        others = _others(P, look.bend[rows, -1])
        q = int(A.shape[1])
        H = np.empty((q, self.columns, q, self.columns))
        for c in range(self.columns):
            H[:, c, :, c] = gram(A, w * P[:, c] * others[:, c])
            for k in range(c):
                block = gram(A, -w * P[:, c] * P[:, k])
                H[:, c, :, k] = block
                H[:, k, :, c] = block
        return H.reshape(q * self.columns, q * self.columns)

    def hessian_of(self, i: int, Z: Sequence[Vector], look: Look) -> Vector:
        # About their mean, the squares of each row's Z_c add up without cancellation.
        rows = self.rows(i)
        P = look.bend[rows, :-1]
        w = self.w[rows]
        mean = sum((P[:, c, None] * Zc for c, Zc in enumerate(Z)), np.zeros_like(Z[0]))
        H = gram(mean, w * look.bend[rows, -1])
        for c, Zc in enumerate(Z):
            H += gram(Zc - mean, w * P[:, c])
        return H

    def slope_doubt(self, look: Look, eta: Vector, doubt: Vector) -> Vector:
        # Where no linear predictor is off by more than e, p is off by p (e^2e - 1) at most.
        e = doubt.max(1, keepdims=True)
        P = look.bend[:, :-1]
        size = np.where(self.Y == 1, _others(P, look.bend[:, -1]), P)
        spread = np.abs(eta).max(1, keepdims=True)  # of eta less its largest, which is rounded
        inside = np.expm1(2 * e + gamma(4) * spread) + EVALUATED + gamma(4 * self.columns)
        return np.asarray(1.01 * self.w[:, None] * size * inside)

    def reach(self, i: int, Z: Sequence[Vector], eta: Vector) -> float:
        # ‖a - b‖² = a·a + b·b - 2 a·b, rounded upwards: differences of all pairs would be copies.
        used = self.w[self.rows(i)] > 0
        own = [np.einsum("rk,rk->r", Zc, Zc) for Zc in Z]
        slack = 4 * gamma(Z[0].shape[1] + 4)
        largest = 0.0
        for c, Zc in enumerate(Z):
            beside = [
                (1 + slack) * (own[c] + own[k]) - 2 * np.einsum("rk,rk->r", Zc, Z[k])
                for k in range(c)
            ]
            if self.reference:
                beside.append((1 + slack) * own[c])
            for squares in beside:
                size = float(np.max(squares, where=used, initial=0.0))
                if np.isnan(size):  # of two squares that overflow, the difference is not known
                    return np.inf
                largest = max(largest, size)
        return largest

    def reach_of_rows(self, i: int, A: Matrix, eta: Vector) -> float:
        # Two classes differ by a row in the one and minus that row in the other.
        alone = self.reference and self.columns == 1
        largest = np.max(row_squares(A), where=self.w[self.rows(i)] > 0, initial=0.0)
        return float(largest if alone else 2 * largest)

    def bends(self, i: int, look: Look) -> Vector:
        rows = self.rows(i)
        P = look.bend[rows, :-1]
        return np.asarray(self.w[rows, None] * P * _others(P, look.bend[rows, -1]))

    def unsettled(self, margins: Vector, doubt: Vector) -> Vector:
        own = (self.Y * margins).sum(1)
        others = np.where(self.Y == 1, -np.inf, margins).max(1)
        if self.reference:
            others = np.where(self.Y.any(1), np.maximum(others, 0.0), others)
        settled = own - others > 2 * doubt.max(1)
        return self.sums((~settled & (self.w > 0)).astype(np.float64))


def _others(P: Vector, rest: Vector) -> Vector:
    """(N, C): 1 - p, as the sum of all other probabilities."""
    C = P.shape[1]
    before = np.zeros_like(P)
    after = np.zeros_like(P)
    for c in range(1, C):
        before[:, c] = before[:, c - 1] + P[:, c - 1]
        after[:, C - 1 - c] = after[:, C - c] + P[:, C - c]
    return np.asarray(before + after + rest[:, None])
