"""The constants L and mu, against dense eigenvalues, true Hessians and known functions."""

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from pdmm.common.threads import Threads
from pdmm.problems import eigenvalues
from pdmm.problems.base import Problem
from pdmm.problems.quadratic import Gram, Spectral
from pdmm.problems.secants import Secants, secant

Array = npt.NDArray[Any]
EPS = float(np.finfo(np.float64).eps)


def data(
    samples: list[int], d: int, seed: int = 0, dtype: Any = np.float64
) -> tuple[list[Array], list[Array]]:
    rng = np.random.default_rng(seed)
    A = [(1 + i) * rng.standard_normal((n, d)).astype(dtype) for i, n in enumerate(samples)]
    return A, [rng.standard_normal(n).astype(dtype) for n in samples]


def spectra(A: list[Array]) -> tuple[Array, Array]:
    """The smallest and the largest eigenvalue of every A_i'A_i."""
    values = [np.linalg.eigvalsh(a.T.astype(np.float64) @ a.astype(np.float64)) for a in A]
    least = [0.0 if len(a) < a.shape[1] else v[0] for a, v in zip(A, values, strict=True)]
    return np.array(least), np.array([v[-1] for v in values])


def compare(problem: pdmm.LeastSquares, A: list[Array], w: Array, rtol: float = 1e-10) -> None:
    """Everything against NumPy's dense eigenvalues."""
    L, mu = problem.smoothness(w), problem.strong_convexity(w)
    low, high = spectra(A)
    d = problem.dimension
    np.testing.assert_allclose(L.clients, high, rtol=rtol)
    np.testing.assert_allclose(mu.clients, low, rtol=rtol, atol=(1e-13 + rtol * 1e-4) * high.max())
    H = sum(v * a.T.astype(np.float64) @ a.astype(np.float64) for v, a in zip(w, A, strict=True))
    values = np.linalg.eigvalsh(H)
    assert L.overall == pytest.approx(values[-1], rel=1e-12 + 10 * d * EPS)
    assert mu.overall == pytest.approx(max(0, values[0]), abs=(1e-13 + 10 * d * EPS) * values[-1])
    assert L.overall >= values[-1]
    assert 0 <= mu.overall <= max(0, values[0])
    assert {L.kind, L.overall_kind, mu.kind, mu.overall_kind} == {"exact"}
    assert L.clients.shape == mu.clients.shape == (len(A),)
    assert L.clients.dtype == mu.clients.dtype == np.float64


# --- least squares ----------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    samples=st.lists(st.integers(1, 25), min_size=1, max_size=5),
    d=st.integers(1, 25),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([np.float64, np.float32]),
    factorised=st.booleans(),
)
def test_least_squares_has_the_ends_of_its_spectra(
    samples: list[int], d: int, seed: int, dtype: Any, factorised: bool
) -> None:
    A, b = data(samples, d, seed, dtype)
    problem = pdmm.LeastSquares(A, b)
    if factorised:
        problem.factorise()
    w = np.random.default_rng(seed).uniform(0.1, 3, len(A))
    compare(problem, A, w, rtol=1e-6 if factorised and dtype is np.float32 else 1e-10)


