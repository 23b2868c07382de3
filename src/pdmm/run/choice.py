"""Parameters that choose themselves: what "auto" means for every method, and why."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.methods import AGPDMM, PDMM, FedAvg, GradientDescent, InexactFedSplit, Scaffold
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.base import GradientSteps, Method
from pdmm.methods.family import Family, GradientFamily
from pdmm.problems.base import Problem
from pdmm.problems.constants import Constants
from pdmm.problems.least_squares import LeastSquares

RELAXATION = 0.9  # of full auto: PDMM's is 1, but below 1 every convex sum converges
FLATTEST = 1e-4  # mu/L below this does not lower the first rho any further
FLAT = 0.04  # what stands for mu/L where mu = 0: directions without curvature need no rho
INNER = 0.05  # what K gradient steps may leave of the distance to the exact step
MOST_STEPS = 100
LARGEST_RANK = 3000  # eigenbases of least squares beyond this cost more than gradient steps


@dataclass(frozen=True)
class Choice:
    """A method whose parameters are all numbers, and how they came about."""

    method: Method
    """The method as the user knows it."""
    running: Method
    """The same, or the one that adapts it during the run."""
    why: tuple[str, ...]
    """What was chosen and why, a sentence each."""
    smoothness: Constants | None = None
    strong_convexity: Constants | None = None
    estimated_step: bool = False
    """Whether the step size stands on an estimate of L, to be watched during the run."""

    def smaller_steps(self, largest: float) -> "Choice":
        """The same with a step size for a larger L, which was met during the run."""
        method: Any = self.method
        if largest * getattr(method, "step_size", 0.0) <= 1:
            return self
        changed: dict[str, float] = {"step_size": 1 / largest}
        if isinstance(method, GradientFamily):
            changed["rho"] = method.penalty
        smaller: Method = replace(method, **changed)
        running = (
            replace(self.running, inner=cast(Family, smaller))
            if isinstance(self.running, Adaptive)
            else smaller
        )
        return replace(self, method=smaller, running=running)


def choose(
    problem: Problem,
    method: Method | None,
    weights: npt.NDArray[np.float64],
    adaptive: bool = True,
) -> Choice:
    """Settle every "auto" of a method, or choose the method too.

    Args:
        problem: the clients' functions; its L and mu are asked for only if needed.
        method: with or without "auto"; None to choose it too.
        weights: of the clients.
        adaptive: whether rho may change during the run, for which all clients must take part
            in every round.

    Returns:
        The choice, with a sentence for everything that was chosen.
    """
    why: list[str] = []
    if method is None:
        method = _pick(problem, why, adaptive)
    if not adaptive and getattr(method, "acceleration", None):
        raise ValueError(
            "acceleration needs every client in every round, all messages, and full precision"
        )
    L = mu = None
    names = method.unsettled
    if names:
        try:
            L, mu = problem.smoothness(weights), problem.strong_convexity(weights)
        except ClientError:
            if not method.exact:
                raise
            goes_on = "starts at 1 and adapts" if adaptive else "is 1"
            why.append(f"{names[0]} {goes_on}: there are no gradients to judge by")
            method = replace(cast(Any, method), **{names[0]: 1.0})
        else:
            method = _settle(method, _Known(L, mu, float(weights.sum())), why, adaptive)
    running: Method = method
    if isinstance(method, Family):
        adapt = "rho" in names or "gamma" in names
        accelerate = method.acceleration == "anderson"
        if adaptive and (adapt or accelerate):
            running = Adaptive(method, adapt, accelerate, float(np.finfo(problem.dtype).eps))
    estimated = "step_size" in names and L is not None and L.kind == "estimate"
    return Choice(method, running, tuple(why), L, mu, estimated)


def with_own_steps(choice: Choice) -> Choice:
    """The choice for clients that take different numbers of steps; refuses what takes none."""
    method = choice.method
    if isinstance(method, Scaffold):
        return with_control(choice, "numbers of steps differ")
    if not isinstance(method, GradientSteps):
        raise ValueError(
            f"local_steps is for methods with local gradient steps: {type(method).__name__} takes "
            "none"
        )
    return choice


def with_control(choice: Choice, where: str) -> Choice:
    """The choice for links and clients where SCAFFOLD must send both of its vectors up."""
    method = choice.method
    if not isinstance(method, Scaffold) or method.send_control:
        return choice
    why = f"SCAFFOLD sends c_i' - c_i too: it does not follow from x_i - x_s where {where}"
    method = replace(method, send_control=True)
    return replace(choice, method=method, running=method, why=(*choice.why, why))


def _pick(problem: Problem, why: list[str], adaptive: bool) -> Method:
    rank = 0
    if isinstance(problem.here, LeastSquares):
        rank = cast(Any, problem).rank  # of all clients, wherever they are
    if not adaptive:
        if rank > LARGEST_RANK:
            why.append("AGPDMM: exact steps would need large eigenbases")
            return AGPDMM(rho="auto", relaxation=RELAXATION)
        why.append(f"PDMM with exact steps and relaxation {RELAXATION}: rounds are what costs")
        return PDMM(rho="auto", relaxation=RELAXATION)
    if rank > LARGEST_RANK:
        why.append(
            f"AGPDMM: the eigenbases that exact steps need would have {rank} vectors a client"
        )
        return AGPDMM(rho="auto", relaxation=RELAXATION, acceleration="anderson")
    why.append(
        "PDMM with exact steps, Anderson acceleration and relaxation "
        f"{RELAXATION}: rounds are what costs, and this converges on every convex sum that has "
        "a minimum"
    )
    return PDMM(rho="auto", relaxation=RELAXATION, acceleration="anderson")


@dataclass(frozen=True)
class _Known:
    """L and mu as a method needs them, and how they are said."""

    smoothness: Constants
    strong_convexity: Constants
    weight: float

    @property
    def L(self) -> float:
        return float(self.smoothness.clients.max()) or 1.0  # constant functions: any L will do

    @property
    def mu(self) -> float:
        return float(self.strong_convexity.clients.min())

    @property
    def estimated(self) -> bool:
        return self.smoothness.kind == "estimate"

    def __str__(self) -> str:
        return (
            f"L = {self.L:.3g} ({self.smoothness.kind}), "
            f"mu = {self.mu:.3g} ({self.strong_convexity.kind})"
        )

    def first_rho(self) -> float:
        """The square root of L mu of the mean client, mu taken as not much smaller than L."""
        L, mu = (float(c.clients.mean()) for c in (self.smoothness, self.strong_convexity))
        if L <= 0:
            return 1.0
        return L * math.sqrt(max(mu / L, FLATTEST) if mu > 0 else FLAT)

    def step_of_mean(self) -> float:
        """2/(L + mu) of the mean of the f_i; half of it where that is an estimate."""
        both = self.smoothness.overall + self.strong_convexity.overall
        return self.weight * (1 if self.estimated else 2) / both if both > 0 else 1.0


def _settle(method: Method, known: _Known, why: list[str], adaptive: bool = True) -> Method:
    """The method with numbers in place of "auto"."""
    names, values = method.unsettled, {}
    halved = ", halved because L is an estimate" if known.estimated else ""
    if isinstance(method, GradientDescent):
        step = known.step_of_mean()
        why.append(f"step_size {step:.3g}, 2/(L + mu) of the mean of the f_i{halved}")
        return replace(method, step_size=step)
    rho = known.first_rho()
    for name, value in (("rho", rho), ("gamma", 1 / rho)):
        if name in names:
            values[name] = value
            stays = "starts at" if adaptive else "is"
            changes = ", and adapts" if adaptive else " (it adapts only where all take part)"
            why.append(
                f"{name} {stays} {value:.3g}, from sqrt(L mu) of the mean client{changes}: {known}"
            )
    gamma = values.get("gamma", getattr(method, "gamma", None))
    penalty = 1 / gamma if gamma else values.get("rho", getattr(method, "rho", None))
    if "step_size" in names:
        steep = (2 if known.estimated else 1) * known.L + (1 / gamma if gamma else 0)
        values["step_size"] = 1 / steep
        formula = "1/(L + 1/gamma)" if gamma else "1/L"
        why.append(f"step_size {1 / steep:.3g}, {formula}{halved}: {known}")
    if "local_steps" in names:
        eta = values.get("step_size", getattr(method, "step_size", 1.0))
        values["local_steps"], reason = _steps(method, known, penalty, eta)
        why.append(f"local_steps {values['local_steps']}: {reason}")
    if "step_size" not in names and isinstance(method, GradientSteps) and method.eta * known.L > 2:
        warnings.warn(
            f"step_size={method.eta:g} is above 2/L = {2 / known.L:.3g} "
            f"({known.smoothness.kind}): the run may diverge; step_size='auto' takes 1/L",
            RuntimeWarning,
            stacklevel=5,  # the call of pdmm.solve
        )
    if isinstance(method, InexactFedSplit) and method.start == "anchor":
        why.append("start stays 'anchor', as published, which stalls; 'server' converges")
    changed: Method = replace(cast(Any, method), **values)
    return changed


def _steps(method: Method, known: _Known, penalty: float | None, eta: float) -> tuple[int, str]:
    """How many gradient steps a round, and why."""
    if isinstance(method, FedAvg):
        return 1, "with more, FedAvg does not reach the optimum"
    if isinstance(method, Scaffold):
        return 10, "SCAFFOLD gains little from more"
    if penalty is None:
        count = round(1 / (eta * math.sqrt(known.L * known.mu))) if known.mu > 0 else MOST_STEPS
        count = min(max(count, 1), MOST_STEPS)
        return count, "the paper's rho = 1/(K eta) is then nearest to sqrt(L mu)"
    step = eta if isinstance(method, InexactFedSplit) else 1 / (1 / eta + penalty)
    shrink = step * (known.mu + penalty)
    count = math.ceil(math.log(INNER) / math.log1p(-shrink)) if shrink < 1 else 1
    if count > MOST_STEPS:
        return MOST_STEPS, f"the most; {count} would leave {INNER:.0%} of the inner distance"
    return max(count, 1), f"they leave {INNER:.0%} of the distance to the exact step"
