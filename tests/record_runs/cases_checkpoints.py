"""Runs that are stopped and taken up from their files, gone on with, or had finished."""

from pathlib import Path
from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.cases_automatic import ESTIMATED
from record_runs.cases_links import AG, EVERYTHING, EXACT, GP, SCAFFOLD, SLOW, stragglers, turn
from record_runs.cases_methods import SOFTMAX, W
from record_runs.registry import Case, M, add, caught, run, solve

STOPPED: dict[str, Case] = {
    "agpdmm": (p.squares, AG, {"rounds": 25}),
    "gpdmm weights": (p.squares, GP, {"rounds": 25, "weights": W, "record_every": 4}),
    "scaffold": (p.squares, SCAFFOLD, {"rounds": 25, "optimum": False}),
    "pdmm float32": (p.squares32, EXACT, {"rounds": 25}),
    "lasso": (p.squares, EXACT, {"rounds": 25, "regulariser": pdmm.L1(100.0), "tolerance": 1e-9}),
    "box": (p.squares, EXACT, {"rounds": 25, "regulariser": pdmm.Box(-0.5, np.ones(p.D))}),
    "automatic": (p.squares, None, {"x0": np.full(p.D, 10.0), "tolerance": 1e-20}),
    "automatic softmax": (p.softmax, None, {"rounds": 25}),
    "automatic functions": (p.functions, None, {"rounds": 20, "tolerance": 1e-13}),
    "own rho": (p.softmax, pdmm.GPDMM(rho="auto"), {"rounds": 20, "state": "server"}),
    "anderson": (p.softmax, pdmm.AGPDMM(rho="auto", acceleration="anderson"), {"rounds": 20}),
    "loss": (p.squares, AG, {"rounds": 30, "loss": 0.3, "participation": 0.5}),
    "bits": (p.squares, GP, {"rounds": 30, "bits": 4}),
    "bits raised": (p.squares, GP, {"rounds": 200, "bits": 2, "record_every": 10}),
    "everything": (p.squares, AG, {"rounds": 40, **EVERYTHING}),
    "bursts and going": (
        p.squares,
        GP,
        {"rounds": 30, "loss": pdmm.Bursts(0.2, 0.4), "availability": pdmm.OnOff(0.3, 0.5)},
    ),
    "batches": (p.batches, SOFTMAX["agpdmm"], {"rounds": 20, "participation": 0.5}),
    "steepening": (p.steepening, pdmm.AGPDMM(step_size="auto", local_steps=4), {"rounds": 20}),
    "steepening links": ESTIMATED["agpdmm links"],
    "exact functions": (p.functions, pdmm.PDMM(rho=1.0), {"rounds": 15}),
    "lazy": (p.lazy_evaluated, SLOW, {"rounds": 25, "participation": 0.4, "loss": 0.1}),
}


def stop_and_go_on(folder: Path, case: Case, at: int) -> dict[str, pdmm.Result]:
    """The whole run, the same stopped by a callback, and what was made of it."""
    path = folder / "run.safetensors"
    stopped = solve(case, checkpoint=path, every=3, callback=lambda r, x: r == at)
    resumed = pdmm.resume(path, case[0](range(M)))
    return {"whole": solve(case), "stopped": stopped, "resumed": resumed}


for name, case in STOPPED.items():
    at = 150 if name == "bits raised" else 8
    add(f"checkpoints/{name}", stop_and_go_on, case, at)


@run("checkpoints/more rounds")
def more_rounds(folder: Path) -> Any:
    path = folder / "run"
    given: dict[str, Any] = {"participation": 0.5, "loss": 0.1, "bits": 8}
    short = pdmm.solve(p.factorised(range(M)), AG, 10, checkpoint=path, **given)
    longer = pdmm.resume(path, p.factorised(range(M)), rounds=25, every=4)
    again = pdmm.resume(path, p.factorised(range(M)))
    return {"short": short, "longer": longer, "again": again}


@run("checkpoints/finished")
def finished(folder: Path) -> Any:
    path = folder / "run"
    whole = pdmm.solve(p.squares(range(M)), EXACT, 100, tolerance=1e-8, checkpoint=path)
    again = pdmm.resume(path, p.squares(range(M)))
    more = pdmm.resume(path, p.squares(range(M)), rounds=150)
    return {"whole": whole, "again": again, "more": more}


@run("checkpoints/diverged")
def diverged(folder: Path) -> Any:
    path = folder / "run"
    whole = pdmm.solve(p.squares(range(M)), pdmm.AGPDMM(1.0, 5), 50, checkpoint=path)
    return {"whole": whole, "again": pdmm.resume(path, p.squares(range(M)))}


@run("checkpoints/several stops")
def several_stops(folder: Path) -> Any:
    """Stopped in rounds 5, 6 and 14, on one thread and on two."""
    path = folder / "run"
    given: dict[str, Any] = {"rounds": 30, **EVERYTHING, "checkpoint": path, "every": 4}
    problem = p.squares(range(M))
    first = pdmm.solve(problem, GP, **given, callback=lambda r, x: r == 5)
    second = pdmm.resume(path, problem, threads=2, callback=lambda r, x: r == 6)
    third = pdmm.resume(path, problem, threads=1, callback=lambda r, x: r == 14)
    return first, second, third, pdmm.resume(path, problem)


@run("checkpoints/callables")
def callables(folder: Path) -> Any:
    """What is code is given again."""
    path = folder / "run"
    given: dict[str, Any] = {"participation": turn, "local_steps": stragglers}
    problem = p.squares(range(M))
    stopped = pdmm.solve(
        problem, GP, 25, **given, checkpoint=path, callback=lambda r, x: r == 12, every=5
    )
    without = caught(lambda: pdmm.resume(path, problem))
    return {
        "stopped": stopped,
        "without": without,
        "resumed": pdmm.resume(path, problem, **given),
    }


@run("checkpoints/a client that fails")
def failing(folder: Path) -> Any:
    """The run goes on once the client works again."""
    path, method = folder / "run", pdmm.AGPDMM(0.3, 3)
    error = caught(
        lambda: pdmm.solve(p.breaking(range(M), 30), method, 20, checkpoint=path, every=2)
    )
    return {"error": error, "resumed": pdmm.resume(path, p.functions(range(M)))}


@run("checkpoints/refused")
def refused(folder: Path) -> Any:
    path, problem = folder / "run", p.squares(range(M))
    pdmm.solve(problem, AG, 10, checkpoint=path)
    return [
        caught(lambda: pdmm.solve(problem, AG, 10, checkpoint=path)),
        caught(lambda: pdmm.resume(path, p.squares(range(M - 1)))),
        caught(lambda: pdmm.resume(path, p.stacked(range(M)))),
        caught(lambda: pdmm.resume(path, problem, rounds=7)),
        caught(lambda: pdmm.resume(path, problem, method=GP)),
        caught(lambda: pdmm.resume(folder / "nothing", problem)),
    ]