@pytest.mark.parametrize(
    ("samples", "d"), [([200, 150], 140), ([4, 9, 150], 140), ([140, 130], 400), ([700, 2], 260)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_least_squares_of_some_size(samples: list[int], d: int, dtype: Any) -> None:
    A, b = data(samples, d, dtype=dtype)
    compare(pdmm.LeastSquares(A, b), A, np.linspace(0.5, 2, len(A)))


def test_least_squares_beyond_dense_eigenvalues() -> None:
    d = eigenvalues.DENSE + 3
    A, b = data([2 * d, d - 1], d)
    problem = pdmm.LeastSquares(A, b)
    low, high = spectra(A)
    np.testing.assert_allclose(problem.smoothness().clients, high, rtol=1e-12)
    np.testing.assert_allclose(problem.strong_convexity().clients, low, rtol=1e-9)
    assert problem.strong_convexity().clients[1] == 0


def matrices() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    return {
        "spread": Q * np.geomspace(1e-6, 1, 60) @ Q.T,
        "clustered": Q * np.repeat([1.0, 1 + 1e-9, 2 - 1e-12, 2.0], 15) @ Q.T,
        "identity": 3 * np.eye(60),
        "zero": np.zeros((60, 60)),
        "singular": Q * np.r_[np.zeros(5), np.linspace(1, 2, 55)] @ Q.T,
        "rank one": np.outer(Q[0], Q[0]),
        "diagonal": np.diag(np.linspace(1.0, 9.0, 60)),
        "uneven": np.diag(np.r_[1e-200, np.ones(59)]),
        "tiny": 1e-150 * (Q * np.linspace(1, 2, 60) @ Q.T),
    }


@pytest.mark.parametrize("name", matrices())
def test_lanczos_and_cholesky_agree_with_dense_eigenvalues(name: str) -> None:
    H = matrices()[name]
    values = np.linalg.eigvalsh(H)
    (low,), (high,) = eigenvalues.ends(H[None], dense=10)
    assert high == pytest.approx(values[-1], rel=1e-12, abs=0)
    expected = values[0] if values[0] > 60 * EPS * values[-1] else 0.0
    assert low == pytest.approx(expected, rel=1e-9, abs=60 * EPS * high)
    proven_low, proven_high = eigenvalues.proven_ends(H, dense=10)
    assert 0 <= proven_low <= max(0, values[0] + 10 * EPS * high)
    assert proven_high >= values[-1]
    assert proven_high == pytest.approx(high, rel=1e-12)
    assert proven_low == pytest.approx(low, abs=500 * EPS * high)


def test_lanczos_that_missed_the_ends_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    H = matrices()["diagonal"]
    inside = (np.array([2.0]), np.array([8.0]))
    monkeypatch.setattr(eigenvalues, "ends", lambda H, dense: inside)
    np.testing.assert_allclose(eigenvalues.proven_ends(H, dense=10), (1, 9), rtol=1e-12)


def test_lanczos_that_does_not_converge_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenvalues, "STEPS", 9)
    for H in matrices().values():
        (low,), (high,) = eigenvalues.ends(H[None], dense=10)
        values = np.linalg.eigvalsh(H)
        assert high == pytest.approx(values[-1], rel=1e-12, abs=0)
        assert low == pytest.approx(max(0, values[0]), rel=1e-9, abs=60 * EPS * high)


def test_generated_data() -> None:
    for features, samples in ((10, 200), (150, 200), (30, 20), (30, 5)):
        for dtype in (np.float64, np.float32):
            problem = pdmm.LeastSquares.random(3, samples, features, dtype=dtype)
            f = problem.at(slice(None))
            unit: Array = np.eye(features, dtype=dtype)
            at_zero = f.gradient(np.zeros(features, dtype))
            H = np.array([f.gradient(e) - at_zero for e in unit])
            rtol = 1e-10 if dtype is np.float64 else 1e-4
            values = np.linalg.eigvalsh(H.transpose(1, 0, 2).astype(np.float64))
            np.testing.assert_allclose(problem.smoothness().clients, values[:, -1], rtol=rtol)
            low = values[:, 0] if samples >= features else np.zeros(3)
            np.testing.assert_allclose(
                problem.strong_convexity().clients, low, rtol=rtol, atol=rtol * values.max()
            )


def test_dependent_columns_have_no_strong_convexity() -> None:
    A, b = data([50, 60], 6)
    A = [np.column_stack([a, a[:, :1]]) for a in A]
    for factorised in (False, True):
        problem = pdmm.LeastSquares(A, b)
        if factorised:
            problem.factorise()
        mu = problem.strong_convexity()
        np.testing.assert_array_equal(mu.clients, 0)
        assert mu.overall == 0


def test_clients_without_a_spectrum() -> None:
    problem = pdmm.LeastSquares([np.zeros((3, 2)), np.eye(2)], [np.ones(3), np.ones(2)])
    np.testing.assert_array_equal(problem.smoothness().clients, [0, 1])
    np.testing.assert_array_equal(problem.strong_convexity().clients, [0, 1])
    nothing = pdmm.LeastSquares(np.zeros((2, 1, 5)), np.ones((2, 1)))
    assert nothing.smoothness().overall == nothing.strong_convexity().overall == 0


@pytest.mark.parametrize("shape", [(3, 2), (2, 30), (200, 600)])
def test_data_whose_squares_overflow_are_refused_by_name(shape: tuple[int, int]) -> None:
    A = [np.ones(shape), np.full(shape, 1e170)]
    problem = pdmm.LeastSquares(A, [np.ones(len(a)) for a in A])
    with pytest.raises(ValueError, match=r"A\[1\] \(client 1\) is too large"):
        problem.smoothness()


def test_the_total_knows_its_extremes() -> None:
    for samples, d in (([30, 20], 7), ([2, 3], 9)):
        A, b = data(samples, d)
        problem = pdmm.LeastSquares(A, b)
        w = np.array([2.0, 0.5])
        with Threads() as threads:
            total = problem.total(w, threads)
        assert total.extremes() is total.extremes()
        assert total.extremes() == (
            problem.strong_convexity(w).overall,
            float(problem.smoothness(w)),
        )
    X, y = labelled(30, 4, 3)
    softmax = pdmm.SoftmaxRegression(X, y, 3)
    with Threads() as threads:
        assert softmax.total(np.ones(2), threads) is None


def test_what_ran_before_does_not_change_a_bit() -> None:
    A, b = data([40, 50], 12)
    fresh, used = pdmm.LeastSquares(A, b), pdmm.LeastSquares(A, b)
    pdmm.solve(used, pdmm.PDMM(3.0), rounds=2)
    assert Spectral in used._forms.held
    for make in (Problem.smoothness, Problem.strong_convexity):
        np.testing.assert_array_equal(make(fresh).clients, make(used).clients)
        assert make(fresh).overall == make(used).overall


def test_factorised_spectra_survive_copying() -> None:
    A, b = data([40, 50], 12)
    problem = pdmm.LeastSquares(A, b).factorise()
    for twin in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        np.testing.assert_array_equal(twin.smoothness().clients, problem.smoothness().clients)
        assert not twin._forms.held or twin is problem or Gram not in twin._forms.held


# --- what all problems share ------------------------------------------------------------------


def labelled(n: int, p: int, classes: int, dtype: Any = np.float64) -> tuple[Array, Array]:
    rng = np.random.default_rng(n + p)
    return rng.standard_normal((2, n, p)).astype(dtype), rng.integers(0, classes, (2, n))


def square(x: Array) -> float:
    return 0.5 * float(x @ x)


def bowl(H: Array, centre: float, x: Array) -> float:
    return 0.5 * float((x - centre) @ H @ (x - centre))


def slope(H: Array, centre: float, x: Array) -> Array:
    return np.asarray(H @ (x - centre))


def quadratics(H: list[Array], centre: float = 1.0, **constants: Any) -> pdmm.Functions:
    return pdmm.Functions(
        [partial(bowl, h, centre) for h in H],
        [partial(slope, h, centre) for h in H],
        len(H[0]),
        **constants,
    )


def rotated(values: Array, seed: int = 0) -> Array:
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return np.asarray(Q * values @ Q.T)


def every_kind() -> list[Problem]:
    A, b = data([20, 30], 4)
    X, y = labelled(30, 4, 3)
    return [
        pdmm.LeastSquares(A, b),
        pdmm.SoftmaxRegression(X, y, 3, l2=0.1),
        quadratics([rotated(np.array([1.0, 2.0, 5.0])), rotated(np.array([2.0, 3.0, 4.0]), 1)]),
        quadratics([np.eye(2), 2 * np.eye(2)], smoothness=2.0, strong_convexity=[1.0, 2.0]),
    ]


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
def test_constants_are_kept_and_depend_on_the_weights(problem: Problem) -> None:
    for ask in (problem.smoothness, problem.strong_convexity):
        first = ask()
        assert ask() is first
        np.testing.assert_array_equal(ask(np.ones(2)).clients, first.clients)
        doubled = ask([2.0, 2.0])
        assert doubled.overall == pytest.approx(2 * first.overall, rel=1e-9)
        np.testing.assert_array_equal(doubled.clients, first.clients)
        assert ask([2, 2]) is doubled
        assert first.seconds >= 0
        assert float(first) == first.overall
        with pytest.raises(ValueError, match="read-only"):
            first.clients[0] = 1
    L, mu = problem.smoothness([3.0, 0.1]), problem.strong_convexity([3.0, 0.1])
    assert (mu.clients >= 0).all()
    assert (mu.clients <= L.clients).all()
    assert 0 <= mu.overall <= L.overall <= 1.001 * (3.0 * L.clients[0] + 0.1 * L.clients[1])
    assert mu.overall >= (1 - 1e-9) * (3.0 * mu.clients[0] + 0.1 * mu.clients[1])


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights must have shape \(2,\), got shape \(1,\)"),
        ([1.0, 0.0], r"weights must be positive, but weights\[1\] \(client 1\) is 0.0"),
        ([-1.0, 1.0], r"weights\[0\] \(client 0\) is -1.0"),
        ([1.0, math.nan], "weights has nan"),
        ([1.0, 1j], "weights must be numbers"),
        (["a", "b"], "weights must be numbers"),
    ],
)
def test_bad_weights_are_refused(problem: Problem, weights: Any, message: str) -> None:
    for ask in (problem.smoothness, problem.strong_convexity):
        with pytest.raises(ValueError, match=message):
            ask(weights)


