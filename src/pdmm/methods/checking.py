"""Try a method on small problems, and say in sentences what it breaks.

A method of your own is a few functions, and most mistakes in them show only where messages are
rounded, uploads get lost or clients are run in blocks. :func:`check` looks for them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.methods.base import Method
from pdmm.methods.trial import Broken, Trial

__all__ = ["Finding", "Report", "check"]


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    """What was checked, in a few words."""
    problem: str
    """What is broken and what to do about it; empty if nothing is."""

    @property
    def passed(self) -> bool:
        """Whether nothing is broken."""
        return not self.problem

    def __str__(self) -> str:
        if self.passed:
            return f"  passed  {self.name}"
        return f"  BROKEN  {self.name}: {self.problem}"


@dataclass(frozen=True)
class Report:
    """What all checks found; it prints as a list."""

    method: str
    """Which method was tried."""
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The checks that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def __str__(self) -> str:
        title = f"{self.method}: {len(self.findings)} checks, all passed"
        if self.broken:
            title = f"{self.method}: {len(self.findings)} checks, {len(self.broken)} broken"
        return "\n".join([title, *map(str, self.findings)])


def check(method: Method, *, strict: bool = False) -> Report:
    """Try a method on small problems, and say what it breaks.

    Args:
        method: of your own; what is "auto" is settled first. Clients have a curvature of at most
            1/step_size, so that steps of any size are safe.
        strict: raise a ValueError where something is broken.

    Returns:
        A report that prints as a list: what was checked, and what is broken, why, and what to
        do. ``report.ok`` says whether all is well.

    Example:
        >>> import pdmm
        >>> print(pdmm.methods.check(pdmm.Scaffold()))
        Scaffold: 9 checks, all passed
          passed  states are named tuples, and the message has x
          passed  vectors of one client and blocks of clients
          passed  nothing is changed in place
          passed  no array is in two fields
          passed  float32 stays float32
          passed  what arrived is what is remembered
          passed  a lost upload leaves no trace
          passed  what travels is what is stated
          passed  the server may keep the memories
    """
    if not isinstance(method, Method):
        raise ValueError(f"method must be a pdmm method, e.g. AGPDMM(), got {method!r}")
    report = Report(type(method).__name__, tuple(_findings(method)))
    if strict and not report.ok:
        raise ValueError(str(report))
    return report


def _findings(method: Method) -> Iterator[Finding]:
    trial = Trial.of(method)
    first = _tried("states are named tuples, and the message has x", tuples, trial)
    yield first
    if not first.passed:  # the others could not even begin
        return
    findings = [
        _tried("vectors of one client and blocks of clients", blocks, trial),
        _tried("nothing is changed in place", purity, trial),
        _tried("no array is in two fields", sharing, trial),
        _tried("float32 stays float32", precision, trial),
        _tried("what arrived is what is remembered", delivery, trial),
        _tried("a lost upload leaves no trace", losses, trial),
        _tried("what travels is what is stated", traffic, trial),
    ]
    yield from findings
    if all(finding.passed for finding in findings):  # else it would only repeat what they say
        yield _tried("the server may keep the memories", at_server, trial)


def _tried(name: str, attempt: Callable[[Trial], None], trial: Trial) -> Finding:
    try:
        with np.errstate(all="ignore"):
            attempt(trial)
    except Broken as broken:
        return Finding(name, str(broken))
    except Exception as error:
        return Finding(name, f"the method raised {type(error).__name__}: {error}")
    return Finding(name, "")


# --- the checks -----------------------------------------------------------------------------


def tuples(trial: Trial) -> None:
    """All states are NamedTuples, and the message has the result."""
    for name, state in trial.one_client().items():
        if not isinstance(state, tuple) or not hasattr(state, "_fields"):
            raise Broken(f"{name} is a {type(state).__name__}; make it a typing.NamedTuple")
    message = trial.method.broadcast(trial.server_start())
    x = getattr(message, "x", ())
    if np.shape(x) != trial.x0.shape:
        raise Broken(
            f"the message has no vector x, only {', '.join(message._fields) or 'nothing'}; its "
            "field x is what pdmm.solve returns"
        )


def blocks(trial: Trial) -> None:
    """The same iterates from single vectors (d,) as from a block (b, d)."""
    together = trial.run(6)
    alone = trial.run_one_by_one(6)
    apart = trial.distance(together, alone)
    if not apart <= 1e-6:
        raise Broken(
            f"after 6 rounds, clients as single vectors and as a block are {apart:.1g} apart; "
            "sum and take norms along the last axis alone, and index with [..., k]"
        )


def purity(trial: Trial) -> None:
    """No function changes what it was given, and each gives the same twice."""
    trial.run(3, watch=True)


def sharing(trial: Trial) -> None:
    """No two fields of a state are the same memory."""
    for name, state in trial.block().items():
        arrays = [
            (label, field)
            for label, field in zip(state._fields, state, strict=True)
            if isinstance(field, np.ndarray)
        ]
        for k, (label, field) in enumerate(arrays):
            for other, same in arrays[:k]:
                if np.shares_memory(field, same):
                    raise Broken(
                        f"{other} and {label} of {name} are one array, and a change of one would "
                        f"change the other; copy it, e.g. {label}=1 * {other}"
                    )


def precision(trial: Trial) -> None:
    """Clients whose numbers are float32 work in float32."""
    for name, state in trial.narrow().block().items():
        if name in ("the server's state", "a message"):  # float64 at the server, in every run
            continue
        for label, field in zip(state._fields, state, strict=True):
            if getattr(field, "dtype", np.float32) == np.float64:
                raise Broken(
                    f"{label} of {name} is float64 though the client's numbers are float32; is a "
                    "parameter a NumPy scalar? Make it a Python float, as check_steps() does"
                )


def delivery(trial: Trial) -> None:
    """A change of an upload on its way is forgotten in time."""
    moved = trial.distance(trial.settled(), trial.run(trial.ROUNDS, bent=trial.EVENT))
    if not moved <= 1e-3:
        raise Broken(
            "an upload that is changed on its way, as by rounding, shifts the end of the run by "
            f"{moved:.1g} of its length: client and server remember different things. Let accept() "
            "build the memory from `delivered`, not from what client() put into the draft"
        )


def losses(trial: Trial) -> None:
    """A round without one of the clients is forgotten in time."""
    moved = trial.distance(trial.settled(), trial.run(trial.ROUNDS, lost=trial.EVENT))
    if not moved <= 1e-3:
        raise Broken(
            f"an upload that gets lost shifts the end of the run by {moved:.1g} of its length: the "
            "server counts what is missing. Where it adds up uploads, let server() add "
            "share * mean; let memories change in accept() alone"
        )


def traffic(trial: Trial) -> None:
    """Vectors and scalars as the method states them are those of its messages."""
    method = trial.method
    states = trial.one_client()
    stated: dict[str, tuple[str, int]] = {
        "a message": ("vectors_down", method.vectors_down),
        "an upload": ("vectors_up", method.vectors_up),
        "a memory": ("memory_vectors", method.memory_vectors),
    }
    for name, (label, count) in stated.items():
        seen = trial.vectors(states[name])
        if seen != count:
            raise Broken(f"{name} has {seen} vectors, but {label} is {count}; state {seen}")
    seen = trial.vectors(states["a draft"])
    if method.draft_vectors > seen:
        raise Broken(f"a draft has {seen} vectors, but draft_vectors is {method.draft_vectors}")
    numbers = (trial.scalars(states["a message"]), trial.scalars(states["an upload"]))
    if numbers != method.scalars:
        raise Broken(
            f"beside its vectors, {numbers[0]} numbers go down and {numbers[1]} up, but scalars is "
            f"{method.scalars}; state {numbers}"
        )


def at_server(trial: Trial) -> None:
    """The same iterates where the server keeps the clients' memories, with losses and few bits."""
    import pdmm  # not above: pdmm itself imports the methods

    settings: tuple[dict[str, Any], ...] = ({}, {"loss": 0.3, "participation": 0.7}, {"bits": 6})
    for more in settings:
        kept = pdmm.solve(trial.problem, trial.method, 8, threads=1, **more)
        sent = pdmm.solve(trial.problem, trial.method, 8, threads=1, state="server", **more)
        if not np.allclose(kept.x, sent.x, rtol=1e-9, atol=1e-12, equal_nan=True):
            words = ", ".join(f"{name}={value}" for name, value in more.items()) or "all messages"
            raise Broken(
                f"with {words}, state='server' gives other iterates than state='clients'; a "
                "client may know nothing but its memory and the message"
            )
