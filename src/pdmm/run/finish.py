"""What comes of a run: the result, and why it stopped, in words."""

import logging

from pdmm.result import Result
from pdmm.run.build import Run
from pdmm.run.loop import certificate_now, complete, judge, record
from pdmm.run.reasons import advice, grows, warn, what_is_known

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
    reason = _reason(run)
    log.info("%s after %d rounds: %s", type(state.method.as_named).__name__, state.done, reason)
    return Result(
        x=state.x,
        history=run.recorder.history(),
        reason=reason,
        diverged=state.diverged,
        rounds=state.done,
        method=state.method.ended(state.server),
        traffic=run.recorder.traffic,
        optimum=run.objective.f_star,
        setup_seconds=run.setup_seconds,
        seed=run.settings.seed,
        certificate=certificate,
        scalars=state.method.scalars,
        choices=(*run.choice.why, *run.clients.remarks),
        smoothness=run.choice.smoothness,
        strong_convexity=run.choice.strong_convexity,
    )


def _reason(run: Run) -> str:
    state = run.state
    reason = state.reason or f"all {run.settings.rounds} rounds done"
    if run.stopped:
        reason = f"stopped by the callback after round {state.done}"
    if _missed_its_tolerance(run) and run.certificate is not None:
        known = what_is_known(run.certificate)
        reason += f", tolerance={state.tolerance:g} not reached: {known}"
    history = run.recorder.history()
    if "objective" in history and not state.diverged and grows(history["objective"]):
        reason += ", but the objective grew: " + advice(state.method.as_named, run.clients)
    return reason


def _missed_its_tolerance(run: Run) -> bool:
    state = run.state
    if state.tolerance is None or state.proven or state.diverged or run.stopped:
        return False
    return state.done == run.settings.rounds
