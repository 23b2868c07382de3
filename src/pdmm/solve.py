"""``pdmm.solve``: a problem, a method, and a number of rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from pdmm.arguments import check, known_optimum
from pdmm.checks import ClientError, client_weights, positive, whole
from pdmm.engines.local import Local, Outcome
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem, SumOfBlocks
from pdmm.reasons import advice, certified, grows, warn, what_is_known, why_diverged
from pdmm.record import Objective, Recorder
from pdmm.regularisers import Regulariser
from pdmm.report.progress import progress_bar
from pdmm.result import Result, Traffic
from pdmm.theory.certificate import Certificate, Certifier, proven_convexity
from pdmm.theory.choice import choose
from pdmm.threads import Threads

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds
AUTO_ROUNDS = 400  # where the method is chosen too, and so the tolerance
AUTO_TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


def solve(
    problem: Problem,
    method: Method | None = None,
    rounds: int | None = None,
    *,
    x0: Any = None,
    weights: Any = None,
    regulariser: Regulariser | None = None,
    tolerance: float | None = None,
    check_every: int = 5,
    optimum: Any = None,
    seed: int = 0,
    record_every: int = 1,
    callback: Callable[[int, Floats], bool | None] | None = None,
    progress: bool = False,
    threads: int | None = None,
) -> Result:
    """Minimise F(x) = sum_i w_i f_i(x) + h(x) with a federated method.

    Args:
        problem: the clients' functions, e.g. ``pdmm.LeastSquares(A, b)``.
        method: e.g. ``pdmm.AGPDMM(step_size=1e-4, local_steps=5)``; any of its step_size,
            local_steps, rho or gamma may be "auto". None (or leaving it out) chooses the
            method too; ``result.choices`` says what was chosen and why.
        rounds: how many rounds of messages, at most; 100 if not given, and 400 where the
            method is chosen too.
        tolerance: stop once the certificate is at most this times the first one's, or rounding:
            the proven bound on F(x) - F* where mu > 0, ‖grad F‖ elsewhere. None never
            stops early; but where the method is chosen too, it is 1e-12 (1e-8 in float32),
            or the square root of that on ‖grad F‖.
        check_every: compute the certificate after every so many rounds, if there is a
            tolerance. It costs one vector up from every client, which is counted.
        x0: the start, shape (d,); zeros if not given.
        weights: w_i > 0, one a client; ones if not given.
        regulariser: h, e.g. ``pdmm.L1(0.1)``. FedAvg and Scaffold have no exact form with
            one and refuse it.
        optimum: the minimal value of F (a number), or a minimiser x* (shape (d,)), for the
            history's ``gap``. LeastSquares finds its own, with weights and with SquaredL2;
            ``optimum=False`` saves that work.
        seed: of every random choice. (With all clients in every round there is none.)
        record_every: evaluate F and record every so many rounds (and at the last). On data
            that are read for it, an evaluation costs about as much as a gradient step.
        callback: called as ``callback(round, x)`` after every round; a true answer stops.
        progress: show a progress bar on the terminal (needs ``rich``).
        threads: how many threads work on blocks of clients; all cores if not given. The
            result does not depend on it.

    Returns:
        A :class:`pdmm.Result`. Its ``history`` has a row for the start and for every
        recorded round, with the columns

        - ``round``, ``objective`` (F(x_s), with h), ``gap`` (F(x_s) - F*, if F* is known);
        - ``bytes_up``, ``bytes_down``, ``vectors_up``, ``vectors_down``: sent so far by all
          clients and to all clients; with the prefix ``paper_``, what the published method
          would have sent;
        - ``gradient_calls``, ``value_calls``, ``exact_calls``: so far, per client (a mean);
          evaluations for the history count as value calls;
        - ``seconds`` since the first round began;
        - ``rho``, where it adapts;
        - ``exact_error`` for PDMM and FedSplit: the largest relative residual of an exact
          step since the last row (0 where it is a closed form).

        Its ``certificate`` says how far x can be from the optimum. A run that diverges stops,
        says so in ``reason``, and keeps its history.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=60, features=8, seed=0)
        >>> result = pdmm.solve(problem, pdmm.AGPDMM(step_size=0.01, local_steps=5), rounds=100)
        >>> result.reason
        'all 100 rounds done'
        >>> bool(result.history["gap"][-1] < 1e-20)
        True
    """
    begun = perf_counter()
    start = check(problem, method, x0, regulariser)
    if rounds is None:
        rounds = 100 if method is not None else AUTO_ROUNDS
    rounds = whole("rounds", rounds, at_least=1)
    seed = whole("seed", seed, at_least=0)
    record_every = whole("record_every", record_every, at_least=1)
    check_every = whole("check_every", check_every, at_least=1)
    if tolerance is not None:
        tolerance = positive("tolerance", tolerance)
    w = client_weights(weights, problem.clients)
    known = known_optimum(optimum, problem.dimension)
    pool = Threads(1 if threads is None and not problem.parallel else threads)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable as callback(round, x), got {callback!r}")
    if method is not None:
        problem.check(start, method.exact)
    choice = choose(problem, method, w)
    running = choice.running
    if method is None:
        problem.check(start, running.exact)

    def prox(v: Floats, t: float) -> Floats:
        return v if regulariser is None else regulariser.prox(v, t / weight)

    weight = float(w.sum())
    with pool, progress_bar(type(choice.method).__name__, rounds, show=progress) as advance:
        engine = Local(problem, running, start, w, rounds, pool)
        blocks = SumOfBlocks(problem, problem.evaluator(engine.source), w, pool)
        total = None if optimum is False else problem.total(w, pool)
        objective = Objective(total or blocks, regulariser, known)
        server = running.server_start(start, prox)
        message = running.broadcast(server)
        x = message.x.astype(problem.dtype)
        traffic = _traffic(running, problem)
        certify = Certifier(
            total,
            blocks,
            regulariser,
            lambda: proven_convexity(problem, w, total),
            precision=float(np.finfo(problem.dtype).eps),
            bytes_up=problem.clients * traffic.bytes_per_vector,
        )
        recorder = Recorder(objective, traffic, running.scalars, problem.clients, running.exact)
        setup_seconds = perf_counter() - begun
        target, certificate = -1.0, None
        if tolerance is None and method is None:
            certificate = certify(x, 0)
            tolerance = AUTO_TOLERANCE[problem.dtype] ** (0.5 if certificate.gap is None else 1.0)
        if tolerance is not None:
            certificate = certificate or certify(x, 0)
            recorder.checked()
            target = tolerance * certificate.size  # never reached if that is NaN
        recorder.record(0, x, running.telemetry(server))
        far = max(1.0, float(np.linalg.norm(start)))
        reason, diverged, done, worst = f"all {rounds} rounds done", False, 0, 0.0
        last: _Round | None = None
        proven = False
        if certificate is not None and certificate.size <= certificate.rounding:
            reason, rounds = "the start is optimal, to rounding", 0
        for r in range(1, rounds + 1):
            try:
                outcome = engine.round(message)
            except Exception as error:
                error.add_note(f"in round {r} of {type(choice.method).__name__}")
                if isinstance(error, ClientError):
                    error.history = recorder.history()
                raise
            with np.errstate(over="ignore", invalid="ignore"):
                last = _Round(running, server, outcome, weight)
                server = running.server(server, outcome.mean, outcome.share, prox)
                message = running.broadcast(server)
                size = float(np.linalg.norm(message.x))
            recorder.add(outcome.tally)
            worst = max(worst, outcome.tally.missed)
            done = r
            if outcome.bad_client is not None or not size < TOO_LARGE * far:
                diverged = True
                reason = why_diverged(r, size, outcome.bad_client, choice.method, problem)
                break
            x = message.x.astype(problem.dtype)
            if choice.estimated_step:
                choice = choice.smaller_steps(_steepest(problem))
                running = engine.method = choice.running
            answer: Any = callback(r, x.copy()) if callback is not None else None
            stop = np.ndim(answer) == 0 and bool(answer)
            certificate = None
            if tolerance is not None and (r % check_every == 0 or r == rounds or stop):
                certificate = last.certificate(certify, x, r)
                recorder.checked()
            proven = certificate is not None and (
                certificate.size <= max(target, certificate.rounding)
            )
            if r % record_every == 0 or r == rounds or stop or proven:
                recorder.record(r, x, running.telemetry(server))
            advance(1)
            if stop:
                reason = f"stopped by the callback after round {r}"
                break
            if proven and certificate is not None:
                reason = certified(certificate, r, tolerance)
                break
        if certificate is None:
            certificate = last.certificate(certify, x, done) if last else certify(x, done)
    if tolerance is not None and done == rounds > 0 and not proven and not diverged:
        reason += f", tolerance={tolerance:g} not reached: {what_is_known(certificate)}"
    history = recorder.history()
    if not diverged and grows(history["objective"]):
        reason += ", but the objective grew: " + advice(choice.method, problem)
    warn(problem, choice.method, worst)
    return Result(
        x=x,
        history=history,
        reason=reason,
        diverged=diverged,
        rounds=done,
        method=running.settled_method(server) if isinstance(running, Adaptive) else running,
        traffic=traffic,
        optimum=objective.f_star,
        setup_seconds=setup_seconds,
        seed=seed,
        certificate=certificate,
        scalars=running.scalars,
        choices=choice.why,
        smoothness=choice.smoothness,
        strong_convexity=choice.strong_convexity,
    )


@dataclass(frozen=True)
class _Round:
    """What certificates say of the last round."""

    method: Method
    server: Any
    outcome: Outcome
    weight: float

    def certificate(self, certify: Certifier, x: Floats, r: int) -> Certificate:
        apart = self.outcome.disagreement
        with np.errstate(over="ignore", invalid="ignore"):
            duals = self.method.imbalance(self.server, self.outcome.mean)
        return certify(
            x,
            r,
            consensus=None if apart is None else float(np.sqrt(apart)),
            dual_sum=None if duals is None else self.weight * float(np.linalg.norm(duals)),
        )


def _steepest(problem: Problem) -> float:
    """The largest L that the run's secants have met."""
    found = problem.secants()
    return 0.0 if found is None else float(np.fmax.reduce(found[0].clients))


def _traffic(method: Method, problem: Problem) -> Traffic:
    down, up = method.paper_vectors
    return Traffic(
        down=method.vectors_down,
        up=method.vectors_up,
        paper_down=down,
        paper_up=up,
        bytes_per_vector=problem.dimension * problem.dtype.itemsize,
    )
