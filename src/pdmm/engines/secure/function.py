"""F of clients of whom only sums can be read: values, gradients, Hessians."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pdmm.engines.secure.layout import Layout, Part, Vector
from pdmm.problems.block import Floats
from pdmm.problems.sums import CertainGradient, CurvatureSum

Ask: TypeAlias = Callable[[str, Floats | None, Vector | None, Layout], dict[str, Vector]]
VALUE = Layout((Part("value", (), beyond=np.inf),))


class SummedFunction:
    """F, read as sums over sites.

    Args:
        ask: for a sum, by its verb, x, T and layout.
        dimension: of x.
        sites: how many there are.
    """

    def __init__(self, ask: Ask, dimension: int, sites: int) -> None:
        self.ask = ask
        self.dimension = dimension
        self.sites = sites

    def value(self, x: Floats) -> float:
        """F(x)."""
        return float(self.ask("value", x, None, VALUE)["value"])

    def certain_gradient(self, x: Floats) -> CertainGradient:
        """The gradient of F at x, with what rounding may have made of it."""
        shapes: dict[str, Any] = {"gradient": (self.dimension,)}
        layout = Layout.of_shapes(shapes | dict.fromkeys(("doubt", "terms", "calls"), ()))
        found = self.ask("gradient", x, None, layout)
        part = CertainGradient(
            gradient=found["gradient"],
            doubt=float(found["doubt"]),
            terms=float(found["terms"]),
            calls=float(found["calls"]),
        )
        return CertainGradient.sum([part], self.sites)

    def curvature(self, x: Floats | None, T: Vector | None) -> CurvatureSum:
        """F to second order at x, in T's coordinates."""
        k = self.dimension if T is None else T.shape[1]
        shapes: dict[str, Any] = {"gradient": (k,), "hessian": (k, k)}
        numbers = ("value", "doubt", "reach", "unsettled")
        found = self.ask("curvature", x, T, Layout.of_shapes(shapes | dict.fromkeys(numbers, ())))
        return CurvatureSum(
            value=float(found["value"]),
            gradient=found["gradient"],
            doubt=float(found["doubt"]),
            hessian=found["hessian"],
            reach=float(found["reach"]),
            unsettled=float(found["unsettled"]),
        )

    def diagonal(self, x: Floats) -> Vector:
        """The diagonal of F's Hessian, the entries with the intercepts, the gradient: (3, d)."""
        layout = Layout.of_shapes({"sums": (3, self.dimension)})
        return self.ask("diagonal", x, None, layout)["sums"]
