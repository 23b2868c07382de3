"""Where clients run: in this process, unless an engine of these says otherwise."""

from pdmm.engines.mpi import MPI
from pdmm.engines.sites.federated import Federated as Sites
from pdmm.engines.sites.site import Site

__all__ = ["MPI", "Site", "Sites"]
