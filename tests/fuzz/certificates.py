"""Certificates of random points: no bound below the truth, which is known to 80 digits.

What is asked, of every certificate of a point x: its gap is at least F(x) - F* and its distance at
least ‖x - x*‖, both to the last digit, or there is no bound; mu is not above the true one; nothing
is said to be optimal or certified that is not; the last gap of the history is not above the
certified one. So that "no bound" does not pass for an answer, a run without a method has to prove
1e-8 of the first gap within 400 rounds where data are float64, of scale 1, with kappa(A) <= 30.
"""

import itertools
import re
from typing import Any

import numpy as np

import pdmm
from fuzz.attempts import about
from fuzz.certified_cases import Drawn, functions, least_squares, quadratic, regularised, softmax
from fuzz.draws import Array, Generator, chance, pick, spread
from fuzz.truth import Point, Regularised, exact, mp, norm

certify: Any = getattr(pdmm, "certify", None)
PROVEN = re.compile(r"proven to be at most ([0-9.e+-]+)")


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    makers = [least_squares, least_squares, least_squares, quadratic, functions, functions, softmax]
    drawn = pick(rng, makers)(rng)
    h, F = regularised(rng, drawn)
    with about(f"{drawn.problem!r}, weights {drawn.weights}, {h!r}, {drawn.words}"):
        best = None
        if not drawn.flat:
            best = F.minimiser([mp.zero] * drawn.d)
        x0 = _start(rng, drawn, best)
        if certify is not None and chance(rng, 0.5):
            return _certified(drawn, h, F, best, x0)
        return _run(rng, drawn, h, F, best, x0)


def _start(rng: Generator, drawn: Drawn, best: Point | None) -> Array:
    """Zeros, anything, the optimum as near as floats can have it, or something near it."""
    dtype = drawn.problem.dtype
    kind = pick(rng, ["zeros", "anything", "best", "near", "near"])
    if kind == "zeros" or best is None:
        return np.zeros(drawn.d)
    x = np.clip(np.array([float(v) for v in best]), -1e300, 1e300)
    if dtype == np.float32:
        x = np.clip(x, -1e38, 1e38)
    size = np.abs(x).max() or 1.0
    if kind == "anything":
        x = size * rng.standard_normal(drawn.d)
    elif kind == "near":
        off = spread(rng, 1e-16, 1e-2) * rng.standard_normal(drawn.d)
        x = x * (1 + off) if chance(rng, 0.5) else x + size * off
    return np.asarray(x.astype(dtype), dtype=np.float64)


def _certified(drawn: Drawn, h: Any, F: Regularised, best: Point | None, x: Array) -> str:
    x = x.astype(drawn.problem.dtype)
    try:
        found = certify(drawn.problem, x, weights=drawn.weights, regulariser=h)
    except ValueError as error:
        return _refused(drawn, error)
    with about(f"the certificate of {x.tolist()}: {found!r}"):
        word = _true(found, drawn, F, best, x)
        if drawn.easy and best is not None and _inside(x, F):
            _close_enough(found, F, best, x)
    return word


def _close_enough(found: Any, F: Regularised, best: Point, x: Array) -> None:
    """Where x is the optimum as floats have it, the bound is small beside F(0) - F*."""
    at = exact(x)
    if norm([a - b for a, b in zip(at, best, strict=True)]) > mp.mpf(10) ** -15 * norm(best):
        return
    if F.kind == "L1" and any(a != 0 for a, b in zip(at, best, strict=True) if b == 0):
        return
    first = F.value([mp.zero] * F.d) - F.value(best)
    if first <= mp.mpf("1e-3") * abs(F.value(best)):
        return  # the optimum is next to 0, which says nothing of how large a bound may be
    assert found.gap is not None, "no bound at the optimum"
    assert found.gap <= 1e-8 * first, f"a bound of {found.gap:.1e}, F(0) - F* is {_shown(first)}"


def _run(
    rng: Generator, drawn: Drawn, h: Any, F: Regularised, best: Point | None, x0: Array
) -> str:
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
                drawn.problem,
                method,
                rounds,
                x0=x0,
                weights=drawn.weights,
                regulariser=h,
                threads=1,
                **settings,
            )
        except ValueError as error:
            return _refused(drawn, error)
        with about(f"{result.reason}: x {result.x.tolist()}, {result.certificate!r}"):
            word = _true(result.certificate, drawn, F, best, result.x)
            _true_words(result, drawn, F, best)
            if method is None and rounds == 400 and "tolerance" not in settings:
                _arrived(result, drawn, F, best, x0)
    return word


