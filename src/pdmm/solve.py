"""``pdmm.solve``: a problem, a method, a number of rounds; ``pdmm.resume``: the rest of them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pdmm.common.checks import whole
from pdmm.common.progress import progress_bar
from pdmm.common.variables import Variables
from pdmm.engines.clients import Clients
from pdmm.engines.in_process import InProcess
from pdmm.engines.mpi import MPI
from pdmm.engines.ranks import Ranks
from pdmm.engines.secure.simulated import SecureClients
from pdmm.engines.sites.sites import Sites
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats
from pdmm.regularisers import Regulariser
from pdmm.result import Result
from pdmm.run import finish, loop
from pdmm.run.alike import check_alike
from pdmm.run.build import Run, build
from pdmm.run.checkpoint_file import check_there, checkpoint_path
from pdmm.run.saved import Saved, read
from pdmm.run.saver import Saver, alone
from pdmm.run.settings import Settings, checked, links


def solve(
    problem: Problem | Sites,
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
    participation: Any = 1.0,
    availability: Any = None,
    loss: Any = 0.0,
    bits: int | None = None,
    local_steps: Any = None,
    state: Literal["clients", "server"] = "clients",
    checkpoint: str | Path | None = None,
    every: int = 10,
    engine: MPI | None = None,
    curvature: Literal["auto", "full", "diagonal", "none"] = "auto",
    secure: bool = False,
) -> Result:
    """Minimise F(x) = sum_i w_i f_i(x) + h(x) with a federated method.

    Args:
        problem: the clients' functions, e.g. ``pdmm.LeastSquares(A, b)``; or
            ``pdmm.engines.Sites(connection)``, whose clients are at the sites of a federation.
        method: e.g. ``pdmm.AGPDMM(step_size=1e-4, local_steps=5)``; any of its step_size,
            local_steps, rho or gamma may be "auto". None (or leaving it out) chooses the
            method too; ``result.choices`` says what was chosen and why.
        rounds: how many rounds of messages, at most; 100 if not given, and 400 where the
            method is chosen too.
        tolerance: stop once the certificate is at most this times the first one's, or rounding:
            the proven bound on F(x) - F* where mu > 0, ‖grad F‖ elsewhere. None never
            stops early; but where the method is chosen too, it is 1e-12 (1e-8 in float32),
            or the square root of that on ‖grad F‖. A ``GLM`` whose clients may be asked for
            Hessians stops at a Newton decrement of 1e-8 instead, as it does with ``Newton()``.
        check_every: compute the certificate after every so many rounds, if there is a
            tolerance. It costs one vector up from every client, or Hessians, which is counted.
        x0: the start, shape (d,); if not given, zeros, or the model of a ``TorchProblem``.
        weights: w_i, from 1e-30 to 1e30, one a client; ones if not given.
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
        participation: which clients take part in a round: a fraction p (exactly max(1, round(p
            m)) of them, drawn without replacement), a count, a list with one of these (or a
            list of clients) for every round, repeated, or a callable of the round.
        availability: which clients are there to take part: a probability for each,
            ``pdmm.OnOff(leave, come)``, or a table of true and false (rounds, clients).
        loss: the probability that a message is lost, or ``pdmm.Bursts(start, end)``; for
            downloads, uploads and acknowledgements on their own. A client that hears
            nothing sits out; an upload that is lost changes nothing.
        bits: 2 to 16: uploads and broadcasts are sent as differences, rounded to so many bits
            a number. More are taken while uploads stop getting smaller.
        local_steps: a number for every client, or a callable of round and client, instead of
            the method's (from which rho is made, all the same).
        state: where the clients' memories live: "clients", or "server", which ships them with
            its messages. The iterates are the same.
        checkpoint: a file to keep the run in, for :func:`pdmm.resume`; it must not exist. The
            history grows in a second file beside it (needs ``safetensors``). A lock beside
            them keeps other runs away until this one ends.
        every: write the checkpoint after every so many rounds, and at the end.
        engine: where clients run: None for this process, ``pdmm.engines.MPI()`` for all
            processes that ``mpirun`` started. ``problem`` then has this rank's clients alone; all
            else speaks of all clients, and is the same on every rank.
        curvature: what clients may reveal of their Hessians, of a problem that knows them, such as
            ``pdmm.GLM``: "full" for all of them, "diagonal" for their diagonals and intercepts'
            rows, "none" for vectors alone. It is a permission, and what is made of it is in
            ``result.choices``; "auto" permits all where it is worth the numbers.
        secure: simulate a federation with secure sums, in which each client is an organisation of
            its own: the server reads sums over all clients, and no part of any of them. The
            result is the same to rounding; the history counts the bytes that it takes. It needs
            3 to 255 clients that all take part. Clients at sites are asked so by
            ``pdmm.engines.Sites(..., secure=True)``.

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
        - ``rho``, where it adapts; ``decrement``, of Newton's method;
        - ``gradient_norm``, and what ``evaluate`` returns, of a ``TorchProblem`` that has them;
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
    clients = _located(problem, engine, secure)
    team = clients.team
    check_arguments = partial(
        checked,
        clients,
        method=method,
        rounds=rounds,
        x0=x0,
        weights=weights,
        regulariser=regulariser,
        tolerance=tolerance,
        check_every=check_every,
        optimum=optimum,
        seed=seed,
        record_every=record_every,
        participation=participation,
        availability=availability,
        loss=loss,
        bits=bits,
        local_steps=local_steps,
        state=state,
        curvature=curvature,
    )
    settings = team.agree(check_arguments)
    check_alike(team, settings, callback, checkpoint, every, threads)
    if checkpoint is not None and clients.no_checkpoint:
        raise ValueError(clients.no_checkpoint)
    with ExitStack() as stack:
        saver = None
        if checkpoint is not None:
            lock = stack.enter_context(alone(checkpoint_path("checkpoint", checkpoint), team))
            saver = Saver(every, team, lock)
            saver.check()
        stack.enter_context(clients.working(_threads(clients, threads, engine)))
        run = _built(clients, settings)
        loop.begin(run)
        if saver is not None:
            saver.begin(run)
        return _finished(run, callback, progress, saver)


