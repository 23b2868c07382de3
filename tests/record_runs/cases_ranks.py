"""Clients on several ranks: as threads, through a communicator made here, and by a real MPI."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.cases_links import AG, EVERYTHING, EXACT, GP, SCAFFOLD, SLOW, STEPS
from record_runs.cases_methods import SOFTMAX, SQUARES, W
from record_runs.plain import flatten
from record_runs.registry import Case, M, add, caught, run, solve


class Meeting:
    """What the ranks share: a place for each, and points at which all wait for all."""

    def __init__(self, size: int) -> None:
        self.places: list[Any] = [None] * size
        self.barrier = Barrier(size, timeout=60)


class Communicator:
    """Rank k of a meeting, with the calls of mpi4py."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank = meeting, rank

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return len(self.meeting.places)

    def allgather(self, value: Any) -> list[Any]:
        self.meeting.places[self.rank] = value
        self.meeting.barrier.wait()
        found = list(self.meeting.places)
        self.meeting.barrier.wait()
        return found

    def Allreduce(self, source: Any, target: Any, op: Any = None) -> None:
        target[...] = sum(self.allgather(source.copy()))


def on_ranks(size: int, work: Callable[[pdmm.engines.MPI], Any]) -> list[Any]:
    """What the work returns on each of so many ranks, or raises there."""
    meeting = Meeting(size)

    def rank(k: int) -> Any:
        try:
            return work(pdmm.engines.MPI(Communicator(meeting, k)))
        except Exception:
            meeting.barrier.abort()  # the others must not wait for one that is gone
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(rank, k) for k in range(size)]
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, BrokenBarrierError):
            raise error
    return [future.result() for future in futures]


def solve_on(mpi: pdmm.engines.MPI, case: Case, **more: Any) -> pdmm.Result:
    """A case, of which this rank has its share of the clients."""
    make, method, arguments = case
    return pdmm.solve(make(mpi.range(M)), method, engine=mpi, **{**arguments, **more})


RANKS: dict[str, Case] = {
    "agpdmm": (p.squares, AG, {"rounds": 20, "record_every": 3}),
    "gpdmm weights": (p.squares, GP, {"rounds": 20, "weights": W}),
    "pdmm": (p.squares, EXACT, {"rounds": 20}),
    "fedsplit float32": (p.squares32, SQUARES["fedsplit"], {"rounds": 20}),
    "scaffold": (p.squares, SCAFFOLD, {"rounds": 20, "weights": W}),
    "fedavg": (p.squares, SQUARES["fedavg"], {"rounds": 15}),
    "descent": (p.squares, SQUARES["descent"], {"rounds": 15}),
    "lasso": (p.squares, EXACT, {"rounds": 25, "regulariser": pdmm.L1(300.0), "tolerance": 1e-9}),
    "wide": (p.wide, pdmm.PDMM(rho=2.0), {"rounds": 20}),
    "wide automatic": (p.wide, None, {"rounds": 40}),
    "factorised": (p.factorised, pdmm.PDMM(rho=20.0), {"rounds": 15}),
    "softmax": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 12}),
    "softmax optimum": (p.softmax, SOFTMAX["pdmm"], {"rounds": 8, "optimum": np.zeros(10)}),
    "batches": (p.batches, SOFTMAX["agpdmm"], {"rounds": 12, "record_every": 3}),
    "functions": (p.functions, pdmm.AGPDMM(0.3, 3), {"rounds": 12, "optimum": 20.0}),
    "functions own steps": (p.functions, pdmm.AGPDMM(rho="auto"), {"rounds": 15}),
    "steepening": (p.steepening, pdmm.AGPDMM(step_size="auto", local_steps=4), {"rounds": 20}),
    "not convex": (p.not_convex, pdmm.GPDMM(rho="auto"), {"rounds": 12, "x0": np.full(2, 9.0)}),
    "prox": (p.with_prox, pdmm.PDMM(rho=0.7, relaxation=0.8), {"rounds": 30}),
    "diagonals": (p.diagonals, pdmm.PDMM(rho="auto"), {"rounds": 25, "tolerance": 1e-14}),
    "automatic": (p.squares, None, {}),
    "automatic softmax": (p.softmax, None, {"rounds": 40}),
    "automatic functions": (p.functions, None, {"tolerance": 1e-10}),
    "automatic absolute": (p.absolute, None, {"rounds": 40}),
    "anderson": (p.softmax, pdmm.GPDMM(rho="auto", acceleration="anderson"), {"rounds": 20}),
    "some": (p.squares, AG, {"rounds": 30, "participation": 0.25, "seed": 3}),
    "everything": (p.squares, AG, {"rounds": 40, **EVERYTHING}),
    "everything softmax": (p.softmax, SOFTMAX["gpdmm mean"], {"rounds": 20, **EVERYTHING}),
    "everything scaffold": (p.squares, SCAFFOLD, {"rounds": 25, **EVERYTHING}),
    "bits raised": (p.squares, GP, {"rounds": 150, "bits": 2, "record_every": 10}),
    "own numbers of steps": (
        p.softmax,
        SOFTMAX["gpdmm last"],
        {"rounds": 15, "local_steps": STEPS, "availability": pdmm.OnOff(0.3, 0.5)},
    ),
    "server state": (p.softmax, pdmm.GPDMM(rho="auto"), {"rounds": 12, "state": "server"}),
    "stopped": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 20, "callback": lambda r, x: r == 7}),
    "diverges": (p.squares, pdmm.FedAvg(1.0, 9), {"rounds": 60}),
    "lazy": (p.lazy, SLOW, {"rounds": 15, "participation": 0.5}),
}
BY_THREE = ("agpdmm", "softmax", "functions", "automatic", "everything", "softmax optimum", "lazy")


