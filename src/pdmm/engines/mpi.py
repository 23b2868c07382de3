"""Clients on many processes and machines: each rank of an MPI program holds some of them."""

import os
import socket
import sys
import time
from types import TracebackType
from typing import Any

import numpy as np

from pdmm.common.checks import whole
from pdmm.common.team import ElsewhereError, Team, Vector
from pdmm.engines.waiting import Waiting

MISSING = "engine=MPI() needs mpi4py and an MPI library: pip install 'pdmm[mpi]'"


class MPI:
    """The processes that ``mpirun`` started share a run, and each has the clients it built.

    Every rank calls :func:`pdmm.solve` with the same arguments, except for ``problem``, which
    has its own clients alone; every rank gets the same result. A round ends in one Allreduce.
    An error that nobody catches ends all ranks. A rank that has waited for the others for a minute
    says so on stderr, and again after two, four, eight: those that do not are the ones to look at.

    Args:
        communicator: of mpi4py; all processes (COMM_WORLD) if not given.

    Example:
        ``mpirun -n 4 python script.py``, with a script that says::

            mpi = pdmm.engines.MPI()
            mine = mpi.range(500)  # on rank 1 of 4: range(125, 250)
            problem = pdmm.LeastSquares.random(mine, 5000, 500)
            result = pdmm.solve(problem, pdmm.PDMM(rho=4500.0), 30, engine=mpi)
    """

    def __init__(self, communicator: Any = None) -> None:
        try:
            import mpi4py.MPI
        except ImportError as error:
            raise ImportError(f"{MISSING} ({error})") from None
        except RuntimeError as error:  # mpi4py is there, and the library that it calls is not
            raise ImportError(f"{MISSING} ({str(error).splitlines()[0]})") from None
        library: Any = mpi4py.MPI
        self.team = MPITeam(library.COMM_WORLD if communicator is None else communicator, library)
        if self.team.size > 1 and not isinstance(sys.excepthook, _EndAll):
            sys.excepthook = _EndAll(self.team)

    def __repr__(self) -> str:
        return f"MPI(rank {self.rank} of {self.size})"

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self.team.rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self.team.size

    def share_cores(self) -> int:
        """How many cores this process has to itself; all ranks must ask."""
        cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
        mine = socket.gethostname(), tuple(sorted(cores))
        return max(1, len(mine[1]) // self.team.gather(mine).count(mine))

    def range(self, clients: int) -> range:
        """Which of so many clients are this rank's: nearly equal shares, in the order of ranks."""
        m = whole("clients", clients, at_least=1)
        if m < self.size:
            raise ValueError(
                f"{m} clients cannot be shared by {self.size} ranks: start at most {m} (mpirun -n)"
            )
        edges = [k * m // self.size for k in (self.rank, self.rank + 1)]
        return range(*edges)


class MPITeam(Team):
    """The ranks of a communicator."""

    def __init__(self, communicator: Any, library: Any) -> None:
        self.communicator, self.library = communicator, library
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self.waiting = Waiting(self.rank, self.size)

    def sum(self, values: Vector) -> Vector:
        if self.size == 1:
            return values
        total = np.empty(np.shape(values))
        source = np.ascontiguousarray(values, dtype=np.float64)
        with self.waiting:
            self.communicator.Allreduce(source, total, op=self.library.SUM)
        return total

    def gather(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        with self.waiting:
            found: list[Any] = self.communicator.allgather(value)
        return found


class _EndAll:
    """Shows an error that nobody caught once, and ends all ranks: the others would wait forever."""

    def __init__(self, team: MPITeam) -> None:
        self.team = team

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ElsewhereError):
            time.sleep(10)  # the rank that failed says why, and ends this one
        else:
            # Where all ranks failed alike, the lowest one speaks, and ends the others in time.
            time.sleep(0.2 * min(self.team.rank, 10))
        sys.__excepthook__(kind, error, trace)
        sys.stderr.flush()
        self.team.communicator.Abort(1)