def test_constants_can_be_read() -> None:
    constants = pdmm.Constants(np.array([4100.0, np.nan, 7321.0]), 1.234e5, "exact", "bound", 0.021)
    assert repr(constants) == (
        "Constants(F 1.23e+05 bound, clients 4.1e+03 .. 7.32e+03 exact, 0.021 s)"
    )


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
def test_constants_do_not_depend_on_the_number_of_threads(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdmm.common.threads.available", lambda: 1)
    one = [float(problem.smoothness()), float(problem.strong_convexity())]
    monkeypatch.setattr("pdmm.common.threads.available", lambda: 3)
    problem.__dict__.pop("_known_constants")
    problem.__dict__.get("_totals", {}).clear()
    assert [float(problem.smoothness()), float(problem.strong_convexity())] == one


# --- softmax ----------------------------------------------------------------------------------


def hessian(gradient: Callable[[Array], Array], x: Array) -> Array:
    steps = 1e-5 * np.eye(len(x))
    H = np.array([(gradient(x + s) - gradient(x - s)) / 2e-5 for s in steps])
    return np.asarray((H + H.T) / 2)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    n=st.integers(1, 12),
    p=st.integers(1, 4),
    classes=st.integers(2, 4),
    batch=st.integers(1, 5),
    batched=st.booleans(),
    l2=st.sampled_from([0.0, 0.3]),
    scale=st.sampled_from([0.0, 0.3, 2.0]),
    seed=st.integers(0, 99),
)
def test_softmax_constants_hold_for_every_hessian(
    n: int, p: int, classes: int, batch: int, batched: bool, l2: float, scale: float, seed: int
) -> None:
    X, y = labelled(n, p, classes)
    size = min(batch, n) if batched else None
    problem = pdmm.SoftmaxRegression(X, y, classes, l2=l2, batch_size=size)
    L, mu = problem.smoothness([1.0, 2.0]), problem.strong_convexity([1.0, 2.0])
    x = scale * np.random.default_rng(seed).standard_normal(problem.dimension)
    for i in range(2):
        for cursor in range(1 if size is None else n // size):
            values = np.linalg.eigvalsh(hessian(problem.client(i, cursor).gradient, x))
            assert values[-1] <= L.clients[i] + 1e-6
            assert values[0] >= mu.clients[i] - 1e-6
    whole = problem.at(slice(None))
    values = np.linalg.eigvalsh(hessian(lambda x: np.array([1.0, 2.0]) @ whole.gradient(x), x))
    assert values[-1] <= L.overall + 1e-6
    assert values[0] >= mu.overall - 1e-6
    assert {L.kind, mu.kind, L.overall_kind, mu.overall_kind} == {"bound"}
    np.testing.assert_array_equal(mu.clients, l2)
    assert mu.overall == pytest.approx(3 * l2)


def test_softmax_is_tight_at_zero_with_two_classes() -> None:
    X, y = labelled(40, 5, 2)
    problem = pdmm.SoftmaxRegression(X, y, 2, l2=0.2)
    L = problem.smoothness()
    for i in range(2):
        true = np.linalg.eigvalsh(hessian(problem.client(i).gradient, np.zeros(12)))[-1]
        assert true <= L.clients[i] <= 1.002 * true


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "p", "batch"), [(300, 140, None), (140, 300, None), (400, 200, 130), (10, 300, 4)]
)
def test_softmax_of_some_size_is_a_close_bound(
    n: int, p: int, batch: int | None, dtype: Any
) -> None:
    X, y = labelled(n, p, 3, dtype)
    X += 1.0
    problem = pdmm.SoftmaxRegression(X, y, 3, l2=0.1, batch_size=batch)
    R = np.concatenate([X.astype(np.float64), np.ones((2, n, 1))], axis=2)
    size = batch or n
    for i, L in enumerate(problem.smoothness().clients):
        parts = [R[i, s : s + size] for s in range(0, n - size + 1, size)]
        true = max(0.5 * np.linalg.norm(part, 2) ** 2 / size for part in parts) + 0.1
        assert true <= L <= 1.002 * true
    both = 0.5 * np.linalg.norm(np.concatenate([R[0], 2 * R[1]]), 2) ** 2 / n + 0.5
    assert both <= problem.smoothness([1.0, 4.0]).overall <= 1.002 * both


