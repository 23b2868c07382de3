"""Where clients run: in this process, unless an engine of these says otherwise."""

from pdmm.engines.mpi import MPI
from pdmm.engines.sites.site import Site
from pdmm.engines.sites.sites import Sites
from pdmm.privacy import Policy, Refused, Spent

__all__ = ["MPI", "Policy", "Refused", "Site", "Sites", "Spent"]
