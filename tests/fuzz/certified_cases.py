"""Random problems for certificates: well and badly conditioned, of all scales, with the truth."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import pdmm
from fuzz import exact_sums
from fuzz.draws import Array, Generator, chance, pick, spread, whole
from fuzz.truth import Point, Regularised, Smooth, exact, mp, norm

FINITE = 1e300


@dataclass
class Drawn:
    """A problem, and its sum as a function of numbers of 80 digits."""

    make: Callable[[], pdmm.Problem]
    """Makes the problem, which may be refused for its scale."""
    d: int
    weights: Array
    f: Smooth
    moderate: bool
    """Whether all scales are such that nobody may refuse them."""
    easy: bool = False
    """Whether a run without a method has to end close to the optimum, and to prove it."""
    tight: float = 1e-8
    """What part of the first gap it has to prove."""
    certain: bool = False
    """Whether a mu is known without any computation, so that no bound may be lost."""
    flat: bool = False
    """Whether the sum has no single minimiser."""
    words: str = ""
    """What the problem does not say of itself."""
    refutable: list[Any] = field(default_factory=list)
    """Of functions with a wrong strong_convexity: the gradients that were asked for."""


def some_weights(rng: Generator, m: int) -> tuple[Array, bool]:
    """Weights, and whether they are of a moderate size."""
    plain = np.ones(m) if chance(rng, 0.5) else rng.uniform(0.3, 3, m)
    if chance(rng, 0.8):
        return plain, True
    limit = pick(rng, [10.0, 30.0, 200.0])
    return plain * 10.0 ** rng.uniform(-limit, limit), False


def some_scale(rng: Generator, dtype: Any) -> tuple[float, bool]:
    """A factor for data, and whether it is a moderate one."""
    if chance(rng, 0.6):
        return 1.0, True
    limit = pick(rng, [3.0, 12.0, 30.0, 30.0])
    if dtype == np.float64 and chance(rng, 0.15):
        limit = pick(rng, [90.0, 200.0])
    power = float(rng.uniform(-limit, limit))
    return 10.0**power, abs(power) <= 3


def least_squares(rng: Generator) -> Drawn:
    dtype = pick(rng, [np.float64, np.float64, np.float32])
    m, d = whole(rng, 1, 4), whole(rng, 1, 4)
    flat = chance(rng, 0.1) and d > 1
    rows = d - 1 if flat else max(m, d) + whole(rng, 0, 6)
    m = min(m, rows)
    kappa = 1.0 if chance(rng, 0.1) else spread(rng, 1, 1e7)
    scale, moderate = some_scale(rng, dtype)
    U, _, V = np.linalg.svd(rng.standard_normal((rows, d)), full_matrices=False)
    A = scale * (U * np.geomspace(1, 1 / kappa, len(V))) @ V
    b = A @ rng.standard_normal(d)
    if chance(rng, 0.7):  # otherwise all residuals are 0 at the optimum
        b = b + np.abs(b).max() * spread(rng, 1e-6, 10) * rng.standard_normal(rows)
    cuts = np.sort(rng.choice(np.arange(1, rows), m - 1, replace=False)).tolist()
    As = [part.astype(dtype) for part in np.split(A, cuts)]
    bs = [part.astype(dtype) for part in np.split(b, cuts)]
    weights, usual = some_weights(rng, m)
    easy = dtype == np.float64 and kappa <= 30 and scale == 1 and usual and not flat
    f = exact_sums.least_squares(As, bs, weights)
    flat = flat or not _full(As)
    make = partial(pdmm.LeastSquares, As, bs)
    return Drawn(make, d, weights, f, moderate and usual, easy, flat=flat)


def _full(A: list[Array]) -> bool:
    """Whether the columns are independent, in the numbers as they are."""
    rows = exact(np.concatenate(A).tolist())
    gram = mp.matrix(rows).T * mp.matrix(rows)
    values = mp.eigsy(gram, eigvals_only=True)
    return bool(values[0] > mp.mpf(10) ** -60 * values[len(values) - 1])


def quadratic(rng: Generator) -> Drawn:
    dtype = pick(rng, [np.float64, np.float64, np.float32])
    m, d = whole(rng, 1, 4), whole(rng, 1, 4)
    kappa = spread(rng, 1, 1e7 if dtype == np.float64 else 1e3)
    scale, moderate = some_scale(rng, dtype)
    H = np.empty((m, d, d))
    for i in range(m):
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        part = scale * (Q * np.geomspace(1, 1 / kappa, d)) @ Q.T
        H[i] = (part + part.T) / 2
    Hs, c = H.astype(dtype), (scale * rng.standard_normal((m, d))).astype(dtype)
    weights, usual = some_weights(rng, m)
    easy = dtype == np.float64 and kappa <= 1e3 and scale == 1 and usual
    f = exact_sums.quadratics(Hs, c, weights)
    return Drawn(partial(pdmm.Quadratic, Hs, c), d, weights, f, moderate and usual, easy)


def functions(rng: Generator) -> Drawn:
    """Functions whose gradients are right to a few units in the last place of each entry."""
    m, d = whole(rng, 1, 4), whole(rng, 1, 4)
    steep = pick(rng, [1e-3, 0.1, 1.0])  # nearly quadratic, or far from it
    s = np.full((m, d), steep)
    q = np.exp(rng.uniform(-1, 1, (m, d)) * pick(rng, [0.5, 3.0])) / steep**2
    c = rng.standard_normal((m, d)) * pick(rng, [1.0, 1.0, 3.0])
    single = chance(rng, 0.2)
    wrong = chance(rng, 0.15)
    mu = (q * s**2).min(1) * (1 - 1e-12)
    seen: list[Any] = [[] for _ in range(m)]

    def value(i: int, x: Array) -> float:
        return float((q[i] * 2 * np.sinh(s[i] * (x - c[i]) / 2) ** 2).sum())

    def gradient(i: int, x: Array) -> Array:
        g = q[i] * s[i] * np.sinh(s[i] * (x - c[i]))
        seen[i].append((x.copy(), g))
        return np.asarray(g, dtype=np.float32 if single else np.float64)

    def each(function: Callable[..., Any]) -> list[Any]:
        return [lambda x, i=i: function(i, x) for i in range(m)]

    given = mu * pick(rng, [2.0, 20.0]) if wrong else mu
    make = partial(pdmm.Functions, each(value), each(gradient), d, strong_convexity=given)
    weights, usual = some_weights(rng, m)
    f = exact_sums.bowls(q, s, c, weights)
    easy = usual and not single and not wrong
    words = f"gradients in {'float32' if single else 'float64'}, mu {given}, truly {mu}"
    drawn = Drawn(make, d, weights, f, usual, easy, certain=usual and not wrong, words=words)
    drawn.tight = 1e-5  # gradients of users' own functions may have the digits of float32 only
    if wrong:
        drawn.refutable = [(mu_i, rows) for mu_i, rows in zip(given, seen, strict=True)]
    return drawn


def softmax(rng: Generator) -> Drawn:
    dtype = pick(rng, [np.float64, np.float64, np.float32])
    m, classes = whole(rng, 1, 3), pick(rng, [2, 2, 3])
    power = float(rng.uniform(-15, 15)) if chance(rng, 0.1) else 0.0
    n = [whole(rng, 2, 5) for _ in range(m)]
    X = [(10.0**power * rng.standard_normal((k, 1))).astype(dtype) for k in n]
    y = [rng.integers(0, classes, k) for k in n]
    l2 = spread(rng, 1e-4, 10)
    weights, usual = some_weights(rng, m)
    make = partial(pdmm.SoftmaxRegression, X, y, classes, l2)
    f = exact_sums.softmax(X, y, classes, l2, weights)
    easy = dtype == np.float64 and power == 0 and usual and l2 >= 1e-2
    usual = usual and power == 0
    return Drawn(make, 2 * classes, weights, f, usual, easy, certain=usual)


def regularised(rng: Generator, drawn: Drawn) -> tuple[Any, Regularised]:
    """A regulariser that makes a difference, and F with it."""
    d = drawn.d
    kind = pick(rng, ["none", "none", "L1", "SquaredL2", "Box"])
    if drawn.flat:
        kind = pick(rng, ["none", "SquaredL2"])
    if kind in ("L1", "Box") and d > 4:
        kind = "none"
    zeros: Point = [mp.zero] * d
    here = drawn.f(zeros)
    bend = max(here.hessian[j][j] for j in range(d))
    if kind == "none":
        return None, Regularised(drawn.f, d)
    if kind == "SquaredL2":
        c = _finite(bend * spread(rng, 1e-8, 10))
        drawn.flat = drawn.flat and c < bend * mp.mpf("1e-9")  # too little to make a difference
        return pdmm.SquaredL2(c), Regularised(drawn.f, d, kind, exact(c))
    if kind == "L1":
        c = _finite(norm(here.gradient) * float(rng.uniform(0, 1.1)))
        return pdmm.L1(c), Regularised(drawn.f, d, kind, exact(c))
    free = [float(v) for v in Regularised(drawn.f, d).minimiser(zeros)]
    ends = np.array([_ends(rng, entry) for entry in free])
    lo, hi = ends[:, 0], ends[:, 1]
    F = Regularised(drawn.f, d, kind, mp.zero, exact(lo), exact(hi))
    return pdmm.Box(lo, hi), F


def _finite(c: Any) -> float:
    return float(min(max(c, 1 / FINITE), FINITE))


def _ends(rng: Generator, entry: float) -> tuple[float, float]:
    """Bounds for an entry whose best value is known: binding, barely so, tiny, or none."""
    size = min(max(abs(entry), 1 / FINITE), FINITE)
    near = size * spread(rng, 1e-12, 1)
    tiny = size * spread(rng, 1e-12, 1e-2)
    return pick(
        rng,
        [
            (-np.inf, np.inf),
            (0.0, np.inf),
            (-np.inf, 0.0),
            (0.0, tiny),
            (-tiny, tiny),
            (entry - near, np.inf),
            (-np.inf, entry - near),
            (entry + near, entry + 2 * near),
            (0.0, 0.0),
            (-1e-300, 1e-300),
            (-size, size),
        ],
    )
