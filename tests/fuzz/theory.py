"""Rates and bounds of ``pdmm.theory``: the formulas to 50 digits, and runs that keep to them.

What is asked for any positive, finite constants: numbers that are right to 1e-9 (to a factor of 2
next to the ends of what floats can hold), or a ValueError with a sentence; never NaN or an
arithmetic error. Along runs: what is measured is not above what is proven, but for rounding.
"""

import importlib
import math
from typing import Any

import numpy as np

import pdmm
from fuzz.attempts import about
from fuzz.draws import Generator, chance, pick, spread, whole
from pdmm import theory

mpmath: Any = importlib.import_module("mpmath")
mp = mpmath.MPContext()
mp.dps = 50
NEAR = 1e-9
Number = Any  # an mpf


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    kinds = [_exact_rate, _theorem1, _best, _curves, _traced]
    return pick(rng, kinds)(rng)


def _constant(rng: Generator) -> float:
    """A positive, finite number: mostly one that occurs, now and then one that hardly does."""
    if chance(rng, 0.7):
        return spread(rng, 1e-6, 1e6)
    if chance(rng, 0.8):
        return spread(rng, 1e-300, 1e300)
    return pick(rng, [5e-324, 2.2e-308, 1e-308, 1e308, 1.7976931348623157e308])


def _curvatures(rng: Generator) -> tuple[float, float]:
    """L and mu; often of a usual ratio, or equal."""
    L = _constant(rng)
    mu = pick(rng, [L, L / spread(rng, 1, 1e8), _constant(rng)])
    return max(L, mu), max(min(L, mu), 5e-324)


def _accuracy(*constants: float | None) -> float:
    """How near numbers must be; next to the ends of what floats can hold, they have few digits."""
    usual = all(c is None or c == 0 or 1e-290 < c < 1e290 for c in constants)
    return NEAR if usual else 0.5


def _near(ours: float, true: Number, what: str, accuracy: float = NEAR) -> None:
    assert math.isfinite(ours), f"{what} is {ours}"
    tiny = mp.mpf(2) ** -1060  # numbers that floats hold to a few digits only
    assert abs(ours - true) <= accuracy * abs(true) + tiny, f"{what} is {ours!r}, truly {true}"


def _sentence(error: ValueError) -> str:
    assert len(str(error)) > 15, f"no sentence: {error!r}"
    return "refused"


def _exact_rate(rng: Generator) -> str:
    L, mu = _curvatures(rng)
    rho, a = _constant(rng), pick(rng, [1.0, 0.5, float(rng.uniform(0.01, 1))])
    with about(f"pdmm_rate({L!r}, {mu!r}, {rho!r}, {a!r})"):
        try:
            best = theory.best_rho(L, mu)
            found = theory.pdmm_rate(L, mu, rho, a)
        except ValueError as error:
            return _sentence(error)
        fall = _fall(mp.mpf(L), mp.mpf(mu), mp.mpf(rho))
        delta = 1 - fall
        _near(best, mp.sqrt(mp.mpf(L) * mp.mpf(mu)), "best_rho", _accuracy(L, mu))
        _near(found.decrease, mp.mpf(a) * fall, "the decrease", _accuracy(L, mu, rho))
        assert abs(found.delta - delta) <= 1e-12, f"delta is {found.delta!r}, truly {delta}"
        assert 0 <= found.delta <= 1
        _rounds(found, mp.mpf(a) * fall, 0)
    return "rate right"


def _fall(L: Number, mu: Number, rho: Number) -> Number:
    """1 - delta of exact PDMM, without cancellation: 1 - |u - v|/(u + v) = 2 min(u, v)/(u + v)."""
    return min(2 * min(L, rho) / (L + rho), 2 * min(rho, mu) / (rho + mu))


