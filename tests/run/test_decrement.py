"""Bounds by self-concordance are never below the truth, which is computed to 40 digits."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from pdmm.problems.glm.cox import PartialLikelihood
from pdmm.run.decrement import UNKNOWN, Decrement, decrement
from twins.survival import Cox

Vector = npt.NDArray[np.float64]
Numbers = Any  # an array of mpmath's numbers

mp = mpmath.mp


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


def exact(values: npt.ArrayLike) -> Numbers:
    """Floats as the numbers that they are."""
    return np.vectorize(lambda value: mp.mpf(float(value)), otypes=[object])(values)


class Local(NamedTuple):
    """A function at a point."""

    value: Any
    gradient: Any
    hessian: Any


# --- models, each in floats and in many digits ------------------------------------------------

EXP: dict[bool, Any] = {True: np.vectorize(mp.exp, otypes=[object]), False: np.exp}
LOG: dict[bool, Any] = {True: np.vectorize(mp.log, otypes=[object]), False: np.log}
Rows = tuple[Any, Any, Any]  # the loss of each row, and two derivatives


def gaussian(eta: Any, y: Any, many: bool) -> Rows:
    return (eta - y) ** 2 / 2, eta - y, 1 + 0 * eta


def binomial(eta: Any, y: Any, many: bool) -> Rows:
    p = 1 / (1 + EXP[many](-eta))
    return -LOG[many](1 - p) - y * eta, p - y, p * (1 - p)


def poisson(eta: Any, y: Any, many: bool) -> Rows:
    mean = EXP[many](eta)
    return mean - y * eta, mean - y, mean


def gamma_family(eta: Any, y: Any, many: bool) -> Rows:
    ratio = y * EXP[many](-eta)
    return ratio + eta, 1 - ratio, ratio


class Model:
    """A likelihood of rows X with an outcome y."""

    def __init__(self, X: Vector, y: Vector) -> None:
        self.X = X
        self.y = y
        self.d = X.shape[1]
        self.exact_X = exact(X)
        self.exact_y = exact(y)

    def truth(self, x: Numbers) -> Local:
        raise NotImplementedError

    def floats(self, x: Vector, T: Vector) -> tuple[Vector, Vector, float]:
        """T' gradient, T' hessian T and reach, in floats."""
        raise NotImplementedError


class OfRows(Model):
    family: Callable[[Any, Any, bool], Rows]
    third = 1.0

    def truth(self, x: Numbers) -> Local:
        X = self.exact_X
        loss, slope, bend = type(self).family(X @ x, self.exact_y, True)
        return Local(loss.sum(), slope @ X, (X.T * bend) @ X)

    def floats(self, x: Vector, T: Vector) -> tuple[Vector, Vector, float]:
        Z = self.X @ T
        _, slope, bend = type(self).family(self.X @ x, self.y, False)
        return slope @ Z, (Z.T * bend) @ Z, self.third * float((Z * Z).sum(1).max())


class Gaussian(OfRows):
    family = staticmethod(gaussian)
    third = 0.0


class Binomial(OfRows):
    family = staticmethod(binomial)


class Poisson(OfRows):
    family = staticmethod(poisson)


class Gamma(OfRows):
    family = staticmethod(gamma_family)


class Multinomial(Model):
    """Three classes, the first of which is the reference; x has the rows of the others' columns."""

    def __init__(self, X: Vector, y: Vector) -> None:
        super().__init__(X, y)
        p = self.d
        none = np.zeros_like(X)
        self.d = 2 * p
        self.classes = [np.zeros((len(X), 2 * p)), np.hstack([X, none]), np.hstack([none, X])]
        self.exact_classes = [exact(rows) for rows in self.classes]

    def _local(self, x: Any, rows: list[Any], along: list[Any], many: bool) -> Local:
        eta = [r @ x for r in rows]
        sizes = [EXP[many](e) for e in eta]
        total = sum(sizes)
        shares = [size / total for size in sizes]
        chosen = [self.y == k for k in range(3)]
        value = LOG[many](total).sum() - sum(
            (e * c).sum() for e, c in zip(eta, chosen, strict=True)
        )
        mean = sum(p[:, None] * z for p, z in zip(shares, along, strict=True))
        gradient = sum((p - c) @ z for p, c, z in zip(shares, chosen, along, strict=True))
        hessian = sum(((z - mean).T * p) @ (z - mean) for p, z in zip(shares, along, strict=True))
        return Local(value, gradient, hessian)

    def truth(self, x: Numbers) -> Local:
        return self._local(x, self.exact_classes, self.exact_classes, True)

    def floats(self, x: Vector, T: Vector) -> tuple[Vector, Vector, float]:
        Z = [rows @ T for rows in self.classes]
        _, gradient, hessian = self._local(x, self.classes, Z, False)
        reach = max(float(((a - b) ** 2).sum(1).max()) for a in Z for b in Z)
        return gradient, hessian, reach


