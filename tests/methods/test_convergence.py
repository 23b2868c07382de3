"""Methods that should reach the optimum do, and the others demonstrably stall."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import pdmm
from pdmm.methods import Method
from twins import methods as twins
from twins.methods import Matrix, Vector

ENOUGH = 1e-10


@dataclass
class Case:
    """A problem with constants L and mu of its f_i, and F's derivatives written out."""

    problem: pdmm.Problem
    L: float
    mu: float
    x0: Vector

    def derivatives(self, x: Vector, w: Vector) -> tuple[float, Vector, Matrix]:
        """Value, gradient and Hessian of sum_i w_i f_i."""
        raise NotImplementedError

    @property
    def ones(self) -> Vector:
        return np.ones(self.problem.clients)


@dataclass
class LeastSquaresCase(Case):
    A: Any
    b: Any

    def derivatives(self, x: Vector, w: Vector) -> tuple[float, Vector, Matrix]:
        r = self.A @ x - self.b
        gradient = np.einsum("i,inj,in->j", w, self.A, r)
        hessian = np.einsum("i,inj,ink->jk", w, self.A, self.A)
        return float(w @ (r**2).sum(1)) / 2, gradient, hessian


@dataclass
class SoftmaxCase(Case):
    X: Any
    y: Any
    l2: float

    def derivatives(self, x: Vector, w: Vector) -> tuple[float, Vector, Matrix]:
        pairs = zip(self.X, self.y, strict=True)
        parts = [twins.softmax_parts(X, y, 3, self.l2, x) for X, y in pairs]
        value = sum(v * p[0] for v, p in zip(w, parts, strict=True))
        gradient = sum((v * p[1] for v, p in zip(w, parts, strict=True)), np.zeros_like(x))
        hessian = sum((v * p[2] for v, p in zip(w, parts, strict=True)), np.zeros((len(x), len(x))))
        return float(value), gradient, hessian


def _least_squares() -> LeastSquaresCase:
    """Every client has its own optimum, far from the others', and its own A_i, kappa = 30."""
    rng = np.random.default_rng(0)
    m, n, d, kappa = 6, 12, 6, 30.0
    A, b = np.empty((m, n, d)), np.empty((m, n))
    for i in range(m):
        U, _, V = np.linalg.svd(rng.standard_normal((n, d)), full_matrices=False)
        A[i] = U * np.sqrt(np.geomspace(1, kappa, d)) @ V
        b[i] = A[i] @ (5 * rng.standard_normal(d)) + rng.standard_normal(n)
    return LeastSquaresCase(pdmm.LeastSquares(A, b), kappa, 1.0, rng.standard_normal(d), A, b)


def _softmax() -> SoftmaxCase:
    """Every client knows two of three classes only."""
    rng = np.random.default_rng(1)
    y = [rng.integers(0, 2, n) + (i % 2) for i, n in enumerate((14, 9, 9, 20))]
    X = [rng.standard_normal((len(v), 3)) + np.eye(3)[v] for v in y]
    l2 = 0.1
    L = max(np.linalg.norm(np.c_[rows, np.ones(len(rows))], 2) ** 2 / len(rows) for rows in X)
    problem = pdmm.SoftmaxRegression(X, y, 3, l2)
    return SoftmaxCase(problem, float(L) / 2 + l2, l2, rng.standard_normal(12), X, y, l2)


CASES: dict[str, Case] = {"least squares": _least_squares(), "softmax": _softmax()}
WEIGHTS = {
    name: np.random.default_rng(2).uniform(0.3, 3, case.problem.clients)
    for name, case in CASES.items()
}

CONVERGENT = [
    "PDMM",
    "PDMM relaxed",
    "FedSplit",
    "Inexact FedSplit",
    "GPDMM",
    "GPDMM last",
    "GPDMM relaxed",
    "AGPDMM",
    "AGPDMM, rho",
    "AGPDMM relaxed",
    "gradient descent",
]


def _method(name: str, case: Case) -> Method:
    L, eta, rho = case.L, 0.9 / case.L, float(np.sqrt(case.L * case.mu))
    methods: dict[str, Method] = {
        "PDMM": pdmm.PDMM(rho),
        "PDMM relaxed": pdmm.PDMM(rho, relaxation=0.5),
        "FedSplit": pdmm.FedSplit(1 / rho),
        "Inexact FedSplit": pdmm.InexactFedSplit(1 / rho, 1 / (L + rho), 5, start="server"),
        "GPDMM": pdmm.GPDMM(eta, 5),
        "GPDMM last": pdmm.GPDMM(eta, 5, rho, iterate="last"),
        "GPDMM relaxed": pdmm.GPDMM(eta, 5, relaxation=0.7),
        "AGPDMM": pdmm.AGPDMM(eta, 5),
        "AGPDMM, rho": pdmm.AGPDMM(eta, 5, rho),
        "AGPDMM relaxed": pdmm.AGPDMM(eta, 5, relaxation=0.5),
        "gradient descent": pdmm.GradientDescent(eta),
        "SCAFFOLD": pdmm.Scaffold(0.2 / L, 4),
        "FedDyn": pdmm.FedDyn(1 / (L + rho), 10, rho),
        "SCAFFOLD, server step": pdmm.Scaffold(0.2 / L, 4, server_step=0.8),
    }
    return methods[name]


