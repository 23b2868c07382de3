"""MPI: two ranks against one, a thread each, and what a round spends on communication."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import pdmm
from benchmarks.timing import heading, peak_gigabytes
from pdmm.engines.mpi import MPITeam

CLIENTS, FEATURES = 500, 500
SAMPLES = 1000  # a fifth of the paper's: a round sees A'A alone, and they take long to make
ROUNDS, TURNS = 30, 4
LONG = (1_000_000, 10_000_000)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
METHODS = {
    "AGPDMM, K = 20": pdmm.AGPDMM(step_size=1e-4, local_steps=20, rho=500.0),
    "AGPDMM, K = 1": pdmm.AGPDMM(step_size=1e-4, local_steps=1, rho=500.0),
    "PDMM, exact steps": pdmm.PDMM(rho=500.0),
}


def mpirun(ranks: int, *arguments: str) -> str:
    program = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [program, *root, "--oversubscribe", "-n", str(ranks), sys.executable]
    done = subprocess.run(
        [*command, "-m", "benchmarks.mpi", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def main() -> None:
    heading(f"Least squares, {CLIENTS} clients, d = {FEATURES}: two ranks against one")
    found = json.loads(mpirun(2, "efficiency").splitlines()[-1])
    print(f"  {'a round, ms':20s} {'1 rank':>8s} {'2 ranks':>8s} {'efficiency':>11s}")
    for name, (one, two, inside, bare) in found["rounds"].items():
        print(f"  {name:20s} {1e3 * one:8.1f} {1e3 * two:8.1f} {one / two / 2:11.2f}")
        share = f"{100 * inside / two:.1f}% of the round in Allreduce, with waiting for the slower"
        print(f"  {'':20s} {share}; {100 * bare / two:.2f}% without")
    print(f"  two processes reading memory, each its half, against one: {found['read']:.2f}")
    print(f"  same iterates: {found['apart']:.0e} apart")
    heading("Allreduce of float64 between two ranks of one machine")
    print(f"  {'numbers':>12s} {'seconds':>10s} {'GB/s':>7s}")
    for length, seconds in found["allreduce"].items():
        print(f"  {int(length):12,d} {seconds:10.2e} {8e-9 * int(length) / seconds:7.2f}")

    heading("Long vectors: a client a rank, one gradient step a round")
    for d in LONG:
        found = json.loads(mpirun(2, "long", str(d)).splitlines()[-1])
        print(
            f"  d = {d:10,d}: a round {found['round']:.3f} s, of which Allreduce "
            f"{found['inside']:.4f} s; a rank's memory: {found['vectors']:.0f} d numbers"
        )


def long_vector(d: int) -> None:
    """As rank 0 or 1: what a round costs where all is the length of x."""
    import mpi4py.MPI

    library: Any = mpi4py.MPI
    mpi = pdmm.engines.MPI()
    mpi.team = timed = Timed(library.COMM_WORLD, library)
    A = np.random.default_rng(mpi.rank).standard_normal((1, 2, d))
    before = peak_gigabytes()
    result = pdmm.solve(
        pdmm.LeastSquares(A, np.ones((1, 2))),
        pdmm.AGPDMM(step_size=1e-8, local_steps=1, rho=1e4),
        6,
        record_every=6,
        optimum=False,
        engine=mpi,
        threads=1,
    )
    rounds = float(result.history["seconds"][-1] - result.history["seconds"][0]) / 6
    inside = float(np.median(sorted(timed.times)[-6:]))
    vectors = (peak_gigabytes() - before) * 1e9 / (8 * d)
    if mpi.rank == 0:
        print(json.dumps({"round": rounds, "inside": inside, "vectors": vectors}), flush=True)


def efficiency() -> None:
    """As rank 0 or 1: runs of both, and of rank 0 alone, in turns."""
    import mpi4py.MPI

    library: Any = mpi4py.MPI

    world = library.COMM_WORLD
    both, alone = pdmm.engines.MPI(world), pdmm.engines.MPI(library.COMM_SELF)
    mine = pdmm.LeastSquares.random(both.range(CLIENTS), SAMPLES, FEATURES).factorise()
    whole = (
        pdmm.LeastSquares.random(CLIENTS, SAMPLES, FEATURES).factorise() if both.rank == 0 else mine
    )
    rounds, apart = {}, 0.0
    for name, method in METHODS.items():
        ones, twos, inside = [], [], []
        for _ in range(TURNS):
            x = None
            if both.rank == 0:
                result = run(whole, method, alone)
                ones.append(typical(result))
                x = result.x
            quiet_barrier(world)
            both.team = timed = Timed(world, library)
            result = run(mine, method, both)
            twos.append(typical(result))
            inside.append(float(np.median(timed.times[-ROUNDS:])))
            if x is not None:
                apart = max(apart, float(np.abs(result.x - x).max() / np.abs(x).max()))
        best = int(np.argmin(twos))
        bare = allreduce(world, FEATURES + 30)
        rounds[name] = [min(ones or [0.0]), twos[best], inside[best], bare]
    read = reading(world)
    lengths = {str(n): allreduce(world, n) for n in LENGTHS}
    if both.rank == 0:
        found = {"rounds": rounds, "apart": apart, "allreduce": lengths, "read": read}
        print(json.dumps(found), flush=True)


def run(problem: pdmm.LeastSquares, method: pdmm.Method, engine: pdmm.engines.MPI) -> pdmm.Result:
    return pdmm.solve(problem, method, ROUNDS, engine=engine, threads=1)


def typical(result: pdmm.Result) -> float:
    """The best quarter of the rounds: what is left is the machine's other work."""
    return float(np.quantile(np.diff(result.history["seconds"]), 0.25))


class Timed(MPITeam):
    """Ranks that keep the time of their sums."""

    def __init__(self, communicator: Any, library: Any) -> None:
        super().__init__(communicator, library)
        self.times: list[float] = []

    def sum(self, values: Any) -> Any:
        start = perf_counter()
        total = super().sum(values)
        self.times.append(perf_counter() - start)
        return total


def quiet_barrier(world: Any) -> None:
    """Wait for the other without spinning: it may need the memory's whole speed."""
    request = world.Ibarrier()
    while not request.Test():
        time.sleep(0.001)


def allreduce(world: Any, length: int) -> float:
    import mpi4py.MPI

    library: Any = mpi4py.MPI

    values, total, times = np.ones(length), np.empty(length), []
    for _ in range(max(5, min(300, 30_000_000 // length))):
        world.Barrier()
        start = perf_counter()
        world.Allreduce(values, total, op=library.SUM)
        times.append(perf_counter() - start)
    return float(np.median(times))


def reading(world: Any) -> float:
    """How much faster two processes read memory than one: the limit of what two ranks can gain."""
    data = np.ones(2**27 // 8 * 2)
    best = [np.inf, np.inf]
    for _ in range(5):
        if world.Get_rank() == 0:
            start = perf_counter()
            data.max()
            best[0] = min(best[0], perf_counter() - start)
        quiet_barrier(world)
        world.Barrier()
        start = perf_counter()
        data[: len(data) // 2].max()
        world.Barrier()
        best[1] = min(best[1], perf_counter() - start)
    return float(best[0] / best[1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["efficiency"]:
        efficiency()
    elif sys.argv[1:2] == ["long"]:
        long_vector(int(sys.argv[2]))
    else:
        main()