class Survival(Model):
    """Cox's model, with the times in y: rows at some of them are censored."""

    def __init__(self, X: Vector, y: Vector) -> None:
        event = np.mod(y, 4) > 0
        self.f = PartialLikelihood(y, event)
        order = self.f.order
        super().__init__(X[order], y[order])
        ones = [mp.mpf(1)] * len(y)
        self.twin = Cox(self.y.tolist(), event[order].tolist(), ones, "efron", mp)

    def truth(self, x: Numbers) -> Local:
        eta = list(self.exact_X @ x)
        slope = np.array(self.twin.slope(eta), dtype=object)
        hessian = np.array(self.twin.hessian(self.exact_X.tolist(), eta), dtype=object)
        return Local(self.twin.value(eta), slope @ self.exact_X, hessian)

    def floats(self, x: Vector, T: Vector) -> tuple[Vector, Vector, float]:
        Z = self.X @ T
        eta = self.X @ x
        return self.f.slope(eta) @ Z, self.f.hessian(Z, eta), self.f.reach(Z)


def drawn(model: type[Model], rng: np.random.Generator, X: Vector, eta: Vector) -> Vector:
    """Outcomes that the model could have."""
    n = len(X)
    if model is Gaussian:
        return eta + rng.standard_normal(n)
    if model is Binomial:
        return (rng.random(n) < 0.5).astype(float)
    if model is Poisson:
        return rng.poisson(np.exp(eta)).astype(float)
    if model is Gamma:
        return np.exp(eta) * rng.gamma(2.0, 0.5, n)
    if model is Multinomial:
        return rng.integers(0, 3, n).astype(float)
    return np.ceil(20 * rng.exponential(np.exp(-eta)))


# --- cases ------------------------------------------------------------------------------------


@dataclass
class Case:
    model: Model
    l2: Vector
    best: Numbers
    least: Any

    def truth(self, x: Numbers) -> Local:
        """F = f + penalty at x."""
        l2 = exact(self.l2)
        value, gradient, hessian = self.model.truth(x)
        return Local(value + (l2 * x * x).sum() / 2, gradient + l2 * x, hessian + np.diag(l2))


def solved(A: Numbers, b: Numbers) -> Numbers:
    found = mp.lu_solve(mp.matrix(A.tolist()), mp.matrix(b.tolist()))
    return np.array(list(found), dtype=object)


def minimised(case: Case) -> Case:
    """By Newton's method with halved steps."""
    x = exact(np.zeros(case.model.d))
    at = case.truth(x)
    for _ in range(80):
        step = solved(at.hessian, at.gradient)
        decrease = at.gradient @ step
        if decrease <= mp.mpf(10) ** -55:
            break
        t = mp.mpf(1)
        new = case.truth(x - t * step)
        while decrease > 1e-3 and not new.value < at.value:
            t /= 2
            new = case.truth(x - t * step)
        x = x - t * step
        at = new
    else:
        raise AssertionError("Newton's method has not arrived")
    case.best = x
    case.least = at.value
    return case


