"""PDMM on any graph: node functions, constraints on the edges, no server."""

from pdmm.graphs.network import Network
from pdmm.graphs.result import NetworkResult
from pdmm.graphs.solve import solve_network
from pdmm.graphs.vectors import NodeVectors

__all__ = ["Network", "NetworkResult", "NodeVectors", "solve_network"]