# --- own functions ----------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    d=st.integers(1, 16),
    low=st.floats(0.01, 10),
    kappa=st.floats(1, 300),
    centre=st.sampled_from([0.0, 1.0, -50.0]),
    seed=st.integers(0, 99),
)
def test_quadratics_are_estimated_closely(
    d: int, low: float, kappa: float, centre: float, seed: int
) -> None:
    values = np.geomspace(low, low * kappa, d)
    problem = quadratics([rotated(values, seed), 2 * rotated(values, seed)], centre)
    L, mu = problem.smoothness([1.0, 3.0]), problem.strong_convexity([1.0, 3.0])
    np.testing.assert_allclose(L.clients, [values[-1], 2 * values[-1]], rtol=0.1)
    np.testing.assert_allclose(mu.clients, [values[0], 2 * values[0]], rtol=0.1)
    assert L.overall == pytest.approx(L.clients[0] + 3 * L.clients[1])
    assert mu.overall == pytest.approx(mu.clients[0] + 3 * mu.clients[1])
    assert {L.kind, mu.kind, L.overall_kind, mu.overall_kind} == {"estimate"}


def test_larger_quadratics_are_estimated_from_inside() -> None:
    values = np.linspace(1, 100, 200)
    problem = quadratics([rotated(values)])
    assert 90 <= float(problem.smoothness()) <= 100.001
    assert 0.999 <= float(problem.strong_convexity()) <= 5


