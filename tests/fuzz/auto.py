"""Convex sums that are not L-smooth, solved without a method: it arrives, or says that it did not.

What is asked: F(x) - F* is at most 1e-6 of F(x0) - F*, by an optimum that Newton's method found on
its own; or the reason says truthfully that the run has not arrived. Nothing is certified or called
optimal there, and no choice promises convergence.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pdmm
from fuzz.attempts import about
from fuzz.draws import Generator, pick, spread, whole
from twins.methods import Matrix, Vector, newton

ARRIVED = 1e-6
HONEST = ("not reached", "not arrived", "diverged", "no progress", "does not", "did not", "grew")


class Term(NamedTuple):
    """A convex function of one number, with its first and second derivatives."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    bend: Callable[[Any], Any]


TERMS: dict[str, Term] = {
    "cosh": Term(np.cosh, np.sinh, np.cosh),
    "exp": Term(lambda u: np.exp(u) + np.exp(-2 * u), lambda u: np.exp(u) - 2 * np.exp(-2 * u),
                lambda u: np.exp(u) + 4 * np.exp(-2 * u)),
    "fourth power": Term(lambda u: u**4, lambda u: 4 * u**3, lambda u: 12 * u**2),
    "Poisson": Term(lambda u: np.exp(u) - 2 * u, lambda u: np.exp(u) - 2, np.exp),
    "gamma": Term(lambda u: np.exp(-u) + u, lambda u: 1 - np.exp(-u), lambda u: np.exp(-u)),
    "log-sum-exp": Term(
        lambda u: np.logaddexp(u, -u), np.tanh, lambda u: 1 - np.tanh(u) ** 2
    ),
}  # fmt: skip


class Client(NamedTuple):
    """The weighted sum over rows of a term at R x - c."""

    term: Term
    R: Matrix
    c: Vector
    weight: float

    def parts(self, x: Vector) -> tuple[float, Vector, Matrix]:
        with np.errstate(over="ignore", invalid="ignore"):
            u = self.R @ x - self.c
            value = self.weight * float(self.term.value(u).sum())
            slope = self.weight * (self.term.slope(u) @ self.R)
            bend = self.weight * (self.R.T * self.term.bend(u)) @ self.R
        return (value if np.isfinite(value) else np.inf), slope, bend

    def value(self, x: Vector) -> float:
        return self.parts(x)[0]

    def gradient(self, x: Vector) -> Vector:
        return self.parts(x)[1]


class Drawn(NamedTuple):
    """A random sum of clients' functions, and where a run starts."""

    kind: str
    clients: list[Client]
    x0: Vector
    scale: float

    @property
    def problem(self) -> pdmm.Functions:
        clients = self.clients
        return pdmm.Functions(
            [f.value for f in clients], [f.gradient for f in clients], len(self.x0)
        )

    def gap(self, x: Vector, lowest: float) -> float:
        """F(x) - F*."""
        return _total(self.clients, x)[0] - lowest

    def lowest(self) -> float | None:
        """F*, by Newton's method; None where that has not arrived."""
        best = newton(lambda x: _total(self.clients, x), np.zeros(len(self.x0)))
        lowest, slope, _ = _total(self.clients, best)
        first = self.gap(self.x0, lowest)
        if not np.isfinite(first) or np.linalg.norm(slope) * self.scale > 1e-6 * abs(first):
            return None
        return lowest


def drawn(seed: int) -> Drawn:
    """The random sum of one seed."""
    rng = np.random.default_rng(seed)
    kind = pick(rng, list(TERMS))
    m, d = whole(rng, 1, 4), whole(rng, 1, 3)
    scale = spread(rng, 1e-3, 1e3)  # of x: the rows are 1/scale
    clients = [_client(rng, TERMS[kind], d, scale) for _ in range(m)]
    x0 = scale * pick(rng, [0.0, 1.0, 3.0]) * rng.standard_normal(d)
    return Drawn(kind, clients, x0, scale)


def case(seed: int) -> str:
    one = drawn(seed)
    weights = [f.weight for f in one.clients]
    with about(f"{one.kind}, scale {one.scale:.3g}, weights {weights}, {len(one.x0)} unknowns"):
        lowest = one.lowest()
        if lowest is None:
            return "no reference"
        first = one.gap(one.x0, lowest)
        result = pdmm.solve(one.problem, x0=one.x0)
        left = one.gap(result.x, lowest) / first if first > 0 else 0.0
        reached = f"{left:.1e} of the first gap is left after {result.rounds} rounds"
        with about(f"{reached}: {result.reason}"):
            return _judged(result, left)


def _client(rng: Generator, term: Term, d: int, scale: float) -> Client:
    """Rows that span all directions, so that every client has a minimum of its own."""
    R = np.vstack([np.eye(d), rng.standard_normal((whole(rng, 0, 2), d))]) / scale
    R = R * rng.uniform(0.5, 2, (len(R), 1))
    return Client(term, R, rng.standard_normal(len(R)), spread(rng, 0.1, 10))


def _total(clients: list[Client], x: Vector) -> tuple[float, Vector, Matrix]:
    parts = [f.parts(x) for f in clients]
    value = sum(part[0] for part in parts)
    slope = np.sum([part[1] for part in parts], axis=0)
    return value, slope, np.sum([part[2] for part in parts], axis=0)


def _judged(result: Any, left: float) -> str:
    if left <= ARRIVED:
        return "arrived"
    reason = result.reason
    assert "certified" not in reason, "certified, far from the optimum"
    assert "optimal" not in reason, "called optimal, far from the optimum"
    promised = [why for why in result.choices if "converges on every" in why]
    assert not promised, f"it had promised: {promised[0]}"
    assert result.diverged or any(word in reason for word in HONEST), "the reason does not say so"
    return "not there, and says so"
