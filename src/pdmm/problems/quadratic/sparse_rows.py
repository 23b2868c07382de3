"""Quadratics held as sparse data."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import PerClient
from pdmm.problems.block import Block, ClientRows, Floats
from pdmm.problems.quadratic.form import QuadraticBlock
from pdmm.problems.quadratic.rows import Rows


class SparseRows(Rows):
    """The data A_i, b_i as they are, of which only a few entries are not 0.

    A gradient costs two products with A_i. An exact step has no matrices to factorise: a general
    solver finds it, from such gradients alone.
    """

    def __init__(self, A: PerClient, b: PerClient, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(A, g, c)
        self.b = b

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "SparseRowsBlock":
        return SparseRowsBlock(self, clients)


class SparseRowsBlock(QuadraticBlock):
    """The functions of a block of clients whose data are sparse."""

    all: SparseRows

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        return Block.prox(self, anchor, rho, start, slack)

    def smooth(self, i: int) -> Callable[[npt.NDArray[np.float64]], tuple[float, Floats]]:
        client = np.arange(len(self.all.c))[self.clients][i]
        A = self.all.A[client].astype(np.float64, copy=False)
        b = self.all.b[client].astype(np.float64, copy=False)

        def value_and_gradient(x: npt.NDArray[np.float64]) -> tuple[float, Floats]:
            r = A @ x - b
            return 0.5 * float(r @ r), r @ A

        return value_and_gradient