def make(model: type[Model], seed: int, spread: float, penalised: bool) -> Case:
    """Columns that are correlated, and whose scales are up to ``spread`` apart or more."""
    rng = np.random.default_rng(seed)
    n, p = 14, 3
    if model is Multinomial:
        n, p = 20, 2
    base = rng.standard_normal((n, p))
    base[:, -1] = 1.0
    if model is Survival:
        base[:, -1] = rng.standard_normal(n)
    base[:, 0] += 3 * base[:, -1]
    eta = base @ rng.uniform(-0.5, 0.5, p)
    X = base * spread ** rng.uniform(-1, 1, p)
    outcomes = drawn(model, rng, X, eta)
    made = model(X, outcomes)
    sizes = (X * X).sum(0)
    if model is Multinomial:
        sizes = np.tile(sizes, 2)
    # Without any penalty, small data like these may have no minimiser.
    l2 = (0.1 if penalised else 1e-3) * sizes / n
    if model in (Gaussian, Poisson, Gamma) and not penalised:
        l2 = 0 * l2
    return minimised(Case(made, l2, None, None))


def root(hessian: Numbers) -> Numbers:
    """An upper triangular T with T' hessian T = I, in many digits."""
    L = mp.cholesky(mp.matrix(hessian.tolist()))
    return np.array((L**-1).T.tolist(), dtype=object)


def bounds(case: Case, x: Vector, T: Vector | None) -> Decrement:
    """What is proven of x, where the doubt is no larger than the error is."""
    model = case.model
    coordinates = np.eye(model.d) if T is None else T
    gradient, hessian, reach = model.floats(x, coordinates)
    truth = exact(coordinates).T @ model.truth(exact(x)).gradient
    error = exact(gradient) - truth
    doubt = float(mp.sqrt(error @ error)) * (1 + 1e-12)
    rows = len(model.X)
    return decrement(gradient, doubt, hessian, reach, rows + 1, x=x, l2=case.l2, T=T)


def holds(case: Case, x: Vector, found: Decrement) -> float:
    """No bound is below the truth. Returns the bound of the gap, divided by the gap."""
    assert found.gap is not None
    assert found.deviation is not None
    assert found.distance is not None
    at = case.truth(exact(x))
    gap = at.value - case.least
    way = exact(x) - case.best
    assert found.gap >= gap
    assert mp.mpf(found.distance) ** 2 >= way @ way
    assert mp.mpf(found.deviation) ** 2 >= way @ at.hessian @ way
    lam = at.gradient @ solved(at.hessian, at.gradient)
    assert mp.mpf(found.lam) ** 2 >= lam
    errors = np.array([mp.sqrt(row[j]) for j, row in enumerate(inverse(at.hessian))])
    assert (np.abs(way) <= errors * found.deviation).all()
    return float(found.gap / gap) if gap > 0 else np.inf


def inverse(hessian: Numbers) -> Numbers:
    return np.array((mp.matrix(hessian.tolist()) ** -1).tolist(), dtype=object)


MODELS = [Gaussian, Binomial, Poisson, Gamma, Multinomial, Survival]


def check_near_and_far(case: Case, seed: int) -> None:
    """With a T that whitens the Hessian nearby, one that whitens it here, and none."""
    rng = np.random.default_rng(seed)
    d = case.model.d
    directions = root(case.truth(case.best).hessian)
    nearby = case.best + directions @ exact(0.3 * rng.standard_normal(d))
    whitening = np.array(directions, dtype=float)
    almost = np.array(root(case.truth(nearby).hessian), dtype=float)
    bounded = 0
    for radius in (0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 2.0):
        x = np.array(case.best + directions @ exact(radius * rng.standard_normal(d)), dtype=float)
        for T in (whitening, almost, None):
            found = bounds(case, x, T)
            if found.gap is None:
                assert found.q > 0.5
                continue
            ratio = holds(case, x, found)
            if T is not None:
                bounded += 1
                # The gap is at least ((1 + q) log(1 + q) - q)/R².
                sharp = (1 + found.q / 2) / (1 - found.q / 3)
                assert radius < 1e-6 or ratio <= 1.002 * sharp
                assert radius < 1e-6 or found.q > 0.07 or ratio <= 1.05
    assert bounded >= 8


