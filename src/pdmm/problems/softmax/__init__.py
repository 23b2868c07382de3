"""Softmax regression: mean cross-entropy of a linear classifier, plus l2/2 ‖x‖²."""

from pdmm.problems.softmax.block import SoftmaxBlock
from pdmm.problems.softmax.problem import SoftmaxRegression

__all__ = ["SoftmaxBlock", "SoftmaxRegression"]