def test_an_estimate_takes_few_gradients() -> None:
    calls: list[Array] = []

    def gradient(x: Array) -> Array:
        calls.append(x)
        return np.linspace(1, 9, 50) * x

    problem = pdmm.Functions([square], [gradient], 50)
    problem.smoothness()
    problem.strong_convexity([2.0])
    assert len(calls) <= 25
    assert problem.secants() is None  # not a run


def test_curvature_that_is_elsewhere_is_looked_for() -> None:
    quartic = pdmm.Functions([lambda x: float((x**4).sum())], [lambda x: 4 * x**3], 2)
    assert float(quartic.smoothness()) > 10
    assert float(quartic.strong_convexity()) < 0.1


def raises_outside(x: Array) -> Array:
    return np.array([-1 / math.log(1 + v) for v in x])


@pytest.mark.parametrize(
    "gradient",
    [
        lambda x: -1 / np.where(x > 0, x, np.nan),
        raises_outside,
        lambda x: x if np.abs(x).max() < 0.5 else x + np.inf,
        lambda x: 4 * x**3 * np.exp(x**4),
    ],
    ids=["not finite outside", "raises outside", "finite near 0 alone", "overflows"],
)
def test_probes_that_fail_are_left_out(gradient: Callable[[Array], Array]) -> None:
    problem = pdmm.Functions([square], [gradient], 2)
    L, mu = problem.smoothness(), problem.strong_convexity()
    assert 0 <= mu.overall <= L.overall < np.inf
    assert L.overall > 0


def test_functions_without_any_gradient_are_refused_by_name() -> None:
    problem = pdmm.Functions([lambda x: 0.0] * 2, [lambda x: x, lambda x: x + np.nan], dimension=2)
    with pytest.raises(pdmm.ClientError, match=r"client 1 has no finite gradient.*smoothness="):
        problem.smoothness()


def test_linear_functions_have_no_curvature() -> None:
    slope = np.array([1e6, -3.3])
    problem = pdmm.Functions([lambda x: float(slope @ x)], [lambda x: slope], 2)
    assert float(problem.smoothness()) == float(problem.strong_convexity()) == 0


