"""``pdmm.solve``: a problem, a method, and a number of rounds."""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.checks import ClientError, finite, whole
from pdmm.engines.local import Local
from pdmm.methods.base import Method
from pdmm.problems.base import Block, Floats, Problem, SumOfBlocks
from pdmm.record import Objective, Recorder
from pdmm.regularisers import Regulariser
from pdmm.report.progress import progress_bar
from pdmm.result import Result, Traffic
from pdmm.threads import Threads

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds


def solve(
    problem: Problem,
    method: Method,
    rounds: int = 100,
    *,
    x0: Any = None,
    weights: Any = None,
    regulariser: Regulariser | None = None,
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
        method: e.g. ``pdmm.AGPDMM(step_size=1e-4, local_steps=5)``.
        rounds: how many rounds of messages.
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
        - ``exact_error`` for PDMM and FedSplit: the largest relative residual of an exact
          step since the last row (0 where it is a closed form).

        A run that diverges stops, says so in ``reason``, and keeps its history.

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
    start = _check(problem, method, x0, regulariser)
    rounds = whole("rounds", rounds, at_least=1)
    seed = whole("seed", seed, at_least=0)
    record_every = whole("record_every", record_every, at_least=1)
    w = _weights(weights, problem.clients)
    known = _optimum(optimum, problem.dimension)
    pool = Threads(1 if threads is None and not problem.parallel else threads)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable as callback(round, x), got {callback!r}")
    problem.check(start, method.exact)

    def prox(v: Floats, t: float) -> Floats:
        return v if regulariser is None else regulariser.prox(v, t / weight)

    weight = float(w.sum())
    with pool, progress_bar(f"{type(method).__name__}", rounds, show=progress) as advance:
        engine = Local(problem, method, start, w, rounds, pool)
        total = None if optimum is False else problem.total(w, pool)
        total = total or SumOfBlocks(problem, problem.evaluator(engine.source), w, pool)
        objective = Objective(total, regulariser, known)
        server = method.server_start(start, prox)
        message = method.broadcast(server)
        x = message.x.astype(problem.dtype)
        traffic = _traffic(method, message, problem)
        recorder = Recorder(objective, traffic, problem.clients, method.exact)
        setup_seconds = perf_counter() - begun
        recorder.record(0, x)
        far = max(1.0, float(np.linalg.norm(start)))
        reason, diverged, done, worst = f"all {rounds} rounds done", False, 0, 0.0
        for r in range(1, rounds + 1):
            try:
                outcome = engine.round(message)
            except Exception as error:
                error.add_note(f"in round {r} of {type(method).__name__}")
                if isinstance(error, ClientError):
                    error.history = recorder.history()
                raise
            with np.errstate(over="ignore", invalid="ignore"):
                server = method.server(server, outcome.mean, outcome.share, prox)
                message = method.broadcast(server)
                size = float(np.linalg.norm(message.x))
            recorder.add(outcome.tally)
            worst = max(worst, outcome.tally.error)
            done = r
            if outcome.bad_client is not None or not size < TOO_LARGE * far:
                diverged = True
                reason = _why_diverged(r, size, outcome.bad_client, method, problem)
                break
            x = message.x.astype(problem.dtype)
            answer: Any = callback(r, x.copy()) if callback is not None else None
            stop = np.ndim(answer) == 0 and bool(answer)
            if r % record_every == 0 or r == rounds or stop:
                recorder.record(r, x)
            advance(1)
            if stop:
                reason = f"stopped by the callback after round {r}"
                break
    history = recorder.history()
    if not diverged and _grows(history["objective"]):
        reason += ", but the objective grew: " + _advice(method, problem)
    if worst > Block.tolerance:
        warnings.warn(
            f"an exact step of {type(method).__name__} stopped at a relative residual of "
            f"{worst:.1e}, above the tolerance {Block.tolerance:.0e}: "
            "see history['exact_error']",
            RuntimeWarning,
            stacklevel=2,
        )
    return Result(
        x=x,
        history=history,
        reason=reason,
        diverged=diverged,
        rounds=done,
        method=method,
        traffic=traffic,
        optimum=objective.f_star,
        setup_seconds=setup_seconds,
        seed=seed,
    )


def _check(problem: Any, method: Any, x0: Any, regulariser: Any) -> npt.NDArray[np.float64]:
    """Refuse what does not go together; returns the start in float64."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
    if not isinstance(method, Method):
        raise ValueError(
            f"method must be a pdmm method, e.g. pdmm.AGPDMM(step_size, local_steps), "
            f"got {method!r}"
        )
    if regulariser is not None:
        if not isinstance(regulariser, Regulariser):
            raise ValueError(
                f"regulariser must be L1, SquaredL2 or Box of pdmm, got {regulariser!r}"
            )
        if method.no_regulariser:
            raise ValueError(
                f"{type(method).__name__} takes no regulariser: {method.no_regulariser}"
            )
        regulariser.check(problem.dimension)
    if x0 is None:
        return np.zeros(problem.dimension)
    start = _vector("x0", x0, problem.dimension)
    with np.errstate(over="ignore"):  # clients and server start from what the clients can hold
        held = start.astype(problem.dtype).astype(np.float64)
    finite(f"x0 in the run's {problem.dtype}", held)
    return held


def _vector(name: str, value: Any, length: int) -> npt.NDArray[np.float64]:
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers have no order")
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got shape {vector.shape}")
    finite(name, vector)
    return vector


def _weights(weights: Any, clients: int) -> npt.NDArray[np.float64]:
    if weights is None:
        return np.ones(clients)
    w = _vector("weights", weights, clients)
    if (w <= 0).any():
        i = int((w <= 0).argmax())
        raise ValueError(f"weights must be positive, but weights[{i}] (client {i}) is {w[i]}")
    return w


def _optimum(optimum: Any, dimension: int) -> float | npt.NDArray[np.float64] | None:
    if optimum is None or optimum is False:
        return None
    if optimum is True:
        raise ValueError("optimum must be a number, a point x*, None or False, got True")
    if np.ndim(optimum) == 0:
        return float(_vector("optimum", [optimum], 1)[0])
    return _vector("optimum", optimum, dimension)


def _traffic(method: Method, message: Any, problem: Problem) -> Traffic:
    down, up = method.paper_vectors
    return Traffic(
        down=len(message),
        up=method.vectors_up,
        paper_down=down,
        paper_up=up,
        bytes_per_vector=problem.dimension * problem.dtype.itemsize,
    )


def _grows(objective: npt.NDArray[Any]) -> bool:
    """Whether the objective ended far above where it began, and was still growing."""
    first, middle, last = objective[0], objective[len(objective) // 2], objective[-1]
    return bool(last > 10 * abs(first) and last > middle and len(objective) > 2)


def _why_diverged(r: int, size: float, client: int | None, method: Method, problem: Problem) -> str:
    what = f"‖x_s‖ = {size:.3g}"
    if client is not None:
        what += f", the upload of client {client} is not finite"
    return f"diverged in round {r}: {what}. " + _advice(method, problem)


def _advice(method: Method, problem: Problem) -> str:
    """What step size would be safe, if the method has one and L is known."""
    step = getattr(method, "step_size", None)
    if step is None:
        return "Are all f_i convex?"
    largest = problem.safe_step()
    if largest is None:
        return f"step_size={step:g} may be too large: it should be at most 1/L"
    name, safe = method.step_limit(largest)
    if step <= safe:
        return f"step_size={step:g} is below {name} = {safe:.3g}: are all f_i convex?"
    return f"step_size={step:g} is too large: at most {name} = {safe:.3g} is safe"
