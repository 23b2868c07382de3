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
    LBFGS,
    PDMM,
    FedAvg,
    FedSplit,
    GradientDescent,
    InexactFedSplit,
    Method,
    Newton,
    Scaffold,
)
from pdmm.problems import (
    GLM,
    Absolute,
    Constants,
    Functions,
    Huber,
    Lazy,
    LeastSquares,
    Problem,
    Quadratic,
    SoftmaxRegression,
    Zero,
)
from pdmm.regularisers import L1, Box, ElasticNet, Regulariser, SquaredL2
from pdmm.result import Certificate, History, Result, Traffic
from pdmm.solve import resume, solve

__version__ = "0.1.0"

# A program that uses pdmm decides what becomes of its log; without a handler it is silent.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AGPDMM",
    "GLM",
    "GPDMM",
    "L1",
    "LBFGS",
    "PDMM",
    "Absolute",
    "Box",
    "Bursts",
    "Certificate",
    "ClientError",
    "Constants",
    "ElasticNet",
    "FedAvg",
    "FedSplit",
    "Functions",
    "GradientDescent",
    "History",
    "Huber",
    "InexactFedSplit",
    "Lazy",
    "LeastSquares",
    "Method",
    "Network",
    "NetworkResult",
    "Newton",
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