def solve_on_all(folder: Path, size: int, case: Case) -> list[Any]:
    """A case on so many ranks: the results of all."""
    return on_ranks(size, lambda mpi: solve_on(mpi, case))


for name, case in RANKS.items():
    for size in (2, 3) if name in BY_THREE else (2,) if len(name) % 2 else (3,):
        add(f"ranks {size}/{name}", solve_on_all, size, case)


def stop_and_go_on(folder: Path, case: Case, first: int, then: int) -> Any:
    """A run stopped on some ranks, and taken up on as many others."""
    path = folder / "run"

    def stop(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return solve_on(mpi, case, checkpoint=path, every=3, callback=lambda r, x: r == 8)

    def go_on(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.resume(path, case[0](mpi.range(M)), engine=mpi)

    if first == 1:
        stopped: Any = solve(case, checkpoint=path, every=3, callback=lambda r, x: r == 8)
    else:
        stopped = on_ranks(first, stop)
    return stopped, pdmm.resume(path, case[0](range(M))) if then == 1 else on_ranks(then, go_on)


for name, first, then in (
    ("everything", 3, 3),
    ("everything", 1, 3),
    ("everything", 3, 1),
    ("softmax", 3, 2),
    ("anderson", 2, 3),
    ("steepening", 2, 2),
    ("batches", 2, 1),
):
    add(f"ranks {first} then {then}/{name}", stop_and_go_on, RANKS[name], first, then)


@run("ranks 2/a client that fails")
def failing(folder: Path) -> Any:
    """Every rank says so."""
    case: Case = (lambda clients: p.breaking(clients, 30), pdmm.AGPDMM(0.3, 3), {"rounds": 20})
    return on_ranks(2, lambda mpi: caught(lambda: solve_on(mpi, case)))


@run("ranks 2/asked for different things")
def different(folder: Path) -> Any:
    case: Case = (p.squares, AG, {})
    return on_ranks(2, lambda mpi: caught(lambda: solve_on(mpi, case, rounds=10 + mpi.rank)))


REAL = ("agpdmm", "softmax optimum", "functions own steps", "everything", "automatic", "anderson")


@run("ranks by mpirun 2")
def by_mpirun(folder: Path) -> Any:
    """Some of the cases on two ranks of a real MPI."""
    out = folder / "results.pkl"
    program = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"
    options = ["--oversubscribe", "-n", "2"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    done = subprocess.run(
        [program, *options, sys.executable, "-m", "record_runs", "worker", str(out)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mpirun failed: {done.stderr[-2000:]}")
    return pickle.loads(out.read_bytes())


def worker(out: Path) -> None:
    """What a rank that mpirun started does; rank 0 writes what came out."""
    mpi = pdmm.engines.MPI()
    found: dict[str, Any] = {}
    for name in REAL:
        flatten(f"{name} on rank {mpi.rank}", solve_on(mpi, RANKS[name]), found)
    if mpi.rank == 0:
        out.write_bytes(pickle.dumps(found))
