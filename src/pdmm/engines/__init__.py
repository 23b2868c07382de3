"""Where clients run: in this process, unless an engine of these says otherwise."""

from pdmm.engines.mpi import MPI

__all__ = ["MPI"]
