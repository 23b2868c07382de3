"""What comes of a run: the result, and why it stopped, in words."""

import logging
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.methods.base import Method
from pdmm.methods.schedule import schedule_of
from pdmm.result import Result
from pdmm.run.build import Run
from pdmm.run.loop import ARRIVED, by_decrement, certificate_now, complete, judge, record
from pdmm.run.reasons import (
    Ended,
    advice,
    ended,
    stands_still,
    steps_too_long,
    warn,
    what_is_known,
)

log = logging.getLogger(__name__)


def stopped_early(run: Run) -> None:
    """Where a callback stopped the run: the last certificate and row, of the result alone."""
    if run.state.tolerance is not None and run.certificate is None:
        judge(run)
    if run.recorder.last_round != run.state.done:
        record(run)


def result(run: Run) -> Result:
    """What :func:`pdmm.solve` returns."""
    if run.stopped and not run.state.finished:
        stopped_early(run)
    complete(run)
    state = run.state
    certificate = run.certificate or certificate_now(run)
    run.certificate = certificate
    warn(run.clients, state.method.as_named, state.worst, quiet=run.clients.team.rank > 0)
    warned = _warned(run)
    reason = _reason(run) + warned.words
    log.info("%s after %d rounds: %s", type(state.method.as_named).__name__, state.done, reason)
    return Result(
        x=state.x,
        history=run.recorder.history(),
        reason=reason,
        diverged=warned.diverged,
        rounds=state.done,
        method=_as_given(run, state.method.ended(state.server)),
        traffic=run.recorder.traffic,
        optimum=run.objective.f_star,
        setup_seconds=run.setup_seconds,
        seed=run.settings.seed,
        certificate=certificate,
        scalars=state.method.scalars,
        choices=(*run.choice.why, *run.clients.remarks),
        smoothness=run.choice.smoothness,
        strong_convexity=run.choice.strong_convexity,
        sites=run.clients.shares(),
    )


def _as_given(run: Run, method: Method) -> Method:
    """The method as the user knows it: step sizes that were a callable are one again."""
    schedule = schedule_of(run.settings.method)
    return method if schedule is None else method.with_parameters(step_size=schedule)


def _reason(run: Run) -> str:
    state = run.state
    reason = state.reason or f"all {run.settings.rounds} rounds done"
    if run.stopped:
        reason = f"stopped by the callback after round {state.done}"
    if _missed_its_tolerance(run) and run.certificate is not None:
        wanted = f"tolerance={state.tolerance:g}"
        if by_decrement(run):
            wanted = f"{ARRIVED:g} of a standard error"
        reason += f", {wanted} not reached: {what_is_known(run.certificate)}"
    return reason


class Warned(NamedTuple):
    """What the user should know of how a run ended."""

    words: str = ""
    diverged: bool = False


def _warned(run: Run) -> Warned:
    """Whether the run ended above its start, or stands still because its steps are too long."""
    state = run.state
    certificate = run.certificate
    history = run.recorder.history()
    if "objective" not in history or state.diverged or state.proven or certificate is None:
        return Warned(diverged=state.diverged)
    objective = history["objective"]
    objective = objective[~np.isnan(objective)]  # where a site was away, F is not known
    if len(objective) < 2 or certificate.at_rounding:
        return Warned()
    named = state.method.as_named
    where = ended(objective)
    if where is not Ended.BELOW:
        moved = f"it went from {objective[0]:.6g} to {objective[-1]:.6g}"
        words = f", but the objective ended {where.value}: {moved}. {advice(named, run.clients)}"
        return Warned(words, diverged=where is Ended.FAR_ABOVE)
    if not _may_stand_still(run, objective) or not steps_too_long(named, run.clients):
        return Warned()
    L = run.clients.smoothness(run.settings.weights).overall
    if not stands_still(objective, certificate.stationarity, L):
        return Warned()
    left = f"‖grad F(x)‖ is still {certificate.stationarity:.3g}"
    return Warned(f", but the run stands still: {left}. {advice(named, run.clients)}")


def _may_stand_still(run: Run, objective: npt.NDArray[Any]) -> bool:
    """Whether it is worth finding L, which may take a while.

    Where step_size > 1/L_i, the L of F is above w_i/step_size; a larger L is judged more mildly.
    """
    step = getattr(run.state.method.as_named, "step_size", None)
    certificate = run.certificate
    if step is None or certificate is None:
        return False
    return stands_still(objective, certificate.stationarity, run.settings.weights.min() / step)


def _missed_its_tolerance(run: Run) -> bool:
    state = run.state
    if state.tolerance is None or state.proven or state.diverged or run.stopped:
        return False
    return state.done == run.settings.rounds