def test_given_constants() -> None:
    H = [np.eye(2), 2 * np.eye(2)]
    problem = quadratics(H, smoothness=2.5, strong_convexity=np.array([0.5, 2.0]))
    L, mu = problem.smoothness([1.0, 3.0]), problem.strong_convexity([1.0, 3.0])
    np.testing.assert_array_equal(L.clients, [2.5, 2.5])
    np.testing.assert_array_equal(mu.clients, [0.5, 2.0])
    assert (L.overall, mu.overall) == (10.0, 6.5)
    assert (L.kind, mu.kind, L.overall_kind, mu.overall_kind) == (
        "given",
        "given",
        "bound",
        "bound",
    )
    # One alone bounds the estimate of the other.
    assert quadratics(H, strong_convexity=7).smoothness().clients.tolist() == [7, 7]
    assert quadratics(H, smoothness=[0.1, 8]).strong_convexity().clients[0] == 0.1
    assert quadratics(H, smoothness=[0.1, 8]).strong_convexity().kind == "estimate"


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"smoothness": 0}, "smoothness must be positive, got 0"),
        ({"smoothness": [1.0, -2.0]}, r"smoothness\[1\] \(client 1\) must be positive, got -2.0"),
        ({"smoothness": math.inf}, "smoothness must be finite, got inf"),
        ({"smoothness": "large"}, "smoothness must be a number, got 'large'"),
        ({"smoothness": True}, "smoothness must be a number, got True"),
        ({"smoothness": [1.0]}, "smoothness must be one number, or one for each of the 2 clients"),
        ({"smoothness": np.ones((2, 1))}, r"smoothness\[0\] \(client 0\) must be a number"),
        ({"strong_convexity": -1}, "strong_convexity must not be negative, got -1"),
        ({"strong_convexity": [0, math.nan]}, r"strong_convexity\[1\] \(client 1\) must be finite"),
        (
            {"smoothness": 2, "strong_convexity": [1, 3]},
            "strong_convexity of client 1 is 3, above its smoothness 2",
        ),
    ],
)
def test_bad_constants_are_refused(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quadratics([np.eye(2), np.eye(2)], **constants)


# --- secants of a run -------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize(
    "method", [pdmm.AGPDMM(0.05, 4), pdmm.GradientDescent(0.05), pdmm.PDMM(1.0)], ids=repr
)
def test_a_run_watches_its_secants(method: pdmm.Method, threads: int | None) -> None:
    H = [rotated(np.array([1.0, 3.0, 10.0]), 1), rotated(np.array([2.0, 3.0, 5.0]), 2)]
    problem = quadratics(H)
    assert problem.secants() is None
    assert problem.negative_curvature() is None
    pdmm.solve(problem, method, rounds=40, x0=[3.0, 1.0, -2.0], threads=threads)
    found = problem.secants([1.0, 2.0])
    assert found is not None
    L, mu = found
    for i, (low, high) in enumerate([(1, 10), (2, 5)]):
        assert low * (1 - 1e-6) <= mu.clients[i] <= L.clients[i] <= high * (1 + 1e-6)
    assert L.overall == pytest.approx(L.clients[0] + 2 * L.clients[1])
    assert {L.kind, mu.kind, L.overall_kind, mu.overall_kind} == {"estimate"}
    assert problem.negative_curvature() is None
    problem.objective(np.zeros(3))  # not a run
    problem.smoothness()
    again = problem.secants()
    assert again is not None
    np.testing.assert_array_equal(again[0].clients, L.clients)
    with Threads(1) as one:
        problem.prepare(1, 1, False, one)  # as a run begins
    assert problem.secants() is None


def test_watching_changes_no_iterate() -> None:
    problem = quadratics([rotated(np.array([1.0, 4.0])), np.eye(2)])
    x = np.zeros(2)
    for _ in range(20):
        x = x - 0.1 * np.mean([problem.gradient(i, x) for i in range(2)], axis=0)
    result = pdmm.solve(problem, pdmm.GradientDescent(0.1), rounds=20)
    np.testing.assert_allclose(result.x, x, rtol=1e-14)


