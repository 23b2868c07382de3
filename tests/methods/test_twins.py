"""The product's iterates equal those of the naive twins, method by method."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.methods import Method
from pdmm.problems.quadratic import Gram, Quadratics, Rows, Spectral
from twins import methods as twins
from twins.methods import Network, Vector

ROUNDS = 50


@dataclass
class Case:
    """A problem twice: as the product holds it, and as plain functions."""

    problem: pdmm.Problem
    gradient: twins.Gradient
    prox: twins.Prox
    L: float
    x0: Vector
    exact_tolerance: float = 1e-10

    def network(self, **settings: Any) -> Network:
        return Network(self.problem.clients, self.x0, self.gradient, self.prox, **settings)


def _least_squares(samples: list[int], d: int, stacked: bool, dtype: type = np.float64) -> Case:
    rng = np.random.default_rng([d, *samples])
    A: Any = [rng.standard_normal((n, d)).astype(dtype) for n in samples]
    b: Any = [(a @ rng.standard_normal(d) + rng.standard_normal(len(a))).astype(dtype) for a in A]
    if stacked:
        A, b = np.stack(A), np.stack(b)
    L = max(float(np.linalg.norm(a, 2)) ** 2 for a in A)
    x0 = rng.standard_normal(d).astype(np.float32).astype(np.float64)
    return Case(pdmm.LeastSquares(A, b), *twins.least_squares(A, b), L, x0)


def _softmax(samples: list[int], batch_size: int | None, dtype: type = np.float64) -> Case:
    rng = np.random.default_rng([3, *samples])
    X: list[Any] = [
        (rng.standard_normal((n, 3)) + i / 2).astype(dtype) for i, n in enumerate(samples)
    ]
    y = [(rng.integers(0, 2, n) + i) % 3 for i, n in enumerate(samples)]
    l2 = 0.1
    x0 = 0.3 * rng.standard_normal(12).astype(np.float32).astype(np.float64)
    L = max(float(((rows**2).sum(1) + 1).max()) / 2 + l2 for rows in X)
    oracles = twins.softmax(X, y, 3, l2, batch_size)
    # Its exact steps end at a relative residual of 1e-10, and errors add up over the rounds.
    return Case(pdmm.SoftmaxRegression(X, y, 3, l2, batch_size), *oracles, L, x0, 1e-7)


def _functions(known_prox: bool) -> Case:
    """f_i(x) = sum_j q_ij/2 (x_j - c_ij)² + log cosh(x_j - e_ij): smooth, not quadratic."""
    rng = np.random.default_rng(5)
    m, d = 4, 5
    q, c, e = rng.uniform(0.2, 2, (m, d)), rng.standard_normal((m, d)), rng.standard_normal((m, d))

    def value(i: int, x: Vector) -> float:
        return float((q[i] / 2 * (x - c[i]) ** 2 + np.log(np.cosh(x - e[i]))).sum())

    def slope(i: int, x: Vector) -> Vector:
        return np.asarray(q[i] * (x - c[i]) + np.tanh(x - e[i]))

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        low, high = np.full(d, -8.0), np.full(d, 8.0)
        for _ in range(55):  # bisection of an increasing slope
            x = (low + high) / 2
            above = slope(i, x) + rho * (x - anchor) > 0
            low, high = np.where(above, low, x), np.where(above, x, high)
        return np.asarray((low + high) / 2)

    def bind(function: Callable[..., Any]) -> list[Callable[..., Any]]:
        return [lambda *arguments, i=i: function(i, *arguments) for i in range(m)]

    problem = pdmm.Functions(
        bind(value),
        bind(slope),
        d,
        prox=bind(lambda i, v, t: prox(i, v, 1 / t)) if known_prox else None,
    )
    x0 = rng.standard_normal(d)
    tolerance = 1e-10 if known_prox else 1e-7
    return Case(problem, lambda i, x, step: slope(i, x), prox, 3.0, x0, tolerance)


CASES: dict[str, Case] = {
    "tall": _least_squares([20] * 5, 6, stacked=True),
    "wide": _least_squares([4] * 6, 15, stacked=True),
    "very wide": _least_squares([2] * 3, 9, stacked=True),
    "ragged": _least_squares([3, 9, 1, 14, 6], 5, stacked=False),
    "ragged and wide": _least_squares([3, 2, 5, 1, 3, 6], 14, stacked=False),
    "softmax": _softmax([9, 5, 5, 13], None),
    "ragged mini-batches": _softmax([7, 9, 16, 4, 11], 3),
    "functions": _functions(known_prox=True),
}
WITHOUT_PROX = _functions(known_prox=False)
CASES_32: dict[str, Case] = {
    "tall": _least_squares([20] * 5, 6, stacked=True, dtype=np.float32),
    "ragged and wide": _least_squares([3, 2, 5, 1, 3, 6], 14, stacked=False, dtype=np.float32),
    "ragged mini-batches": _softmax([7, 9, 16, 4, 11], 3, np.float32),
}

FACTORISED = _least_squares([20] * 5, 6, stacked=True)
assert isinstance(FACTORISED.problem, pdmm.LeastSquares)
FACTORISED.problem.factorise()

Twin = Callable[[Network, int], list[Vector]]
Variant = Callable[[float], tuple[Method, Twin]]


def _pdmm(scale: float, relaxation: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        rho = scale * L
        return pdmm.PDMM(rho, relaxation), lambda net, R: twins.pdmm(net, R, rho, relaxation)

    return variant


def _fedsplit(scale: float, relaxation: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        gamma = scale / L
        return (
            pdmm.FedSplit(gamma, relaxation),
            lambda net, R: twins.fedsplit(net, R, gamma, relaxation),
        )

    return variant


def _inexact(start: Any, K: int, relaxation: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        gamma, eta = 4 / L, 0.6 / L
        return (
            pdmm.InexactFedSplit(gamma, eta, K, start, relaxation),
            lambda net, R: twins.inexact_fedsplit(net, R, gamma, eta, K, start, relaxation),
        )

    return variant


def _gpdmm(iterate: Any, K: int, scale: float | None, relaxation: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        eta, rho = 0.9 / L, None if scale is None else scale * L
        return (
            pdmm.GPDMM(eta, K, rho, iterate, relaxation),
            lambda net, R: twins.gpdmm(net, R, eta, K, rho, iterate, relaxation),
        )

    return variant


def _agpdmm(K: int, scale: float | None, relaxation: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        eta, rho = 0.9 / L, None if scale is None else scale * L
        return (
            pdmm.AGPDMM(eta, K, rho, relaxation),
            lambda net, R: twins.agpdmm(net, R, eta, K, rho, relaxation),
        )

    return variant


def _scaffold(K: int, eta_g: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        eta = 0.3 / L
        return (
            pdmm.Scaffold(eta, K, eta_g),
            lambda net, R: twins.scaffold(net, R, eta, K, eta_g),
        )

    return variant


def _fedavg(K: int) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        eta = 0.5 / L
        return pdmm.FedAvg(eta, K), lambda net, R: twins.fedavg(net, R, eta, K)

    return variant


def _fedprox(K: int) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        eta, mu = 0.4 / L, 0.7 * L
        return pdmm.FedProx(eta, K, mu), lambda net, R: twins.fedprox(net, R, eta, K, mu)

    return variant


def _feddyn(K: int, scale: float) -> Variant:
    def variant(L: float) -> tuple[Method, Twin]:
        alpha = scale * L
        eta = 0.9 / (L + alpha)
        return pdmm.FedDyn(eta, K, alpha), lambda net, R: twins.feddyn(net, R, eta, K, alpha)

    return variant


def _gradient_descent(L: float) -> tuple[Method, Twin]:
    eta = 0.8 / L
    return pdmm.GradientDescent(eta), lambda net, R: twins.gradient_descent(net, R, eta)


EXACT: dict[str, Variant] = {
    "PDMM": _pdmm(0.3, 1.0),
    "PDMM relaxed 0.5": _pdmm(0.3, 0.5),
    "PDMM relaxed 0.8": _pdmm(0.7, 0.8),
    "FedSplit": _fedsplit(2.0, 1.0),
    "FedSplit relaxed 0.5": _fedsplit(2.0, 0.5),
}
FAMILY: dict[str, Variant] = {
    "Inexact FedSplit, anchor": _inexact("anchor", 3, 1.0),
    "Inexact FedSplit, anchor, relaxed 0.8": _inexact("anchor", 2, 0.8),
    "Inexact FedSplit, server": _inexact("server", 3, 1.0),
    "Inexact FedSplit, server, relaxed 0.5": _inexact("server", 2, 0.5),
    "GPDMM mean": _gpdmm("mean", 3, None, 1.0),
    "GPDMM mean, K = 1": _gpdmm("mean", 1, None, 1.0),
    "GPDMM mean, many steps": _gpdmm("mean", 7, None, 1.0),
    "GPDMM mean, rho, relaxed 0.8": _gpdmm("mean", 4, 0.25, 0.8),
    "GPDMM last": _gpdmm("last", 3, None, 1.0),
    "GPDMM last, rho, relaxed 0.5": _gpdmm("last", 4, 0.25, 0.5),
    "AGPDMM": _agpdmm(3, None, 1.0),
    "AGPDMM, K = 1": _agpdmm(1, None, 1.0),
    "AGPDMM, many steps": _agpdmm(7, None, 1.0),
    "AGPDMM, rho": _agpdmm(4, 0.3, 1.0),
    "AGPDMM, relaxed 0.5": _agpdmm(3, None, 0.5),
    "AGPDMM, rho, relaxed 0.8": _agpdmm(4, 0.3, 0.8),
}
BASELINES: dict[str, Variant] = {
    "SCAFFOLD": _scaffold(3, 1.0),
    "SCAFFOLD, server step 0.7": _scaffold(4, 0.7),
    "FedAvg": _fedavg(3),
    "FedAvg, K = 1": _fedavg(1),
    "FedProx": _fedprox(3),
    "FedDyn": _feddyn(3, 0.5),
    "FedDyn, alpha, many steps": _feddyn(7, 0.2),
}
VARIANTS = {**EXACT, **FAMILY, **BASELINES, "gradient descent": _gradient_descent}
REGULARISABLE = {**EXACT, **FAMILY, "gradient descent": _gradient_descent}

# name: (the product's regulariser, its prox written out), for a problem with constant L
Prox = Callable[[Vector, float], Vector]


def _regulariser(name: str, L: float, d: int) -> tuple[pdmm.Regulariser, Prox]:
    if name == "L1":
        return pdmm.L1(0.05 * L), lambda v, t: np.array(
            [u - np.clip(u, -0.05 * L * t, 0.05 * L * t) for u in v]
        )
    if name == "SquaredL2":
        return pdmm.SquaredL2(0.5 * L), lambda v, t: v / (1 + 0.5 * L * t)
    lo, hi = np.linspace(-0.3, 0.0, d), np.linspace(0.1, 0.2, d)
    return pdmm.Box(lo, hi), lambda v, t: np.minimum(np.maximum(v, lo), hi)


def _iterates(case: Case, method: Method, rounds: int, **settings: Any) -> Vector:
    xs: list[Any] = []

    def keep(r: int, x: Any) -> None:
        assert x.dtype == case.problem.dtype
        xs.append(x)

    settings = {"optimum": False, "record_every": rounds, "threads": 1, **settings}
    pdmm.solve(case.problem, method, rounds, x0=case.x0, callback=keep, **settings)
    return np.array(xs, dtype=np.float64)


def _difference(ours: Vector, theirs: list[Vector]) -> float:
    """The largest difference in any round, relative to the largest entry of any iterate."""
    twin = np.array(theirs)
    assert ours.shape == twin.shape
    return float(np.abs(ours - twin).max() / np.abs(twin).max())


def _tolerance(case: Case, method: Method) -> float:
    return case.exact_tolerance if method.exact else 1e-11


def _rounds(case: Case, method: Method, most: int = ROUNDS) -> int:
    # Exact steps by a general solver take milliseconds a client.
    return 5 if method.exact and case.exact_tolerance > 1e-8 else most


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_iterates_equal_the_twins(case: Case, variant: str) -> None:
    method, twin = VARIANTS[variant](case.L)
    rounds = _rounds(case, method)
    ours, theirs = _iterates(case, method, rounds), twin(case.network(), rounds)
    assert np.abs(theirs[-1] - case.x0).max() > 1e-2  # they do move
    assert _difference(ours, theirs) < _tolerance(case, method)


@pytest.mark.parametrize("variant", EXACT)
def test_exact_steps_by_a_general_solver_equal_the_twins(variant: str) -> None:
    test_iterates_equal_the_twins(WITHOUT_PROX, variant)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES_32.values(), ids=CASES_32)
def test_float32_iterates_equal_the_twins(case: Case, variant: str) -> None:
    method, twin = VARIANTS[variant](case.L)
    rounds = _rounds(case, method, 20)
    assert case.problem.dtype == np.float32
    difference = _difference(_iterates(case, method, rounds), twin(case.network(), rounds))
    assert 1e-9 < difference < 1e-4  # more than 1e-9, or it was not float32 at all


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["tall", "ragged and wide", "ragged mini-batches"])
def test_weighted_iterates_equal_the_twins(name: str, variant: str) -> None:
    case = CASES[name]
    weights = np.random.default_rng(1).uniform(0.2, 3, case.problem.clients)
    method, twin = VARIANTS[variant](case.L)
    rounds = _rounds(case, method, 20)
    ours = _iterates(case, method, rounds, weights=weights, threads=2)
    assert _difference(ours, twin(case.network(weights=list(weights)), rounds)) < _tolerance(
        case, method
    )


@pytest.mark.parametrize("variant", REGULARISABLE)
@pytest.mark.parametrize(
    ("name", "h"),
    [("tall", "L1"), ("tall", "SquaredL2"), ("tall", "Box"), ("ragged mini-batches", "L1")],
)
def test_regularised_iterates_equal_the_twins(name: str, h: str, variant: str) -> None:
    case = CASES[name]
    method, twin = REGULARISABLE[variant](case.L)
    regulariser, prox = _regulariser(h, case.L, len(case.x0))
    weights = np.random.default_rng(2).uniform(0.2, 3, case.problem.clients)
    rounds = _rounds(case, method, 20)
    ours = _iterates(case, method, rounds, regulariser=regulariser, weights=weights)
    theirs = twin(case.network(weights=list(weights), server_prox=prox), rounds)
    assert _difference(ours, theirs) < _tolerance(case, method)
    plain = twin(case.network(weights=list(weights)), rounds)
    assert _difference(ours, plain) > 1e-3  # the regulariser matters here


def test_no_two_variants_have_the_same_iterates() -> None:
    # Otherwise a method that ignored one of its parameters could still equal its twin.
    case = CASES["tall"]
    runs = {name: VARIANTS[name](case.L)[1](case.network(), 10) for name in VARIANTS}
    for (one, xs), (other, ys) in itertools.combinations(runs.items(), 2):
        assert _difference(np.array(xs), ys) > 1e-6, (one, other)


def _by_hand(case: Case, method: Method, rounds: int, weights: Vector) -> Vector:
    """Rounds as a deployment makes them: each client alone, on vectors of shape (d,)."""

    def prox(v: Vector, t: float) -> Vector:
        return v

    m = case.problem.clients
    server = method.server_start(case.x0, prox)
    memories = [method.client_start(case.x0.copy()) for _ in range(m)]
    xs = []
    for r in range(rounds):
        message = method.broadcast(server)
        uploads = []
        for i in range(m):
            f = case.problem.client(i, cursor=r * method.steps)
            memory = method.receive(message, memories[i])
            upload, draft = method.client(message, memory, f, method.steps)
            assert all(entry.shape == case.x0.shape for entry in (*upload, *draft, *memory))
            memories[i] = method.accept(memory, draft, upload)
            uploads.append(upload)
        share = weights / weights.sum()
        mean = type(uploads[0])(*(share @ np.array(parts) for parts in zip(*uploads, strict=True)))
        server = method.server(server, mean, 1.0, prox)
        xs.append(method.broadcast(server).x)
    return np.array(xs)


ALONE = {"tall": FACTORISED, **{name: CASES[name] for name in ("ragged mini-batches", "functions")}}


@pytest.mark.parametrize(
    ("case", "variant"),
    [
        *(pytest.param(CASES["wide"], name, id=f"wide-{name}") for name in {**FAMILY, **BASELINES}),
        *(pytest.param(ALONE[n], name, id=f"{n}-{name}") for n in ALONE for name in VARIANTS),
    ],
)
def test_single_clients_by_hand_equal_solve(case: Case, variant: str) -> None:
    method, _ = VARIANTS[variant](case.L)
    weights = np.random.default_rng(4).uniform(0.2, 3, case.problem.clients)
    rounds = min(12, _rounds(case, method) // 2)
    ours = _iterates(case, method, rounds, weights=weights)
    by_hand = _by_hand(case, method, rounds, weights)
    assert _difference(ours, list(by_hand)) < _tolerance(case, method)


def _forms(A: list[Any], b: list[Any]) -> list[Quadratics]:
    """The same quadratics as rows (stacked or not), as matrices, in a full and a thin basis."""
    g = np.stack([a.T @ v for a, v in zip(A, b, strict=True)])
    c = np.array([0.5 * float(v @ v) for v in b])
    H = np.stack([a.T @ a for a in A])
    e, V = np.linalg.eigh(H)
    forms: list[Quadratics] = [
        Rows(A, g, c),
        Gram(H, g, c),
        Spectral(np.ascontiguousarray(V.swapaxes(1, 2)), e, g, c),
    ]
    if len({len(a) for a in A}) == 1:
        forms.append(Rows(np.stack(A), g, c))
        if A[0].shape[0] < A[0].shape[1]:
            _, s, W = np.linalg.svd(np.stack(A), full_matrices=False)
            forms.append(Spectral(W, s * s, g, c))
    return forms


@pytest.mark.parametrize(
    "variant",
    [
        "PDMM",
        "Inexact FedSplit, server",
        "GPDMM mean",
        "GPDMM mean, many steps",
        "AGPDMM, many steps",
        "SCAFFOLD",
        "FedAvg",
        "gradient descent",
    ],
)
@pytest.mark.parametrize("samples", [[9] * 4, [3] * 4, [2, 8, 5, 3]])
def test_all_forms_of_least_squares_have_the_same_iterates(
    samples: list[int], variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    d = 7
    A = [rng.standard_normal((n, d)) for n in samples]
    b = [rng.standard_normal(n) for n in samples]
    L = max(float(np.linalg.norm(a, 2)) ** 2 for a in A)
    case = Case(pdmm.LeastSquares(A, b), *twins.least_squares(A, b), L, rng.standard_normal(d))
    method, _ = VARIANTS[variant](L)
    runs = []
    for form in _forms(A, b):
        monkeypatch.setattr(case.problem, "prepare", lambda *_, form=form: form)
        runs.append(_iterates(case, method, ROUNDS))
    for run in runs[1:]:
        assert _difference(run, list(runs[0])) < 1e-12


@pytest.mark.parametrize(("samples", "plain"), [([20] * 5, Gram), ([3] * 5, Rows)])
def test_factorise_keeps_the_iterates(samples: list[int], plain: type[Quadratics]) -> None:
    first, second = (_least_squares(samples, 8, stacked=True) for _ in range(2))
    assert isinstance(second.problem, pdmm.LeastSquares)
    second.problem.factorise()
    method = pdmm.AGPDMM(0.9 / first.L, 3)
    runs = [_iterates(case, method, 40) for case in (first, second)]
    assert _difference(runs[0], list(runs[1])) < 1e-12
    for case, form in ((first, plain), (second, Spectral)):
        f = case.problem.at(slice(0, 2))
        assert type(getattr(f, "all")) is form  # noqa: B009