def resume(
    path: str | Path,
    problem: Problem | Sites,
    *,
    rounds: int | None = None,
    method: Method | None = None,
    participation: Any = None,
    local_steps: Any = None,
    callback: Callable[[int, Floats], bool | None] | None = None,
    progress: bool = False,
    threads: int | None = None,
    every: int | None = None,
    engine: MPI | None = None,
) -> Result:
    """Go on with a run from its checkpoint, as if it had never stopped.

    Everything is in the file but the problem, and what is code: a method of your own, and
    callables. A run that had finished returns its result. A checkpoint that is damaged is
    refused with a ``ValueError``, and one that another run is using with a
    ``BlockingIOError`` that says whose run it is.

    Args:
        path: what ``solve(checkpoint=...)`` was given.
        problem: the same as then: the same clients in the same order, and under mini-batches
            their rows in the same order. Another one is recognised, and refused.
        rounds: more (or fewer) rounds than were asked for then; they must not be behind.
        method: a method of your own, with the same parameters as then.
        participation: if it was a callable.
        local_steps: if they were a callable.
        callback: see :func:`pdmm.solve`.
        progress: show a progress bar.
        threads: see :func:`pdmm.solve`.
        every: checkpoint every so many rounds; as before if not given.
        engine: see :func:`pdmm.solve`. It need not be the one of then, nor need its processes be
            as many.

    Returns:
        The same as the uninterrupted run would have, but for the seconds in its history.

    Example:
        >>> import pathlib, tempfile, pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=60, features=8, seed=0)
        >>> method = pdmm.AGPDMM(step_size=0.01, local_steps=5)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.safetensors"
        >>> stopped = pdmm.solve(
        ...     problem, method, rounds=50, participation=0.6, checkpoint=path,
        ...     callback=lambda r, x: r == 20,
        ... )
        >>> resumed = pdmm.resume(path, problem)
        >>> whole = pdmm.solve(problem, method, rounds=50, participation=0.6)
        >>> bool((resumed.x == whole.x).all())
        True
    """
    clients = _located(problem, engine)
    if clients.no_checkpoint:
        raise ValueError(clients.no_checkpoint)
    team = clients.team
    place = team.agree(lambda: checkpoint_path("path", path))
    team.first(lambda: check_there(place))
    with alone(place, team) as lock:
        saved = read(place, clients, method, participation, local_steps)
        settings = team.agree(lambda: _with_rounds(saved, rounds))
        every = saved.every if every is None else every
        check_alike(team, settings, callback, path, every, threads)
        saver = Saver(every, team, lock)
        with clients.working(_threads(clients, threads, engine)):
            run = _built(clients, settings, saved.state.get("variables"))
            saved.restore(run)
            saver.go_on(run, saved)
            if rounds is not None:
                saver.write(run)  # what was asked for now counts
            return _finished(run, callback, progress, saver)


def _with_rounds(saved: Saved, rounds: int | None) -> Settings:
    """The settings of a checkpoint, perhaps with another number of rounds."""
    if rounds is None:
        return saved.settings
    settings = replace(saved.settings, rounds=whole("rounds", rounds, at_least=1))
    if settings.rounds < saved.done:
        raise ValueError(f"rounds is {rounds}, but {saved.done} are done")
    return settings


def _located(problem: Any, engine: Any, secure: Any = False) -> Clients:
    """Where the clients are: at sites, on the ranks of an engine, or in this process."""
    if not isinstance(secure, bool):
        raise ValueError(f"secure must be True or False, got {secure!r}")
    if engine is not None and not isinstance(engine, MPI):
        raise ValueError(f"engine must be None or pdmm.engines.MPI(), got {engine!r}")
    if secure and engine is not None:
        raise ValueError("secure=True is simulated in one process: leave engine out")
    if isinstance(engine, MPI):
        return Ranks(problem, engine.team)
    if isinstance(problem, Sites):
        if secure:
            raise ValueError("secure=True is for the sites to know: Sites(..., secure=True)")
        return problem
    return SecureClients(problem) if secure else InProcess(problem)


def _built(clients: Clients, settings: Settings, variables: Variables | None = None) -> Run:
    """A run that is ready for its first round, or to go on in the variables that it had."""
    if isinstance(clients, InProcess):  # sites have links of their own
        clients.behind(links(settings, clients.count))
    return build(clients, settings, variables)


def _finished(
    run: Run,
    callback: Callable[[int, Floats], bool | None] | None,
    progress: bool,
    saver: Saver | None,
) -> Result:
    """What comes of a run, after the rounds that are left."""
    name = type(run.state.method.as_named).__name__
    left = run.settings.rounds - run.state.done
    with progress_bar(name, left, show=progress and run.clients.team.rank == 0) as advance:
        while not run.over:
            loop.step(run, callback)
            advance(1)
            if saver is not None:
                saver.after(run)
    return finish.result(run)


def _threads(clients: Clients, threads: int | None, engine: MPI | None) -> int | None:
    shared = None if engine is None else engine.share_cores()
    if threads is not None:
        return threads
    return shared if clients.parallel else 1