@pytest.mark.parametrize("method", [pdmm.AGPDMM(0.05, 4), pdmm.GradientDescent(0.05)], ids=repr)
def test_negative_curvature_is_found(method: pdmm.Method) -> None:
    # 3 cos bends down near 0, whatever the first client does.
    problem = pdmm.Functions(
        [lambda x: 0.25 * float(x @ x), lambda x: 3 * float(np.cos(x).sum())],
        [lambda x: 0.5 * x, lambda x: -3 * np.sin(x)],
        dimension=2,
    )
    with pytest.warns(RuntimeWarning, match=r"client 1.* not convex"):
        pdmm.solve(problem, method, rounds=60, x0=[0.1, 0.2])
    found = problem.negative_curvature()
    assert found is not None
    assert found[0] == 1
    assert -3.0001 <= found[1] < -1
    secants = problem.secants()
    assert secants is not None
    assert secants[1].clients[1] == 0
    assert secants[1].clients[0] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e8])
def test_rounding_is_no_negative_curvature(dtype: Any, size: float) -> None:
    # The clients' gradients stay large and cancel: near the end their changes are rounding.
    pull, H = size * np.array([1.0, -1.0, 0.3]), rotated(np.array([1.0, 2.0, 4.0]))

    def value(sign: int, x: Array) -> float:
        return bowl(H, 1.0, x) + sign * float(pull @ x)

    def gradient(sign: int, x: Array) -> Array:
        return np.asarray(slope(H, 1.0, x.astype(dtype)) + sign * pull, dtype)

    problem = pdmm.Functions(
        [partial(value, s) for s in (1, -1)], [partial(gradient, s) for s in (1, -1)], dimension=3
    )
    pdmm.solve(problem, pdmm.GradientDescent(0.2), rounds=200, x0=[5.0, 5.0, 5.0])
    assert problem.negative_curvature() is None
    found = problem.secants()
    if size == 1e8:  # they say nothing, and say so
        assert found is None
    else:
        assert found is not None
        assert (found[0].clients <= 4.5).all()
        if dtype is np.float64:
            assert (found[1].clients >= 0.99).all()


def test_a_run_that_diverges_leaves_finite_secants() -> None:
    problem = quadratics([np.diag([1.0, 4.0])] * 2)
    result = pdmm.solve(problem, pdmm.GradientDescent(50.0), rounds=400)
    assert result.diverged
    found = problem.secants()
    assert found is not None
    np.testing.assert_allclose(found[0].clients, 4, rtol=1e-3)


def test_secants_of_points_that_tell_nothing() -> None:
    x, g = np.ones(2), np.ones(2)
    with np.errstate(all="ignore"):
        assert secant(x, g, x, 2 * g) is None
        assert secant(x, g, x + 1e-10, 2 * g) is None
        assert secant(x, g, 1e200 * x, g) is None
        assert secant(x, g, 2 * x, g + np.inf) is None
        assert secant(x, g, 2 * x, g + np.nan) is None
    assert secant(x, 1e9 * g, 2 * x, 1e9 * g + 1) is None
    steep, bend, doubt = secant(x, g, 2 * x, 4 * g) or (0, 0, 0)
    assert steep == pytest.approx(3)
    assert bend == pytest.approx(3)
    assert 0 < doubt < 1e-5
    watched = Secants(2)
    watched.add(0, x, g)
    assert np.isnan(watched.steepest).all()
    watched.add(0, 2 * x, -g)
    np.testing.assert_allclose(watched.least, [-2, np.nan])
    np.testing.assert_allclose(watched.bent, [-2, np.nan], rtol=1e-5)
    found = watched.ends()
    assert found is not None
    np.testing.assert_allclose(found[1], [0, np.nan])


def identity(x: Array) -> Array:
    return x


def test_copies_keep_their_constants() -> None:
    problem = pdmm.Functions([square] * 2, [identity] * 2, 3, smoothness=[1, 2])
    pdmm.solve(problem, pdmm.GradientDescent(0.1), rounds=5, x0=np.ones(3))
    problem.strong_convexity()
    for twin in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert twin.smoothness().clients.tolist() == [1, 2]
        assert twin.strong_convexity().overall == problem.strong_convexity().overall
        assert repr(twin.secants()) == repr(problem.secants())
        with Threads(1) as one:
            twin.prepare(1, 1, False, one)
        assert twin.secants() is None
        assert problem.secants() is not None
