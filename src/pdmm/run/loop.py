"""The rounds of a run: ask the clients, let the server step, judge, record; until it is over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.engines.exchange import Outcome, Question
from pdmm.engines.traffic import SCALAR_BYTES, Sent
from pdmm.methods.schedule import schedule_of, step_in
from pdmm.privacy.refusals import Spent
from pdmm.problems.block import Floats, Tally
from pdmm.result import Certificate
from pdmm.run.build import Run
from pdmm.run.metric import Measured
from pdmm.run.reasons import certified, start_is_optimal, why_diverged
from pdmm.run.state import held

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds
TOO_FAR = 1e20  # times the norm after the first step: likewise, where x is large by nature
STEEPER = 10.0  # times the gradient that the curvature near x makes of the way from x0: a steep x0
ARRIVED = 1e-8  # Newton's decrement at which a likelihood's run stops: so much of a standard error
AUTO_TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}

Callback: TypeAlias = Callable[[int, Floats], bool | None]


def begin(run: Run) -> None:
    """The history's row 0, and the first certificate if there is a tolerance."""
    state = run.state
    run.recorder.start = perf_counter()
    certificate = None
    if by_decrement(run):
        state.tolerance = AUTO_TOLERANCE[run.clients.dtype]
        state.target = np.nan  # nothing is compared with the start
    elif state.tolerance is None and _stops_itself(run):
        certificate = run.certify(state.x, 0, first=True)
        of_gradient = certificate.gap is None and certificate.decrement is None
        root = 0.5 if of_gradient else 1.0
        state.tolerance = AUTO_TOLERANCE[run.clients.dtype] ** root
    if state.tolerance is not None and not by_decrement(run):
        certificate = certificate or run.certify(state.x, 0, first=True)
        state.accounts.checked(certificate, run.clients.beside())
        state.target = state.tolerance * certificate.size
    record(run)
    if run.measured is not None:
        _after_measuring(run, run.measured)
    if certificate is not None and certificate.at_rounding:
        state.reason = start_is_optimal(certificate)
        state.finished = True
        run.certificate = certificate


def _stops_itself(run: Run) -> bool:
    """Whether the run stops without having been told when."""
    return run.settings.method is None or run.state.method.knows_its_end


def by_decrement(run: Run) -> bool:
    """Whether it stops at so small a part of a standard error, wherever it began."""
    if run.settings.tolerance is not None or run.certify.curved is None:
        return False
    return _stops_itself(run) and run.clients.likelihood


def _after_measuring(run: Run, measured: Measured) -> None:
    """Count the exchanges in which the clients told of their curvature, and go on from there."""
    state = run.state
    m = run.clients.count
    sent = Sent(
        contacts=m * measured.exchanges,
        uploads=m * measured.exchanges,
        bytes_down=m * SCALAR_BYTES * measured.numbers_down,
        bytes_up=m * SCALAR_BYTES * measured.numbers_up,
    )
    counted = run.clients.beside()
    if counted is not None:
        sent = counted._replace(contacts=sent.contacts, uploads=sent.uploads)
    state.accounts.add(Tally(gradients=m * measured.exchanges), sent)
    state.done = measured.exchanges
    state.x = held(_solution(run), run.clients.dtype)
    record(run)


def _solution(run: Run) -> Floats:
    """The result so far, in x."""
    return run.prox.to_x(np.asarray(run.state.method.solution(run.state.server)))


def step(run: Run, callback: Callback | None) -> None:
    """One round; ``run.over`` says whether it was the last."""
    state, settings = run.state, run.settings
    r = state.done + 1
    schedule = schedule_of(settings.method)
    if schedule is not None:
        state.method = state.method.with_step(step_in(schedule, r))
    try:
        outcome = _exchange(run, r)
    except Spent as error:
        if state.done == 0:
            raise
        state.finished = True
        state.reason = f"stopped after round {state.done}: {error}"
        if run.recorder.last_round != state.done:
            record(run)
        return
    x_s = _server_step(run, outcome)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.linalg.norm(x_s))
    state.accounts.add(outcome.tally, outcome.sent)
    run.clients.after(r, outcome, norm)
    state.worst = max(state.worst, outcome.tally.missed)
    state.done = r
    run.certificate = None
    first = state.first or norm
    if outcome.bad_client is not None or not norm < _largest(run, first):
        state.diverged = True
        state.finished = True
        named = state.method.as_named
        state.reason = why_diverged(r, norm, outcome.bad_client, named, run.clients)
        return
    state.first = first if outcome.arrived else state.first
    state.x = held(x_s, run.clients.dtype)
    if run.choice.estimated_step:
        state.method = state.method.with_smaller_steps(outcome.steepest)
    stop = callback is not None and _asked_to_stop(run, callback, r)
    final = r == settings.rounds
    verdict = state.method.verdict(state.server)
    free = state.method.evidence(state.server) is not None
    if state.tolerance is not None and (free or r % settings.check_every == 0 or final):
        judge(run)
        _compare(run)
    ends = final or state.proven or bool(verdict)
    if r % settings.record_every == 0 or ends:
        record(run)
    if verdict:
        state.reason = f"stopped after round {r}: {verdict}"
    elif state.proven and run.certificate is not None:
        told = None if by_decrement(run) else state.tolerance
        state.reason = certified(run.certificate, r, told, run.clients.likelihood)
    state.finished = ends
    run.stopped = stop