def _rounds(found: Any, decrease: Number, more: int) -> None:
    """The number of rounds that it promises is enough, and not one too many by much."""
    if decrease < mp.mpf("1e-300"):
        return
    count = found.rounds(1e-6)
    assert isinstance(count, int)
    if decrease >= 1:
        return
    needed = mp.log(mp.mpf("1e-6")) / mp.log1p(-decrease)
    assert abs(count - more - needed) <= 1 + NEAR * needed, f"{count} rounds, truly {needed}"


def _theorem1(rng: Generator) -> str:
    L, mu = _curvatures(rng)
    eta = min(float(rng.uniform(0.05, 1)) / L, 1.7e308)
    rho = pick(rng, [_constant(rng), L * spread(rng, 1e-3, 10)])
    with about(f"gpdmm_rate({L!r}, {mu!r}, {eta!r}, {rho!r})"):
        try:
            found = theory.gpdmm_rate(L, mu, eta, rho)
        except ValueError as error:
            return _sentence(error)
        decrease = _closed_form(L, mu, eta, rho)
        _near(found.decrease, decrease, "the decrease", _accuracy(L, mu, eta, rho))
        for name in ("beta", "theta", "phi", "gamma2"):
            value = getattr(found, name)
            assert math.isfinite(value), f"{name} is {value}"
        assert 0 <= found.beta <= 1
        assert 0 <= found.theta <= 1
        assert 0 <= found.phi <= 1
        _rounds(found, decrease, 1)
    return "rate right"


def _closed_form(L: float, mu: float, eta: float, rho: float) -> Number:
    m, r = mp.mpf(mu), mp.mpf(rho)
    small = mp.mpf(L) * mp.mpf(eta)
    B = 1 / mp.mpf(eta) + r + 2 * mp.mpf(L) * m / r
    return min(2 * m / (B + mp.sqrt(B * B - 4 * r * m)), r * mp.mpf(eta) * (1 - small) / 2)


def _best(rng: Generator) -> str:
    L, mu = _curvatures(rng)
    eta = None if chance(rng, 0.5) else min(float(rng.uniform(0.05, 0.99)) / L, 1.7e308)
    with about(f"best_gpdmm({L!r}, {mu!r}, {eta!r})"):
        try:
            found = theory.best_gpdmm(L, mu, eta)
        except ValueError as error:
            return _sentence(error)
        decrease = _closed_form(L, mu, found.step_size, found.rho)
        near = _accuracy(L, mu, found.step_size, found.rho)
        _near(found.decrease, decrease, "the decrease", near)
        for _ in range(20):
            other = found.step_size if eta is not None else float(rng.uniform(0.01, 0.99)) / L
            rho = found.rho * spread(rng, 1e-3, 1e3)
            if not (0 < rho < math.inf and 0 < other < math.inf):
                continue
            better = _closed_form(L, mu, other, rho)
            assert better <= decrease * (1 + mp.mpf("1e-4")), (
                f"rho {rho!r}, step_size {other!r} promises {mp.nstr(better, 8)}, "
                f"more than {found.decrease!r}"
            )
    return "best is best"


def _curves(rng: Generator) -> str:
    L, mu = _curvatures(rng)
    far, b = _constant(rng), pick(rng, [0.0, _constant(rng)])
    m, K = whole(rng, 1, 9), whole(rng, 1, 9)
    gamma = None if chance(rng, 0.5) else _constant(rng)
    eta, rho = min(float(rng.uniform(0.05, 0.99)) / L, 1.7e308), _constant(rng)
    with about(f"bounds of {(L, mu, far, b, m, gamma, eta, K, rho)}"):
        try:
            curve = theory.fedsplit_bound(L, mu, far, b, 5, m, gamma)
            other = theory.theorem2_bound(L, far, b, eta, K, rho, 5)
        except ValueError as error:
            return _sentence(error)
        best = mp.sqrt(mp.mpf(L) * mp.mpf(mu))
        fall = _fall(mp.mpf(L), mp.mpf(mu), best if gamma is None else 1 / mp.mpf(gamma))
        near = _accuracy(L, mu, far, b, gamma, eta, rho)
        for k in range(5):
            true = (1 - fall) ** (k + 1) * mp.mpf(far) / mp.sqrt(m) + 2 * mp.mpf(b) / fall
            _bound(float(curve[k]), true, "fedsplit_bound", near)
            total = mp.mpf(far) / (2 * mp.mpf(eta) * K) + mp.mpf(b) / (4 * mp.mpf(rho))
            _bound(float(other[k]), total / (k + 1), "theorem2_bound", near)
    return "bounds right"


