"""One run, read off as rounds, numbers and seconds; and the best of many."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

import pdmm
from benchmarks.rounds.goals import Goal, Vector

Curvature = Literal["auto", "full", "diagonal", "none"]

TARGET = 1e-10  # of the first gap
COARSE = 1e-6  # the same, as docs/auto_results.md has it
ROUNDS = 400  # the most
HOPELESS = 1e6  # times the first gap: such a run is given up
MORE = 4  # rounds in which a certificate may still come, once the gap is small enough
SWEEP_ROUNDS = 200  # the most of a method that is swept
FACTORS = 2.0 ** np.arange(-3, 4)  # of its step size
LOCAL_STEPS = 5


@dataclass(frozen=True)
class Reached:
    """What it took to reach the target, where that was reached at all."""

    rounds: int | None = None
    coarse: int | None = None
    """Rounds to the coarser target."""
    numbers: float = np.nan
    """Sent by each client, in all."""
    seconds: float = np.nan
    proven: bool = False
    """Whether a certificate says so, at no cost of its own."""
    refused: str = ""
    """Why there was no run."""
    failed: str = ""
    """What broke it off."""
    most: int = ROUNDS

    def __str__(self) -> str:
        if self.refused:
            return "–"
        if self.failed:
            return "error"
        return f">{self.most}" if self.rounds is None else str(self.rounds)

    @property
    def number(self) -> float:
        """The rounds, infinite if the target was not reached."""
        return np.inf if self.rounds is None else self.rounds


@dataclass
class Watch:
    """Follows a run's gap, and stops the run when it has arrived or never will."""

    goal: Goal
    most: int
    impatient: bool = False
    """Whether it gives up where four times the speed of the last rounds would not do."""
    rounds: list[int] = field(default_factory=lambda: [0])
    gaps: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """Spent on watching."""

    def __post_init__(self) -> None:
        self.gaps.append(self.goal.first)

    def __call__(self, r: int, x: Any) -> bool:
        begun = perf_counter()
        self.rounds.append(r)
        gap = self.goal.gap(np.asarray(x, dtype=np.float64))
        self.gaps.append(gap if np.isfinite(gap) else np.inf)
        self.seconds += perf_counter() - begun
        hopeless = not self.gaps[-1] < HOPELESS * self.goal.first
        return self.first(TARGET) is not None or hopeless or (self.impatient and self._late(r))

    def first(self, target: float) -> int | None:
        """The first round that reached it."""
        limit = target * self.goal.first
        return next((r for r, g in zip(self.rounds, self.gaps, strict=True) if g <= limit), None)

    def _late(self, r: int) -> bool:
        if r < 30 or r % 10:
            return False
        before = max(self.gaps[-30:-15])
        now = max(self.gaps[-15:])
        speed = max(0.0, np.log(before / now)) / 15
        needed = np.log(self.gaps[-1] / (TARGET * self.goal.first))
        return bool(4 * speed * (self.most - r) < needed)


def run(
    goal: Goal,
    method: pdmm.Method | None,
    curvature: Curvature,
    most: int = ROUNDS,
    impatient: bool = False,
) -> Reached:
    """Rounds, numbers and seconds of one run to the target."""
    watch = Watch(goal, most, impatient)
    # Where it would stop before the target, it goes on: certified as often as it would be.
    endless = method is None and curvature != "full"
    begun = perf_counter()
    try:
        result = _solved(goal, method, curvature, most, watch, 1e-30 if endless else None)
    except np.linalg.LinAlgError as error:  # a ValueError, but nobody refused anything
        return Reached(failed=str(error), most=most)
    except (ValueError, NotImplementedError) as error:
        return Reached(refused=str(error), most=most)
    seconds = perf_counter() - begun - watch.seconds
    _before_the_first(watch, result, goal)
    rounds = watch.first(TARGET)
    if rounds is None:
        return Reached(coarse=_plus(watch.first(COARSE), goal), most=most)
    reached = Reached(
        rounds=_plus(rounds, goal),
        coarse=_plus(watch.first(COARSE), goal),
        numbers=_sent(result, goal, rounds),
        seconds=seconds,
        most=most,
    )
    if not result.method.knows_its_end:
        return reached
    return _proven(goal, method, curvature, reached, result)


