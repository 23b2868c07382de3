"""Certificates of random points: no bound below the truth, which is known to 80 digits.

What is asked, of every certificate of a point x: its gap is at least F(x) - F* and its distance at
least ‖x - x*‖, both to the last digit, or there is no bound; mu is not above the true one; nothing
is said to be optimal or certified that is not; the last gap of the history is not above the
certified one. So that "no bound" does not pass for an answer, a run without a method has to prove
1e-8 of the first gap (1e-5, of users' own functions) within 400 rounds where data are float64, of
scale 1, with kappa(A) <= 30.
"""

import re
from typing import Any, NamedTuple

import numpy as np

import pdmm
from fuzz.attempts import about
from fuzz.certified_cases import Drawn, functions, least_squares, quadratic, regularised, softmax
from fuzz.conditions import held, inside, refuted, shortest
from fuzz.draws import Array, Generator, chance, pick, spread
from fuzz.truth import Point, Regularised, exact, mp, norm

certify: Any = getattr(pdmm, "certify", None)
SLOPE = re.compile(r"‖grad F\(x\)‖ is ([0-9.e+-]+)")
PROVEN = re.compile(r"proven to be at most ([0-9.e+-]+)")


class Posed(NamedTuple):
    """A problem, a regulariser, F with it, and where F is lowest; None if that is not one point."""

    drawn: Drawn
    problem: pdmm.Problem
    h: Any
    F: Regularised
    best: Point | None


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    makers = [least_squares, least_squares, least_squares, quadratic, functions, functions, softmax]
    drawn = pick(rng, makers)(rng)
    h, F = regularised(rng, drawn)
    try:
        problem = drawn.make()
    except ValueError as error:
        return _refused(drawn, error)
    with about(f"{problem!r}, weights {drawn.weights}, {h!r}, {drawn.words}"):
        best = None
        if not drawn.flat:
            best = F.minimiser([mp.zero] * drawn.d)
        posed = Posed(drawn, problem, h, F, best)
        x0 = _start(rng, problem, best)
        if certify is not None and chance(rng, 0.5):
            return _certified(posed, x0)
        return _run(rng, posed, x0)


def _start(rng: Generator, problem: pdmm.Problem, best: Point | None) -> Array:
    """Zeros, anything, the optimum as near as floats can have it, or something near it."""
    dtype = problem.dtype
    kind = pick(rng, ["zeros", "anything", "best", "near", "near"])
    if kind == "zeros" or best is None:
        return np.zeros(problem.dimension)
    x = np.clip(np.array([float(v) for v in best]), -1e300, 1e300)
    if dtype == np.float32:
        x = np.clip(x, -1e38, 1e38)
    size = np.abs(x).max() or 1.0
    if kind == "anything":
        x = size * rng.standard_normal(problem.dimension)
    elif kind == "near":
        off = spread(rng, 1e-16, 1e-2) * rng.standard_normal(problem.dimension)
        x = x * (1 + off) if chance(rng, 0.5) else x + size * off
    return np.asarray(x.astype(dtype), dtype=np.float64)


def _certified(posed: Posed, x0: Array) -> str:
    drawn, best = posed.drawn, posed.best
    x = x0.astype(posed.problem.dtype)
    try:
        found = certify(posed.problem, x, weights=drawn.weights, regulariser=posed.h)
    except ValueError as error:
        return _refused(drawn, error)
    with about(f"the certificate of {x.tolist()}: {found!r}"):
        word = _true(found, posed, x)
        if drawn.easy and best is not None and inside(x, posed.F):
            _close_enough(found, posed.F, best, x, drawn.tight)
    return word


def _close_enough(found: Any, F: Regularised, best: Point, x: Array, tight: float) -> None:
    """Where x is the optimum as floats have it, the bound is small beside F(0) - F*."""
    at = exact(x)
    if norm([a - b for a, b in zip(at, best, strict=True)]) > mp.mpf(10) ** -15 * norm(best):
        return
    if not held(F, at, best):
        return
    first = F.value([mp.zero] * F.d) - F.value(best)
    if first <= mp.mpf("1e-3") * abs(F.value(best)):
        return  # the optimum is next to 0, which says nothing of how large a bound may be
    assert found.gap is not None, "no bound at the optimum"
    assert found.gap <= tight * first, f"a bound of {found.gap:.1e}, F(0) - F* is {_shown(first)}"


def _run(rng: Generator, posed: Posed, x0: Array) -> str:
    method: Any = pick(
        rng,
        [
            None,
            None,
            pdmm.PDMM(),
            pdmm.AGPDMM(),
            pdmm.GPDMM(rho="auto"),
            pdmm.GradientDescent(),
        ],
    )
    rounds = pick(rng, [1, 3, 20, 400 if method is None else 60])
    settings: dict[str, Any] = {"tolerance": spread(rng, 1e-14, 1e-2)} if chance(rng, 0.3) else {}
    if chance(rng, 0.3):
        settings["optimum"] = False
    kind = type(method).__name__ if method is not None else "auto"
    with about(f"{kind}, {rounds} rounds, x0 {x0.tolist()}, {settings}"):
        try:
            result = pdmm.solve(
                posed.problem,
                method,
                rounds,
                x0=x0,
                weights=posed.drawn.weights,
                regulariser=posed.h,
                threads=1,
                **settings,
            )
        except ValueError as error:
            return _refused(posed.drawn, error)
        with about(f"{result.reason}: x {result.x.tolist()}, {result.certificate!r}"):
            word = _true(result.certificate, posed, result.x)
            _true_words(result, posed)
            if method is None and rounds == 400 and "tolerance" not in settings:
                _arrived(result, posed, x0)
    return word


