"""pdmm: federated optimisation with the primal-dual method of multipliers."""

import logging
from typing import TYPE_CHECKING, Any

from pdmm import data, engines, theory
from pdmm.certifying import certify
from pdmm.common.checks import ClientError
from pdmm.common.version import __version__
from pdmm.graphs import Network, NetworkResult, solve_network
from pdmm.links import Bursts, OnOff
from pdmm.methods import (
    AGPDMM,
    GPDMM,
    LBFGS,
    PDMM,
    FedAvg,
    FedDyn,
    FedProx,
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

# A program that uses pdmm decides what becomes of its log; without a handler it is silent.
logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from pdmm.problems.torch_model import TorchProblem as TorchProblem
    from pdmm.tables import fit as fit
    from pdmm.tables import load as load

_LAZY = ("TorchProblem", "fit", "load")
"""Public names that need the extras ``torch`` or ``tables``, and are loaded when first used."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pdmm' has no attribute {name!r}")
    if name == "TorchProblem":
        from pdmm.problems import torch_model

        return torch_model.TorchProblem
    from pdmm import tables

    return getattr(tables, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


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
    "FedDyn",
    "FedProx",
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
    "__version__",
    "certify",
    "data",
    "engines",
    "resume",
    "solve",
    "solve_network",
    "theory",
]
