"""pdmm: federated optimisation with the primal-dual method of multipliers."""

import logging

from pdmm import engines, theory
from pdmm.certifying import certify
from pdmm.common.checks import ClientError
from pdmm.graphs import Network, NetworkResult, solve_network
from pdmm.links import Bursts, OnOff
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
from pdmm.problems import (
    Absolute,
    Constants,
    Functions,
    Lazy,
    LeastSquares,
    Problem,
    Quadratic,
    SoftmaxRegression,
    Zero,
)
from pdmm.regularisers import L1, Box, Regulariser, SquaredL2
from pdmm.result import Certificate, History, Result, Traffic
from pdmm.solve import resume, solve

__version__ = "0.1.0"

# A program that uses pdmm decides what becomes of its log; without a handler it is silent.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AGPDMM",
    "GPDMM",
    "L1",
    "PDMM",
    "Absolute",
    "Box",
    "Bursts",
    "Certificate",
    "ClientError",
    "Constants",
    "FedAvg",
    "FedSplit",
    "Functions",
    "GradientDescent",
    "History",
    "InexactFedSplit",
    "Lazy",
    "LeastSquares",
    "Method",
    "Network",
    "NetworkResult",
    "OnOff",
    "Problem",
    "Quadratic",
    "Regulariser",
    "Result",
    "Scaffold",
    "SoftmaxRegression",
    "SquaredL2",
    "Traffic",
    "Zero",
    "certify",
    "engines",
    "resume",
    "solve",
    "solve_network",
    "theory",
]
