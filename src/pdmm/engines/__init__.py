"""Where clients run: in this process, unless an engine of these says otherwise."""

from pdmm.engines.mpi import MPI
from pdmm.engines.sites.site import Site
from pdmm.engines.sites.sites import Sites

__all__ = ["MPI", "Site", "Sites"]
