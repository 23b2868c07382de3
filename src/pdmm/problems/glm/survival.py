"""Cox's model for a block of clients, each of which has risk sets of its own."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, dense
from pdmm.problems.glm.cox import PartialLikelihood
from pdmm.problems.glm.models import Look, Model

Vector = npt.NDArray[np.float64]


class CoxModel(Model):
    """Clients whose rows are in the order of their partial likelihoods.

    Args:
        starts: where each client's rows begin, and the end.
        w: the weights of the rows, which the likelihoods know already.
        likelihoods: one for each client.
    """

    def __init__(
        self,
        starts: npt.NDArray[np.int64],
        w: Vector,
        likelihoods: list[PartialLikelihood],
    ) -> None:
        super().__init__(starts, w)
        self.likelihoods = likelihoods

    def look(self, eta: Vector) -> Look:
        slope = [f.slope(eta[self.rows(i)]) for i, f in enumerate(self.likelihoods)]
        return Look(self.values(eta), np.concatenate(slope), eta)

    def values(self, eta: Vector) -> Vector:
        return np.array([f.value(eta[self.rows(i)]) for i, f in enumerate(self.likelihoods)])

    def divergence(self, eta: Vector, t: Vector) -> Vector:
        each = (
            f.divergence(eta[self.rows(i)], t[self.rows(i)]) for i, f in enumerate(self.likelihoods)
        )
        return np.array(list(each))

    def working(self, eta: Vector) -> tuple[Look, Vector]:
        look = self.look(eta)
        return look, self.slope_doubt(look, eta, np.zeros_like(eta))

    def rows_bend(self, look: Look) -> Vector:
        # Each risk set weighs its rows by exp(eta): where one outweighs all others, the mean over
        # the set is that row.
        bends = np.empty((len(look.bend), 1))
        for i in range(self.size):
            eta = look.bend[self.rows(i)]
            bends[self.rows(i), 0] = self.w[self.rows(i)] * np.exp(eta - eta.max())
        return bends

    def hessian(self, i: int, A: Matrix, look: Look) -> Vector:
        return self.likelihoods[i].hessian(dense(A), look.bend[self.rows(i)])

    def hessian_of(self, i: int, Z: Sequence[Vector], look: Look) -> Vector:
        return self.hessian(i, Z[0], look)

    def slope_doubt(self, look: Look, eta: Vector, doubt: Vector) -> Vector:
        each = [
            f.slope_doubt(eta[self.rows(i)], doubt[self.rows(i)])
            for i, f in enumerate(self.likelihoods)
        ]
        return np.concatenate(each)

    def unsettled(self, margins: Vector, doubt: Vector) -> Vector:
        each = [
            f.unsettled(margins[self.rows(i)], doubt[self.rows(i)])
            for i, f in enumerate(self.likelihoods)
        ]
        return np.array(each, dtype=np.float64)

    def reach(self, i: int, Z: Sequence[Vector], eta: Vector) -> float:
        return self.likelihoods[i].reach(Z[0])

    def reach_of_rows(self, i: int, A: Matrix, eta: Vector) -> float:
        return self.likelihoods[i].reach(dense(A))