def _rounds(name: str) -> int:
    if name.startswith("SCAFFOLD"):
        return 280
    if name == "gradient descent":
        return 200
    if name in ("PDMM", "FedSplit"):
        return 30
    return 64 if name == "PDMM relaxed" else 80


def _smooth_optimum(case: Case, w: Vector, ridge: float = 0.0) -> Vector:
    """A minimiser of F + ridge/2 ‖x‖², by Newton's method."""

    def parts(x: Vector) -> tuple[float, Vector, Matrix]:
        value, gradient, hessian = case.derivatives(x, w)
        more = ridge / 2 * float(x @ x)
        return value + more, gradient + ridge * x, hessian + ridge * np.eye(len(x))

    x = twins.newton(parts, 0 * case.x0)
    residual = np.abs(parts(x)[1]).max()
    assert residual < 1e-12 * max(1.0, float(np.abs(parts(0 * x)[1]).max()))
    return x


def _gaps(name: str, case: Case, x_star: Vector, **settings: Any) -> Vector:
    """Relative gaps of a run, of which the recorded start is the first."""
    rounds = _rounds(name)
    result = pdmm.solve(
        case.problem,
        _method(name, case),
        rounds,
        x0=case.x0,
        optimum=x_star,
        record_every=rounds // 20,
        threads=1,
        **settings,
    )
    assert not result.diverged
    gap = np.asarray(result.history["gap"], dtype=np.float64)
    return np.asarray(gap / gap[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CONVERGENT, "SCAFFOLD", "SCAFFOLD, server step", "FedDyn"])
@pytest.mark.parametrize(
    ("problem", "weighted"),
    [("least squares", False), ("least squares", True), ("softmax", True)],
)
def test_reaches_the_optimum(problem: str, weighted: bool, name: str) -> None:
    case = CASES[problem]
    w = WEIGHTS[problem] if weighted else case.ones
    x_star = _smooth_optimum(case, w)
    gaps = _gaps(name, case, x_star, weights=w)
    assert gaps[1] > ENOUGH  # it took some work
    assert abs(gaps[-1]) <= ENOUGH


def test_weights_move_the_optimum() -> None:
    for name, case in CASES.items():
        one, other = _smooth_optimum(case, case.ones), _smooth_optimum(case, WEIGHTS[name])
        assert np.abs(one - other).max() > 1e-2


# --- regularisers -----------------------------------------------------------------------------


def _l1_optimum(case: Case, w: Vector, c: float) -> Vector:
    """FISTA with restarts, run until nothing moves; its optimality conditions are checked."""
    L = case.L * float(w.sum())
    x, y, t = case.x0, case.x0, 1.0
    for _ in range(20_000):
        v = y - case.derivatives(y, w)[1] / L
        new = np.sign(v) * np.maximum(np.abs(v) - c / L, 0)
        if float((y - new) @ (new - x)) > 0:
            t, y = 1.0, new
        else:
            t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
            y, t = new + (t - 1) / t_new * (new - x), t_new
        moved = np.abs(new - x).max()
        x = new
        if moved < 1e-16:
            break
    free = x != 0
    for _ in range(3):  # Newton's method on the entries that are not zero
        _, gradient, hessian = case.derivatives(x, w)
        slope = (gradient + c * np.sign(x))[free]
        x[free] -= np.linalg.solve(hessian[np.ix_(free, free)], slope)
    slope = case.derivatives(x, w)[1]
    assert 0 < free.sum() < len(x)  # neither trivial nor unregularised
    assert np.abs(slope + c * np.sign(x))[free].max() < 1e-12 * max(1, c)
    assert np.abs(slope[~free]).max() < c
    return np.asarray(x)