def _solved(
    goal: Goal,
    method: pdmm.Method | None,
    curvature: Curvature,
    rounds: int,
    callback: Watch | None,
    tolerance: float | None,
) -> pdmm.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps that are too large are tried too
        return pdmm.solve(
            goal.problem,
            method,
            rounds=rounds,
            regulariser=goal.h,
            tolerance=tolerance,
            optimum=False,
            record_every=rounds,
            callback=callback,
            threads=1,
            curvature=curvature,
        )


def _before_the_first(watch: Watch, result: pdmm.Result, goal: Goal) -> None:
    """Add the point that came of measuring a metric, which no callback sees."""
    h = result.history
    for r, objective in zip(h["round"].tolist(), h["objective"].tolist(), strict=True):
        if r and r not in watch.rounds:
            where = next((k for k, seen in enumerate(watch.rounds) if seen > r), len(watch.rounds))
            watch.rounds.insert(where, r)
            watch.gaps.insert(where, objective - goal.lowest)


def _proven(
    goal: Goal,
    method: pdmm.Method | None,
    curvature: Curvature,
    reached: Reached,
    result: pdmm.Result,
) -> Reached:
    """Where certificates come with the rounds: how many it takes until one says so."""
    assert reached.rounds is not None
    for rounds in range(reached.rounds, reached.rounds + MORE + 1):
        if rounds > result.rounds:
            begun = perf_counter()
            result = _solved(goal, method, curvature, rounds, None, None)
            reached = replace(reached, seconds=perf_counter() - begun)
        gap = result.certificate.gap
        if gap is not None and gap <= TARGET * goal.first:
            sent = _sent(result, goal, result.rounds)
            return replace(reached, rounds=result.rounds, numbers=sent, proven=True)
    return reached


def _sent(result: pdmm.Result, goal: Goal, rounds: int) -> float:
    """Numbers that each client sent by then."""
    h = result.history
    row = int((h["round"] >= rounds).argmax())
    return float(h["bytes_up"][row]) / 8 / goal.problem.clients + goal.numbers


def _plus(rounds: int | None, goal: Goal) -> int | None:
    return None if rounds is None else rounds + goal.exchanges


# --- sweeps -----------------------------------------------------------------------------------


def swept(goal: Goal | None) -> dict[str, Reached]:
    """AGPDMM, SCAFFOLD and gradient descent, each with the best of its step sizes."""
    names = ("AGPDMM", "SCAFFOLD", "GD")
    if goal is None:
        return dict.fromkeys(names, Reached(refused="no such variables"))
    largest, mean = _steepness(goal)
    makers: dict[str, Callable[[float], pdmm.Method]] = {
        "AGPDMM": lambda s: pdmm.AGPDMM(step_size=s / largest, local_steps=LOCAL_STEPS),
        "SCAFFOLD": lambda s: pdmm.Scaffold(step_size=s / largest, local_steps=LOCAL_STEPS),
        "GD": lambda s: pdmm.GradientDescent(step_size=s / mean),
    }
    return {name: _best(goal, make) for name, make in makers.items()}


def _best(goal: Goal, make: Callable[[float], pdmm.Method]) -> Reached:
    best = Reached(most=SWEEP_ROUNDS)
    for factor in sorted(FACTORS, key=lambda f: abs(np.log(f))):
        most = SWEEP_ROUNDS if best.rounds is None else best.rounds - goal.exchanges - 1
        if most < 1:
            break
        tried = run(goal, make(float(factor)), "none", most, impatient=True)
        if tried.refused:
            return tried
        best = tried if tried.rounds is not None else best
    return best


def _steepness(goal: Goal) -> tuple[float, float]:
    """The largest eigenvalue of a client's Hessian at the optimum, and of their mean there."""
    problem = goal.problem
    assert isinstance(problem, pdmm.GLM)
    largest = 0.0
    total = np.zeros((problem.dimension, problem.dimension))
    for client in range(problem.clients):
        H: Vector = np.asarray(problem.at(slice(client, client + 1)).hessian(goal.x))[0]
        largest = max(largest, float(np.linalg.eigvalsh(H)[-1]))
        total += H / problem.clients
    return largest, float(np.linalg.eigvalsh(total)[-1])