def _refused(drawn: Drawn, error: ValueError) -> str:
    assert not drawn.moderate, f"refused: {error}"
    assert len(str(error)) > 15, f"no sentence: {error!r}"
    return "refused"


def _true(found: Any, drawn: Drawn, F: Regularised, best: Point | None, x: Array) -> str:
    """Hold a certificate of x against the truth."""
    assert "not convex" not in found.kind, f"mu is {found.kind}"
    if drawn.refutable and _refuted(drawn):
        proven = F.c if F.kind == "SquaredL2" else 0.0
        believed = found.gap is not None and found.strong_convexity > 1.001 * proven
        assert not believed, "a bound with a strong_convexity that two gradients refute"
        return "mu is wrong, which was noticed"
    if drawn.refutable:
        return "mu is wrong, and nothing shows it"
    if found.gap is None:
        lost = drawn.certain and best is not None and _inside(x, F, mp.zero)
        assert not lost, "no bound, although mu is known"
        return "no bound"
    assert best is not None, f"a bound of {found.gap:g}, but no single minimiser"
    assert _inside(x, F), f"a bound of {found.gap:g} outside of the Box"
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


def _true_words(result: Any, drawn: Drawn, F: Regularised, best: Point | None) -> None:
    """Hold what a result says beside its bound against the truth."""
    found, reason = result.certificate, result.reason
    if "gap" in result.history and found.gap is not None and not drawn.refutable:
        last = result.history["gap"][-1]
        assert last <= found.gap, f"the history's gap {last!r} is above {found.gap!r}"
    if "certified" in reason or "optimal" in reason:
        assert np.isfinite(found.size), "certified, with a number that is not finite"
        if found.gap is None and best is not None:
            slope = norm(_shortest(F, exact(result.x)))
            start = norm(_shortest(F, [mp.zero] * F.d))
            assert slope <= 1e-3 * start or start == 0, f"‖grad F‖ is {_shown(slope)}"
    said = PROVEN.search(reason)
    if said is not None and best is not None and not drawn.refutable:
        gap = F.value(exact(result.x)) - F.value(best)
        assert float(said[1]) * 1.006 >= gap, f"F(x) - F* is {_shown(gap)}, not what is said"


def _arrived(result: Any, drawn: Drawn, F: Regularised, best: Point | None, x0: Array) -> None:
    """The completeness that is asked for; see the module's docstring."""
    if not drawn.easy or best is None:
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
    assert gap <= 1e-8 * first, f"a bound of {gap:.1e} where the first gap was {_shown(first)}"


def _shortest(F: Regularised, x: Point) -> Point:
    """The shortest subgradient of F at x."""
    g = F.smooth(x).gradient
    if F.kind == "L1":
        return [
            v + F.c * mp.sign(at) if at != 0 else mp.sign(v) * max(abs(v) - F.c, 0)
            for v, at in zip(g, x, strict=True)
        ]
    if F.kind != "Box" or F.lo is None or F.hi is None:
        return g
    rows = zip(g, x, F.lo, F.hi, strict=True)
    return [mp.zero if (at <= a and v > 0) or (at >= b and v < 0) else v for v, at, a, b in rows]


def _inside(x: Array, F: Regularised, rounding: Any = None) -> bool:
    """Whether x is in the Box, but for the rounding of bounds to what x can hold."""
    if F.lo is None or F.hi is None:
        return True
    eps = exact(2 * float(np.finfo(x.dtype).eps)) if rounding is None else rounding
    low = (at >= a - eps * abs(a) for at, a in zip(exact(x), F.lo, strict=True))
    high = (at <= b + eps * abs(b) for at, b in zip(exact(x), F.hi, strict=True))
    return all(low) and all(high)


def _refuted(drawn: Drawn) -> bool:
    """Whether two successive gradients of a client show that its mu is far too large."""
    for mu, rows in drawn.refutable:
        for (x, g), (y, h) in itertools.pairwise(rows):
            dx, dg = x - y, g - h
            clear = np.linalg.norm(dg) > 1e-3 * (np.linalg.norm(g) + np.linalg.norm(h))
            far = np.linalg.norm(dx) > 1e-6 * (np.linalg.norm(x) + np.linalg.norm(y))
            if clear and far and dg @ dx < 0.9 * mu * (dx @ dx):
                return True
    return False


def _shown(number: Any) -> str:
    return str(mp.nstr(number, 6))