def _box_optimum(case: Case, w: Vector, lo: float, hi: float) -> Vector:
    found = minimize(
        lambda x: case.derivatives(x, w)[:2],
        np.clip(case.x0, lo, hi),
        jac=True,
        method="L-BFGS-B",
        bounds=[(lo, hi)] * len(case.x0),
        options={"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000},
    )
    x = np.array(found.x, dtype=np.float64)
    free = (x > lo) & (x < hi)
    for _ in range(3):  # Newton's method on the entries that are off the bounds
        _, gradient, hessian = case.derivatives(x, w)
        x[free] -= np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
    slope = case.derivatives(x, w)[1]
    assert 0 < free.sum() < len(x)
    assert ((x >= lo) & (x <= hi)).all()
    assert np.abs(slope[free]).max() < 1e-12 * max(1.0, float(np.abs(slope).max()))
    assert (slope[x == lo] > 0).all()
    assert (slope[x == hi] < 0).all()
    return x


@cache
def _regularised(problem: str, h: str) -> tuple[pdmm.Regulariser, Vector]:
    case, w = CASES[problem], WEIGHTS[problem]
    at_zero = float(np.abs(case.derivatives(0 * case.x0, w)[1]).max())
    if h == "L1":
        return pdmm.L1(0.5 * at_zero), _l1_optimum(case, w, 0.5 * at_zero)
    if h == "SquaredL2":
        c = 0.3 * case.mu * float(w.sum())
        return pdmm.SquaredL2(c), _smooth_optimum(case, w, c)
    half = 0.4 * float(np.abs(_smooth_optimum(case, w)).max())
    return pdmm.Box(-half, half / 2), _box_optimum(case, w, -half, half / 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERGENT)
@pytest.mark.parametrize("h", ["L1", "SquaredL2", "Box"])
@pytest.mark.parametrize("problem", CASES)
def test_reaches_the_regularised_optimum(problem: str, h: str, name: str) -> None:
    case, w = CASES[problem], WEIGHTS[problem]
    regulariser, x_star = _regularised(problem, h)
    if h == "Box":  # a start outside has no finite gap to compare with
        case = type(case)(**{**vars(case), "x0": 0 * case.x0})
    gaps = _gaps(name, case, x_star, weights=w, regulariser=regulariser)
    assert gaps[1] > ENOUGH
    assert abs(gaps[-1]) <= ENOUGH


# --- stalls -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("problem", CASES)
@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "Inexact FedSplit"])
def test_stalls_away_from_the_optimum(name: str, problem: str) -> None:
    case = CASES[problem]
    L, rho = case.L, float(np.sqrt(case.L * case.mu))
    methods: dict[str, Method] = {
        "FedAvg": pdmm.FedAvg(0.5 / L, 5),
        "FedProx": pdmm.FedProx(1 / (L + rho), 5, rho),
        "Inexact FedSplit": pdmm.InexactFedSplit(1 / rho, 1 / (L + rho), 3, start="anchor"),
    }
    result = pdmm.solve(
        case.problem,
        methods[name],
        400,
        x0=case.x0,
        optimum=_smooth_optimum(case, case.ones),
        threads=1,
    )
    gaps = np.asarray(result.history["gap"] / result.history["gap"][0])
    assert gaps[-1] > 1e-6
    np.testing.assert_allclose(gaps[200:], gaps[-1], rtol=1e-6)


# --- gaps far below the rounding of F ---------------------------------------------------------


@pytest.mark.parametrize("given", [False, True], ids=["its own optimum", "a given optimum"])
def test_tiny_gaps_of_least_squares_are_reported(given: bool) -> None:
    case = CASES["least squares"]
    method = pdmm.PDMM(float(np.sqrt(case.L * case.mu)))
    _assert_tiny_gaps(case, method, 90, given)


def test_tiny_gaps_of_softmax_are_reported() -> None:
    case = CASES["softmax"]
    _assert_tiny_gaps(case, pdmm.AGPDMM(0.9 / case.L, 5), 120, given=True)


def _assert_tiny_gaps(case: Case, method: Method, rounds: int, given: bool) -> None:
    xs: list[Any] = [case.x0]

    def keep(r: int, x: Any) -> None:
        xs.append(x)

    x_star = _smooth_optimum(case, case.ones)
    result = pdmm.solve(
        case.problem,
        method,
        rounds,
        x0=case.x0,
        optimum=x_star if given else None,
        callback=keep,
    )
    gap, objective = result.history["gap"], result.history["objective"]
    assert objective[-1] > 0.1
    # Where F(x) - F* no longer fits into F's rounding, but x - x* still has digits to tell it.
    tiny = np.flatnonzero((gap < 1e-16 * objective) & (gap > 1e-24 * objective))
    assert len(tiny) >= 5
    assert (gap[: tiny[-1] + 1] > 0).all()
    # This close to the optimum F is its quadratic model.
    away = np.array(xs)[tiny] - x_star
    model = 0.5 * np.einsum("ri,ij,rj->r", away, case.derivatives(x_star, case.ones)[2], away)
    np.testing.assert_allclose(gap[tiny], model, rtol=1e-2)