def _bound(ours: float, true: Number, what: str, accuracy: float) -> None:
    """A bound that floats can hardly hold may be infinite: it is a bound."""
    if true > mp.mpf("1e300") and ours == math.inf:
        return
    _near(ours, true, what, accuracy)


# --- runs ---------------------------------------------------------------------------------------


def _problem(rng: Generator) -> pdmm.LeastSquares:
    """Clients of the same curvature in all directions, or not; their L and mu are exact."""
    m, d = whole(rng, 1, 5), whole(rng, 1, 4)
    kappa = pick(rng, [1.0, 1.0 + 1e-9, spread(rng, 1, 1e3)])
    scale = spread(rng, 1e-3, 1e3)
    A = []
    for _ in range(m):
        U, _, V = np.linalg.svd(rng.standard_normal((d + 2, d)), full_matrices=False)
        A.append(scale * (U * np.sqrt(np.geomspace(1, kappa, d))) @ V)
    same = chance(rng, 0.2)
    target = rng.standard_normal(d)
    b = [a @ (target if same else rng.standard_normal(d)) for a in A]
    return pdmm.LeastSquares(A, b)


def _traced(rng: Generator) -> str:
    problem = _problem(rng)
    L = float(problem.smoothness().clients.max())
    mu = float(problem.strong_convexity().clients.min())
    eta, K = float(rng.uniform(0.1, 0.99)) / L, whole(rng, 1, 6)
    rho = pick(rng, [math.sqrt(L * mu), spread(rng, mu / 10, 10 * L)])
    x0 = rng.standard_normal(problem.dimension) * pick(rng, [0.0, 1.0, 100.0])
    rounds, kind = whole(rng, 1, 30), pick(rng, ["1", "2", "pdmm", "fedsplit"])
    gamma = 1 / rho
    with about(f"{kind} on {problem!r}, L {L!r}, mu {mu!r}, eta {eta!r}, K {K}, rho {rho!r}"):
        if kind == "1":
            one = theory.trace_theorem1(problem, pdmm.GPDMM(eta, K, rho), rounds, x0)
            _below(one.Q, one.bound, 1e-25)
        elif kind == "2":
            two = theory.trace_theorem2(problem, pdmm.GPDMM(eta, K, rho), rounds, x0)
            _below(two.left, two.right, 1e-25)
        elif kind == "pdmm":
            exact = (
                pdmm.PDMM(rho, pick(rng, [1.0, 0.5])) if chance(rng, 0.5) else pdmm.FedSplit(gamma)
            )
            three = theory.trace_pdmm(problem, exact, rounds, x0)
            _below(three.distance, three.bound, 1e-12)
        else:
            start: Any = pick(rng, ["anchor", "server"])
            step = float(rng.uniform(0.1, 1)) / (L + rho)
            inexact = pdmm.InexactFedSplit(gamma, step, K, start)
            four = theory.trace_fedsplit(problem, inexact, rounds, x0)
            _below(four.distance, four.bound, 1e-12, four.start)
    return "run within its bound"


def _below(measured: Any, bound: Any, rounding: float, size: float = 0.0) -> None:
    """Not above, but for rounding, which is relative to the largest number of all."""
    assert np.isfinite(measured).all(), f"measured {measured}"
    assert np.isfinite(bound).all(), f"a bound of {bound}"
    slack = rounding * max(size, float(np.max(bound)), float(np.max(measured)))
    over = measured - bound * (1 + 1e-9) - slack
    k = int(np.argmax(over))
    assert over[k] <= 0, f"{measured[k]!r} in row {k} is above the bound {bound[k]!r}"
