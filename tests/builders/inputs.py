"""Data of three clients, right, and to be spoilt."""

from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm

Array = npt.NDArray[Any]
nan, inf = float("nan"), float("inf")
A = [np.eye(3), 2 * np.eye(3), np.ones((4, 3))]
B = [np.ones(3), np.zeros(3), np.ones(4)]


def least_squares() -> pdmm.LeastSquares:
    return pdmm.LeastSquares(A, B)


def quadratics(
    m: int = 3, gradient: dict[int, Any] | None = None, value: dict[int, Any] | None = None
) -> pdmm.Functions:
    """f_i(x) = 1/2 ‖x - i‖² in two dimensions, some functions replaced."""
    values = [lambda x, i=i: 0.5 * float(((x - i) ** 2).sum()) for i in range(m)]
    gradients = [lambda x, i=i: x - i for i in range(m)]
    for functions, new in ((values, value), (gradients, gradient)):
        for i, function in (new or {}).items():
            functions[i] = function
    return pdmm.Functions(values, gradients, dimension=2)


def softmax(dtype: Any) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((9, 3)).astype(dtype) for _ in range(5)]
    return pdmm.SoftmaxRegression(rows, [rng.integers(0, 3, 9) for _ in rows], classes=3, l2=1.0)


def scaled(dtype: Any, scale: float) -> pdmm.LeastSquares:
    rng = np.random.default_rng(1)
    rows = (scale * rng.standard_normal((5, 30, 4))).astype(dtype)
    return pdmm.LeastSquares(rows, rng.standard_normal((5, 30)).astype(dtype))
