"""pdmm: federated optimisation with the primal-dual method of multipliers."""

from pdmm import theory
from pdmm.checks import ClientError
from pdmm.methods import (
    AGPDMM,
    GPDMM,
    PDMM,
    FedAvg,
    FedSplit,
    GradientDescent,
    InexactFedSplit,
    Method,
    Scaffold,
)
from pdmm.problems import Constants, Functions, LeastSquares, Problem, SoftmaxRegression
from pdmm.regularisers import L1, Box, Regulariser, SquaredL2
from pdmm.result import History, Result, Traffic
from pdmm.solve import solve

__version__ = "0.1.0"

__all__ = [
    "AGPDMM",
    "GPDMM",
    "L1",
    "PDMM",
    "Box",
    "ClientError",
    "Constants",
    "FedAvg",
    "FedSplit",
    "Functions",
    "GradientDescent",
    "History",
    "InexactFedSplit",
    "LeastSquares",
    "Method",
    "Problem",
    "Regulariser",
    "Result",
    "Scaffold",
    "SoftmaxRegression",
    "SquaredL2",
    "Traffic",
    "solve",
    "theory",
]
