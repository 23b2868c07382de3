"""The clients' functions: value, gradient, local steps and exact steps."""

from pdmm.problems.base import Problem
from pdmm.problems.constants import Constants
from pdmm.problems.elementary import Absolute, Quadratic, Zero
from pdmm.problems.functions import Functions
from pdmm.problems.glm import GLM, Huber
from pdmm.problems.lazy import Lazy
from pdmm.problems.least_squares import LeastSquares
from pdmm.problems.softmax import SoftmaxRegression

__all__ = [
    "GLM",
    "Absolute",
    "Constants",
    "Functions",
    "Huber",
    "Lazy",
    "LeastSquares",
    "Problem",
    "Quadratic",
    "SoftmaxRegression",
    "Zero",
]
