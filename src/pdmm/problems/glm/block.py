"""A block of clients with a generalised linear model: gradients, Hessians, values and gaps."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import lengths
from pdmm.problems.block import Block, Floats, Vector
from pdmm.problems.curvature import Curvature
from pdmm.problems.glm.design import Design
from pdmm.problems.glm.exact import exact_steps
from pdmm.problems.glm.models import Look, Model

LARGEST_HESSIAN = 1000  # entries of x up to which exact steps take Hessians


class GLMBlock(Block):
    """The functions of a block of clients.

    Args:
        design: the clients' matrices.
        model: their outcomes.
        part: makes the block of some of its clients.
        intercepts: see ``Problem.intercepts``.
    """

    def __init__(
        self,
        design: Design,
        model: Model,
        part: Callable[[npt.NDArray[np.int64]], "GLMBlock"],
        intercepts: npt.NDArray[np.int64] | None,
    ) -> None:
        super().__init__(model.size)
        self.design = design
        self.model = model
        self.part = part
        self.intercepts = intercepts

    def _look(self, x: Floats) -> tuple[Vector, Look]:
        """Linear predictors and what they give; infinite where exp overflows."""
        eta = self.design.eta(x.astype(np.float64, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):
            look = self.model.look(eta)
            self._seen(eta, look)
            return eta, look

    def show(self, x: Floats) -> None:
        if self.watch is not None:
            self._look(x)

    def _seen(self, eta: Vector, look: Look | None = None) -> None:
        """Let the watch see all rows at these linear predictors."""
        if self.watch is None:
            return
        look = look or self.model.look(eta)
        bends = self.model.rows_bend(look)
        loss = self.model.mean_excess(look.value)
        columns = eta.reshape(len(eta), -1) if self.model.exponential else None
        for i in range(self.size):
            rows = self.design.rows(i)
            own = bends[rows] / self.model.w[rows].mean()
            self.watch(i, None if columns is None else columns[rows], own, float(loss[i]))

    # --- first order ------------------------------------------------------------------------

    def _gradient(self, x: Floats) -> Floats:
        _, look = self._look(x)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.design.gradient(look.slope)

    def value(self, x: Floats) -> Floats:
        eta = self.design.eta(x.astype(np.float64, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):
            self._seen(eta)
            return self.model.values(eta)

    def divergence(self, x: Floats, y: Floats) -> Floats:
        eta = self.design.eta(y.astype(np.float64, copy=False))
        t = self.design.change(np.subtract(x, y, dtype=np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            return self.model.divergence(eta, t)

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        self.tally.gradients += self.size
        eta, look = self._look(x)
        with np.errstate(over="ignore", invalid="ignore"):
            slack = self._slope_doubt(x, eta, look)
            doubt = lengths(self.design.gradient_doubt(look.slope, slack))
            return self.design.gradient(look.slope), doubt

    def _slope_doubt(self, x: Floats, eta: Vector, look: Look) -> Vector:
        doubt = self.design.eta_doubt(x.astype(np.float64, copy=False))
        return self.model.slope_doubt(look, eta, doubt)

    def smooth(self, i: int) -> Callable[[Vector], tuple[float, Floats]]:
        one = self.part(np.array([i]))

        def value_and_gradient(x: Vector) -> tuple[float, Floats]:
            _, look = one._look(x)
            with np.errstate(over="ignore", invalid="ignore"):
                return float(look.value[0]), one.design.gradient(look.slope)[0]

        return value_and_gradient

    def along(self, x: Floats, direction: Floats, t: Vector) -> Vector:
        eta = self.design.eta(x.astype(np.float64, copy=False))
        if not direction.any():
            return np.repeat(self.model.values(eta)[:, None], len(t), axis=1)
        change = self.design.change(direction.astype(np.float64, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):
            values = [self.model.values(eta + s * change) for s in t.tolist()]
        return np.stack(values, axis=-1)

    # --- second order -----------------------------------------------------------------------

    def hessian(self, x: Floats) -> Vector:
        return self._hessian(self._look(x)[1])

    def majorant(self, x: Floats) -> Vector:
        return self._hessian(self._look_around(x))

    def _look_around(self, x: Floats) -> Look:
        eta = self.design.eta(x.astype(np.float64, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):
            self._seen(eta)
            return self.model.look_around(eta)

    def _hessian(self, look: Look) -> Vector:
        d = self.design.dimension
        H = np.empty((self.size, d, d))
        with np.errstate(over="ignore", invalid="ignore"):
            for i, A in enumerate(self.design.A):
                H[i] = self.design.turned(self.model.hessian(i, A, look))
        return H

    def second_order(self, x: Vector) -> tuple[Vector, Vector, Vector]:
        """Values, gradients and Hessians at x."""
        _, look = self._look(x)
        with np.errstate(over="ignore", invalid="ignore"):
            return look.value, self.design.gradient(look.slope), self._hessian(look)

    def curvature(self, x: Floats, T: Vector | None = None) -> Curvature:
        self.tally.gradients += self.size
        self.tally.values += self.size
        eta, look = self._look(x)
        wide = x.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            doubt = self.design.eta_doubt(wide)
            slack = self.model.slope_doubt(look, eta, doubt)
            unsettled = self.model.unsettled(self.design.margins(eta), doubt)
            return self._in_coordinates(T, eta, look, slack)._replace(unsettled=unsettled)

    def working(self, T: Vector | None = None) -> Curvature:
        with np.errstate(over="ignore", invalid="ignore"):
            look, slack = self.model.working(self.design.offset)
            found = self._in_coordinates(T, self.design.offset, look, slack)
        return found._replace(reach=np.zeros(self.size))

    def _in_coordinates(
        self, T: Vector | None, eta: Vector, look: Look, slack: Vector
    ) -> Curvature:
        design = self.design
        rows_each = self.model.sums((self.model.w > 0).astype(np.float64))
        if T is None and design.turn is None:
            return Curvature(
                value=look.value,
                gradient=design.gradient(look.slope),
                doubt=lengths(design.gradient_doubt(look.slope, slack)),
                hessian=self._hessian(look),
                reach=self._reach(eta),
                unsettled=rows_each,
            )
        basis = design.coordinates(T)
        k = basis.shape[2]
        gradient = np.empty((self.size, k))
        hessian = np.empty((self.size, k, k))
        doubt = np.empty(self.size)
        reach = np.empty(self.size)
        for i in range(self.size):
            rows = design.rows(i)
            Z = design.in_coordinates(i, basis)
            slope = look.slope[rows].reshape(-1, len(Z))
            gradient[i] = sum(Zc.T @ slope[:, c] for c, Zc in enumerate(Z))
            hessian[i] = self.model.hessian_of(i, Z, look)
            doubt[i] = design.doubt_in_coordinates(i, Z, basis, look.slope, slack)
            reach[i] = self.model.reach(i, Z, eta[rows])
        return Curvature(look.value, gradient, doubt, hessian, reach, rows_each)

    def _reach(self, eta: Vector) -> Vector:
        """Where the coordinates are those of x."""
        each = enumerate(self.design.A)
        return np.array([self.model.reach_of_rows(i, A, eta[self.design.rows(i)]) for i, A in each])

    def diagonal(self, x: Floats) -> tuple[Vector, Vector]:
        look = self._look_around(x)
        with np.errstate(over="ignore", invalid="ignore"):
            found = [self._diagonal(i, look) for i in range(self.size)]
        return np.stack([own for own, _ in found]), np.stack([beside for _, beside in found])

    def _diagonal(self, i: int, look: Look) -> tuple[Vector, Vector]:
        bends = self.model.bends(i, look)
        if bends is not None:
            found = self.design.diagonal(i, bends, self.intercepts)
            if found is not None:
                return found
        H = self.design.turned(self.model.hessian(i, self.design.A[i], look))
        own = np.diag(H).copy()
        if self.intercepts is None:
            return own, np.zeros_like(own)
        return own, H[np.arange(len(own)), self.intercepts]

    # --- exact steps ------------------------------------------------------------------------

    def prox(
        self, anchor: Floats, rho: float | Vector, start: Floats, slack: Floats | None = None
    ) -> Floats:
        """Minimise f_i(x) + rho/2 ‖x - anchor‖², or (x - anchor)'P_i(x - anchor)/2, by Newton.

        rho is a number or matrices P (b, d, d).
        """
        if isinstance(rho, float | int) and self.design.dimension > LARGEST_HESSIAN:
            return super().prox(anchor, float(rho), start, slack)
        return exact_steps(self, anchor, rho, start, slack)