def _largest(run: Run, first: float) -> float:
    """The norm of x_s that only a diverging run reaches, if it had this one after a first step."""
    largest = TOO_LARGE * max(1.0, float(np.linalg.norm(run.settings.x0)))
    most = float(np.finfo(run.clients.dtype).max)
    return min(max(largest, TOO_FAR * first), most)


def _exchange(run: Run, r: int) -> Outcome:
    """Ask the clients; their answers complete the history's last row, where it waits for F."""
    state = run.state
    waiting = run.recorder.waiting
    question = Question(
        round=r,
        method=state.method,
        message=state.method.broadcast(state.server),
        evaluate=run.objective.wanted(state.x) if waiting else None,
        watch=run.choice.estimated_step,
    )
    with _explained(run, r):
        outcome = run.clients.round(question)
    if waiting and outcome.value is not None:
        _close(run, outcome.value)
    return outcome


@contextmanager
def _explained(run: Run, r: int) -> Iterator[None]:
    """Say of an error in which round it was, and keep the history that there is by then."""
    try:
        yield
    except Exception as error:
        where = f"in round {r}" if r else "before round 1"
        error.add_note(f"{where} of {type(run.state.method.as_named).__name__}")
        if isinstance(error, ClientError):
            error.history = run.recorder.history()
        raise


def _server_step(run: Run, outcome: Outcome) -> Floats:
    """Let the server make its step, unless nothing arrived; returns x_s."""
    state = run.state
    with np.errstate(over="ignore", invalid="ignore"):
        if outcome.arrived:
            state.residuals = _residuals(run, outcome)
            state.server = state.method.server(state.server, outcome.mean, outcome.share, run.prox)
        return _solution(run)


def _residuals(run: Run, outcome: Outcome) -> dict[str, float | None]:
    """What certificates say of a round, besides its x."""
    apart = outcome.disagreement
    duals = run.state.method.imbalance(run.state.server, outcome.mean)
    return {
        "consensus": None if apart is None else float(np.sqrt(apart)),
        "dual_sum": None if duals is None else run.weight * float(np.linalg.norm(duals)),
    }


def _asked_to_stop(run: Run, callback: Callback, r: int) -> bool:
    """Whether the callback stops the run: that of any member of a team."""

    def asked() -> bool:
        answer: Any = callback(r, run.state.x.copy())
        return np.ndim(answer) == 0 and bool(answer)

    return bool(run.clients.team.total(asked))


# --- certificates -------------------------------------------------------------------------


def certificate_now(run: Run) -> Certificate:
    """What is proven of x after the last round."""
    state = run.state
    evidence = state.method.evidence(state.server)
    return run.certify(state.x, state.done, evidence=evidence, first=False, **state.residuals)


def judge(run: Run) -> None:
    """Make the certificate of x, and count what it cost."""
    run.certificate = certificate_now(run)
    run.state.accounts.checked(run.certificate, run.clients.beside())


def _compare(run: Run) -> None:
    """Hold the certificate against what it must fall to."""
    state, certificate = run.state, run.certificate
    assert certificate is not None
    if by_decrement(run):
        lam = certificate.decrement
        arrived = certificate.gap is not None and lam is not None and lam <= ARRIVED
        at_rounding = certificate.gap is not None and certificate.at_rounding
        state.proven = arrived or at_rounding
        return
    if np.isnan(state.target):  # there was none at the start
        state.target = (state.tolerance or 0.0) * certificate.size
        return
    if certificate.gap is None and certificate.decrement is not None:
        return  # lam is known, but not what follows from it
    enough = max(min(state.target, _near_target(run, certificate)), certificate.rounding)
    state.proven = bool(np.isfinite(certificate.size)) and certificate.size <= enough


def _near_target(run: Run, certificate: Certificate) -> float:
    """What the certificate must fall to where F was much steeper at x0 than it is here.

    Where x0 is far out on an exp, a millionth of the first gradient is no small gradient. A
    quadratic of curvature rho has a gradient of rho ‖x - x0‖ at x0; the run's rho is about the
    curvature here.
    """
    state, settings = run.state, run.settings
    L = run.choice.smoothness
    if settings.tolerance is not None or settings.method is not None or state.tolerance is None:
        return np.inf  # the user's tolerance is meant as it is said
    if L is None or L.kind != "estimate":
        return np.inf
    rho = state.method.telemetry(state.server).get("rho", np.inf)
    slope = run.weight * rho * float(np.linalg.norm(state.x - settings.x0))
    near, steeper = slope, STEEPER
    if certificate.gap is not None:
        near = slope * (slope / (2 * certificate.strong_convexity))
        steeper = STEEPER**2
    first = state.target / state.tolerance
    return state.tolerance * near if first > steeper * near else np.inf


# --- the history --------------------------------------------------------------------------


def record(run: Run) -> None:
    """Add a row; its F comes with the next round's answers, where a message must ask for it."""
    state = run.state
    state.accounts.tally.values += run.objective.calls * run.clients.count
    more = {**state.method.telemetry(state.server), **run.clients.telemetry()}
    with _explained(run, state.done):
        measures = run.clients.measures(state.x)
    run.recorder.open(state.done, state.accounts, more, measures)
    if run.clients.at_hand or not run.objective.asks_clients:
        complete(run)


def complete(run: Run) -> None:
    """Complete the history's last row, where it waits for F."""
    if run.recorder.waiting:
        with _explained(run, run.state.done), np.errstate(over="ignore", invalid="ignore"):
            measured = run.objective.measured(run.state.x)
        _close(run, measured)


def _close(run: Run, measured: float) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        objective, gap = run.objective.concluded(run.state.x, measured)
    run.recorder.close(objective, gap)
