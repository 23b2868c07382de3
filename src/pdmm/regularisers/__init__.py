"""Regularisers h, which live at the server: F(x) = sum_i w_i f_i(x) + h(x)."""

from pdmm.regularisers.base import Regulariser
from pdmm.regularisers.box import Box
from pdmm.regularisers.elastic_net import ElasticNet
from pdmm.regularisers.l1 import L1
from pdmm.regularisers.separable import Pieces, Separable
from pdmm.regularisers.squared_l2 import SquaredL2

__all__ = ["L1", "Box", "ElasticNet", "Pieces", "Regulariser", "Separable", "SquaredL2"]
