"""The mathematics: one file per method, the PDMM family sharing one core."""

from pdmm.methods.agpdmm import AGPDMM
from pdmm.methods.base import Method
from pdmm.methods.checking import check
from pdmm.methods.fedavg import FedAvg
from pdmm.methods.feddyn import FedDyn
from pdmm.methods.fedprox import FedProx
from pdmm.methods.fedsplit import FedSplit
from pdmm.methods.gpdmm import GPDMM
from pdmm.methods.gradient_descent import GradientDescent
from pdmm.methods.inexact_fedsplit import InexactFedSplit
from pdmm.methods.lbfgs import LBFGS
from pdmm.methods.newton import Newton
from pdmm.methods.pdmm import PDMM
from pdmm.methods.scaffold import Scaffold

__all__ = [
    "AGPDMM",
    "GPDMM",
    "LBFGS",
    "PDMM",
    "FedAvg",
    "FedDyn",
    "FedProx",
    "FedSplit",
    "GradientDescent",
    "InexactFedSplit",
    "Method",
    "Newton",
    "Scaffold",
    "check",
]