def _refused(drawn: Drawn, error: ValueError) -> str:
    assert not drawn.moderate, f"refused: {error}"
    assert len(str(error)) > 15, f"no sentence: {error!r}"
    return "refused"


def _true(found: Any, posed: Posed, x: Array) -> str:
    """Hold a certificate of x against the truth."""
    drawn, F = posed.drawn, posed.F
    best = posed.best
    assert "not convex" not in found.kind, f"mu is {found.kind}"
    if drawn.refutable and refuted(drawn):
        proven = F.c if F.kind == "SquaredL2" else 0.0
        believed = found.gap is not None and found.strong_convexity > 1.001 * proven
        assert not believed, "a bound with a strong_convexity that two gradients refute"
        return "mu is wrong, which was noticed"
    if drawn.refutable:
        return "mu is wrong, and nothing shows it"
    if found.gap is None:
        lost = drawn.certain and best is not None and inside(x, F, mp.zero)
        assert not lost, "no bound, although mu is known"
        return "no bound"
    assert best is not None, f"a bound of {found.gap:g}, but no single minimiser"
    assert inside(x, F), f"a bound of {found.gap:g} outside of the Box"
    at = exact(x)
    gap = F.value(at) - F.value(best)
    distance = norm([a - b for a, b in zip(at, best, strict=True)])
    assert found.gap >= gap, f"gap {found.gap!r} is below the true {_shown(gap)}"
    assert found.distance >= distance, f"distance {found.distance!r} is below {_shown(distance)}"
    if F.f(at).hessian == F.f(best).hessian and F.kind in ("none", "SquaredL2"):
        mu = min(mp.eigsy(mp.matrix(F.smooth(at).hessian), eigvals_only=True))
        tiny = mp.mpf(2) ** -1060  # numbers that floats hold to a few digits only
        assert found.strong_convexity <= mu * (1 + mp.mpf("1e-6")) + tiny, (
            f"mu {found.strong_convexity!r} is above the true {_shown(mu)}"
        )
    return "bound held" if np.isfinite(found.gap) else "a bound of infinity"


def _true_words(result: Any, posed: Posed) -> None:
    """Hold what a result says beside its bound against the truth."""
    drawn, F = posed.drawn, posed.F
    best = posed.best
    found, reason = result.certificate, result.reason
    if "gap" in result.history and found.gap is not None and not drawn.refutable:
        last = result.history["gap"][-1]
        assert last <= found.gap, f"the history's gap {last!r} is above {found.gap!r}"
    if "certified" in reason or "optimal" in reason:
        assert np.isfinite(found.size), "certified, with a number that is not finite"
        if found.gap is None and best is not None:
            _true_slope(reason, F, exact(result.x))
    said = PROVEN.search(reason)
    if said is not None and best is not None and not drawn.refutable:
        gap = F.value(exact(result.x)) - F.value(best)
        assert float(said[1]) * 1.006 >= gap, f"F(x) - F* is {_shown(gap)}, not what is said"


def _true_slope(reason: str, F: Regularised, x: Point) -> None:
    """Where a run without a bound says that it is stationary, it is."""
    slope = norm(shortest(F, x))
    start = norm(shortest(F, [mp.zero] * F.d))
    said = SLOPE.search(reason)
    if said is not None:  # of gradients that may be in float32
        most = 1.006 * float(said[1]) + 1e-5 * start
        assert slope <= most, f"‖grad F‖ is {_shown(slope)}, not what is said"
        return
    assert slope <= 1e-3 * start or start == 0, f"‖grad F‖ is {_shown(slope)}"


def _arrived(result: Any, posed: Posed, x0: Array) -> None:
    """The completeness that is asked for; see the module's docstring."""
    F, best = posed.F, posed.best
    if not posed.drawn.easy or best is None:
        return
    start = exact(x0)
    if F.kind == "Box" and F.lo is not None and F.hi is not None:
        start = [min(max(v, a), b) for v, a, b in zip(start, F.lo, F.hi, strict=True)]
    first = F.value(start) - F.value(best)
    size = abs(F.value(best)) + F.value([mp.zero] * F.d)
    if first <= mp.mpf("1e-3") * size:
        return  # it had arrived when it began
    gap = result.certificate.gap
    assert gap is not None, "no bound after a run on an easy problem"
    assert gap <= posed.drawn.tight * first, (
        f"a bound of {gap:.1e} where the first gap was {_shown(first)}"
    )


def _shown(number: Any) -> str:
    return str(mp.nstr(number, 6))