@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e6])
@pytest.mark.parametrize("model", MODELS)
def test_never_below_the_truth(model: type[Model], spread: float, penalised: bool) -> None:
    check_near_and_far(make(model, 3, spread, penalised), 7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("model", MODELS)
def test_never_below_the_truth_of_many(model: type[Model], seed: int) -> None:
    check_near_and_far(make(model, seed, 10.0 ** (seed % 4 * 2), seed % 2 == 0), seed)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("beside", [1e-2, 1e-4, 1e-6, 1e-8])
def test_never_below_the_truth_where_columns_are_almost_the_same(
    model: type[Model], beside: float
) -> None:
    """Rounding spoils the Hessian then, and T does not quite whiten it."""
    case = make(model, 5, 1.0, True)
    X = case.model.X.copy()
    X[:, 0] = X[:, 1] + beside * X[:, 0]
    case = minimised(Case(model(X, case.model.y), 0 * case.l2 + 1e-20, None, None))
    T = np.array(root(case.truth(case.best).hessian), dtype=float)
    x = np.array(case.best, dtype=float)
    found = bounds(case, x, T)
    assert found.gap is not None
    holds(case, x, found)
    plain = bounds(case, x, None)
    if plain.gap is not None:
        holds(case, x, plain)


@pytest.mark.parametrize("model", [Gaussian, Binomial, Poisson, Gamma, Survival])
def test_a_subgradient_may_be_part_of_the_gradient(model: type[Model]) -> None:
    """F + c |x_0| with a c so large that the best x_0 is 0."""
    full = make(model, 1, 10.0, True)
    rest = minimised(Case(model(full.model.X[:, 1:], full.model.y), full.l2[1:], None, None))
    best = np.append(mp.mpf(0), rest.best)
    pull = full.truth(best).gradient[0]
    c = 2 * abs(float(pull)) + 1e-3
    T = np.array(root(full.truth(best).hessian), dtype=float)
    bounded = 0
    for radius in (1e-10, 1e-6, 1e-2, 0.3):
        for first in (0.0, radius * T[0, 0]):
            way = radius * T @ np.linspace(-1, 1, full.model.d)
            x = np.array(best + exact(way), dtype=float)
            x[0] = first
            at = full.truth(exact(x))
            v = c * np.sign(first) if first else -float(at.gradient[0])
            gradient, hessian, reach = full.model.floats(x, T)
            truth = exact(T).T @ full.model.truth(exact(x)).gradient
            doubt = float(np.abs(exact(gradient) - truth).sum()) + 1e-15 * abs(v) * T[0, 0]
            n = len(full.model.X)
            s = gradient + T[0] * v
            found = decrement(s, doubt, hessian, reach, n + 1, x=x, l2=full.l2, T=T)
            if found.gap is None or found.deviation is None:
                continue
            bounded += 1
            assert found.gap >= at.value + c * abs(mp.mpf(first)) - rest.least
            beside = exact(x) - best
            assert mp.mpf(found.deviation) ** 2 >= beside @ at.hessian @ beside
    assert bounded >= 3


@pytest.mark.parametrize("q", [0.0, 1e-300, 1e-12, 1e-4, 0.1, 0.3, 0.5 / 1.0001])
def test_the_formulas(q: float) -> None:
    lam = 2.5
    found = decrement(np.array([lam]), 0.0, np.eye(1), (q / lam) ** 2, 4, x=np.zeros(1))
    gap, deviation = lam**2 / 2, mp.mpf(lam)
    if q > 1e-30:
        with mpmath.workdps(80):
            part = mp.mpf(found.q)
            gap = lam**2 * (part + (1 - part) * mp.log(1 - part)) / part**2
            deviation = -lam * mp.log(1 - part) / part
    assert found.lam == pytest.approx(lam, rel=1e-8)
    assert found.q == pytest.approx(q, rel=1e-8)
    assert found.gap == pytest.approx(1.001 * float(gap), rel=1e-8)
    assert found.deviation == pytest.approx(1.001 * float(deviation), rel=1e-8)
    assert found.distance == pytest.approx(found.deviation, rel=1e-8)


def test_no_bound_beyond_a_half() -> None:
    found = decrement(np.array([1.0]), 0.0, np.eye(1), 0.5**2 * 1.001, 4, x=np.zeros(1))
    assert found.gap is found.deviation is found.distance is None
    assert found.q == pytest.approx(0.5 * np.sqrt(1.001), rel=1e-8)
    assert found.lam == pytest.approx(1, rel=1e-8)
    far = decrement(np.array([1.0]), 0.0, np.eye(1), np.inf, 4, x=np.zeros(1))
    assert far.gap is None


SINGULAR = np.array([[1.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "hessian",
    [
        SINGULAR,
        SINGULAR + np.diag([0.0, 4e-16]),  # rounding could have made this of the one before
        SINGULAR + np.diag([0.0, 1e-14]),
        np.diag([1.0, 0.0]),
        np.diag([1.0, -1.0]),
        np.diag([1.0, np.nan]),
        np.diag([1.0, np.inf]),
    ],
)
def test_no_bound_where_a_direction_may_be_lost(hessian: Vector) -> None:
    s = np.full(2, 1e-9)
    assert decrement(s, 0.0, hessian, 1.0, 100, x=np.zeros(2)) == UNKNOWN


def test_no_bound_where_a_direction_was_truncated() -> None:
    T = np.array([[1.0], [1.0]])
    assert decrement(np.zeros(1), 0.0, np.eye(1), 1.0, 9, x=np.zeros(2), T=T) == UNKNOWN


def test_no_bound_where_rows_times_t_are_but_rounding() -> None:
    """Two columns that are the same to 14 digits: T takes their difference, and enlarges it."""
    T = np.array([[1.0, -1e14], [0.0, 1e14]])
    s = np.full(2, 1e-9)
    assert decrement(s, 0.0, np.eye(2), 1.0, 9, x=np.zeros(2), T=T) == UNKNOWN
    milder = np.array([[1.0, -1e9], [0.0, 1e9]])
    assert decrement(s, 0.0, np.eye(2), 1.0, 9, x=np.zeros(2), T=milder).gap is not None


@pytest.mark.parametrize("s", [np.nan, np.inf])
def test_no_bound_of_what_is_not_finite(s: float) -> None:
    assert decrement(np.array([s]), 0.0, np.eye(1), 1.0, 9, x=np.zeros(1)) == UNKNOWN
    assert decrement(np.zeros(1), s, np.eye(1), 1.0, 9, x=np.zeros(1)) == UNKNOWN


def test_a_penalty_makes_up_for_a_lost_direction() -> None:
    s, x, l2 = np.array([1e-3, 2e-3]), np.array([1.0, -2.0]), np.array([0.5, 0.25])
    found = decrement(s, 0.0, SINGULAR, 0.0, 9, x=x, l2=l2)
    H = SINGULAR + np.diag(l2)
    lam = np.sqrt((s + l2 * x) @ np.linalg.solve(H, s + l2 * x))
    assert found.lam == pytest.approx(lam, rel=1e-8)
    assert found.gap == pytest.approx(1.001 * lam**2 / 2, rel=1e-8)
    assert found.distance == pytest.approx(1.001 * lam / np.sqrt(np.linalg.eigvalsh(H)[0]))


def test_scales_of_the_coordinates_do_no_harm() -> None:
    rng = np.random.default_rng(2)
    A = rng.standard_normal((9, 3))
    H, s = A.T @ A, 1e-3 * rng.standard_normal(3)
    scales = np.array([1e-9, 1.0, 1e8])
    plain = decrement(s, 0.0, H, 0.0, 9, x=np.zeros(3))
    scaled = decrement(s * scales, 0.0, H * scales * scales[:, None], 0.0, 9, x=np.zeros(3))
    assert scaled.gap == pytest.approx(plain.gap, rel=1e-9)
