"""The clients' functions against plain NumPy formulas, and their sum against direct solvers."""

import copy
import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import pdmm
from pdmm.common.threads import Threads
from pdmm.problems.base import Block, SumOfBlocks
from pdmm.problems.minimise import minimise
from pdmm.problems.quadratic import Gram, Quadratics, Rows, Spectral

Array = npt.NDArray[Any]
Data = tuple[list[Array], list[Array]]

SHAPES: dict[str, list[int]] = {  # samples of each client, of 6 features
    "tall": [20, 20, 20],
    "wide": [2, 2, 2, 2, 2],
    "ragged, tall": [9, 4, 30],
    "ragged, wide": [1, 3, 2],
    "ragged, few with one large": [1, 1, 1, 1, 8],
    "one client": [12],
}
DTYPES: list[type[np.floating[Any]]] = [np.float64, np.float32]


def rows_of(samples: Sequence[int], d: int = 6, dtype: Any = np.float64, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    A = [rng.standard_normal((n, d)).astype(dtype) for n in samples]
    return A, [(a @ np.ones(d) + rng.standard_normal(len(a))).astype(dtype) for a in A]


def labelled(
    samples: Sequence[int], features: int = 3, classes: int = 4, dtype: Any = np.float64
) -> Data:
    rng = np.random.default_rng(3)
    X = [rng.standard_normal((n, features)).astype(dtype) for n in samples]
    return X, [rng.integers(0, classes, n) for n in samples]


def whole(problem: pdmm.Problem) -> Block:
    return problem.at(slice(0, problem.clients))


def literal_steps(
    gradient: Callable[[Array, int], Array],
    start: Array,
    step: float,
    count: int,
    shift: Array | None,
    anchor: Array | None,
    rho: float,
) -> tuple[Array, Array]:
    """Gradient steps of one client, written out; (last, mean)."""
    x, iterates = start.astype(np.float64), []
    for k in range(count):
        slope = gradient(x, k)
        if shift is not None:
            slope = slope + shift
        if anchor is not None:
            slope = slope + rho * (x - anchor)
        x = x - step * slope
        iterates.append(x)
    return x, np.mean(iterates, axis=0)


def entropy(X: Array, y: Array, x: Array, classes: int, l2: Any) -> Any:
    """f_i of softmax regression, in the precision of its arguments."""
    W = x.reshape(-1, classes)
    logits = X @ W[:-1] + W[-1]
    top = logits.max(1)
    sums = np.log(np.exp(logits - top[:, None]).sum(1)) + top
    return (sums - logits[np.arange(len(y)), y]).mean() + l2 / 2 * (x * x).sum()


def entropy_gradient(X: Array, y: Array, x: Array, classes: int, l2: float) -> Array:
    W = x.reshape(-1, classes)
    logits = X @ W[:-1] + W[-1]
    P = np.exp(logits - logsumexp(logits, axis=1, keepdims=True)) - np.eye(classes)[y]
    design = np.hstack([X, np.ones((len(X), 1))])
    return np.asarray((design.T @ P / len(y)).ravel() + l2 * x)


def numeric_gradient(f: Callable[[Array], float], x: Array) -> Array:
    h = 1e-5
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


# --- least squares: value, gradient, divergence -------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factorised", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_value_and_gradient(shape: str, factorised: bool, dtype: Any) -> None:
    A, b = rows_of(SHAPES[shape], dtype=dtype)
    problem = pdmm.LeastSquares(A, b)
    if factorised:
        problem.factorise()
    f, rng = whole(problem), np.random.default_rng(1)
    tight = 1e-12 if dtype is np.float64 else 1e-5
    for x in (rng.standard_normal(6), rng.standard_normal((len(A), 6))):
        x = x.astype(dtype)
        rows = np.broadcast_to(x, (len(A), 6)).astype(np.float64)
        residuals = [a.astype(np.float64) @ r - v for a, v, r in zip(A, b, rows, strict=True)]
        gradients = np.array(
            [a.T.astype(np.float64) @ r for a, r in zip(A, residuals, strict=True)]
        )
        size = 1 + max(float(v @ v) for v in b)
        np.testing.assert_allclose(
            f.value(x), [0.5 * r @ r for r in residuals], rtol=tight, atol=tight * size
        )
        assert f.value(x).dtype == np.float64
        gradient = f.gradient(x)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, gradients, atol=tight * np.abs(gradients).max())
    if dtype is np.float64:
        x = rng.standard_normal(6)
        for i in range(len(A)):
            one = problem.client(i)
            slope = numeric_gradient(lambda p, i=i: float(f.value(p)[i]), x)  # type: ignore[misc]
            np.testing.assert_allclose(one.gradient(x), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("distance", [1.0, 1e-10])
def test_least_squares_divergence_is_relatively_accurate(shape: str, distance: float) -> None:
    A, b = rows_of(SHAPES[shape])
    rng = np.random.default_rng(2)
    y = rng.standard_normal(6)
    x = y + distance * rng.standard_normal(6)
    v = x.astype(np.longdouble) - y.astype(np.longdouble)
    exact = [0.5 * ((a.astype(np.longdouble) @ v) ** 2).sum() for a in A]
    assert max(exact) < (1e3 if distance == 1 else 1e-17)
    problem = pdmm.LeastSquares(A, b)
    np.testing.assert_allclose(whole(problem).divergence(x, y), exact, rtol=1e-11)
    if distance == 1:
        f = whole(problem)
        plain = f.value(x) - f.value(y) - f.gradient(y) @ (x - y)
        np.testing.assert_allclose(f.divergence(x, y), plain, rtol=1e-10, atol=1e-10)
    w = rng.uniform(0.5, 2, len(A))
    with Threads(1) as threads:
        for total in (problem.total(w, threads), SumOfBlocks(problem, problem, w, threads)):
            sum_exact = float(sum(wi * e for wi, e in zip(w, exact, strict=True)))
            assert total.divergence(x, y) == pytest.approx(sum_exact, rel=1e-11)


# --- K steps in all forms -------------------------------------------------------------------


def forms_of(A: Sequence[Array], b: Sequence[Array]) -> dict[str, Quadratics]:
    """The same quadratics in every form: data as a list, matrices, eigenbases thin and full."""
    d = A[0].shape[1]
    dtype = A[0].dtype
    wide = [(a.astype(np.float64), v.astype(np.float64)) for a, v in zip(A, b, strict=True)]
    g = np.array([a.T @ v for a, v in wide]).astype(dtype)
    c = np.array([0.5 * v @ v for _, v in wide])
    H = np.array([a.T @ a for a, _ in wide])
    e, V = np.linalg.eigh(H)
    forms: dict[str, Quadratics] = {
        "rows": Rows(list(A), g, c),
        "gram": Gram(H.astype(dtype), g, c),
        "full": Spectral(
            np.ascontiguousarray(V.swapaxes(1, 2)).astype(dtype),
            e.clip(min=0).astype(dtype),
            g,
            c,
            full=True,
        ),
    }
    # As few rows as the largest client needs, and more rows than any needs: the rest is zero.
    for name, rank in (("thin", min(d, max(len(a) for a in A))), ("padded", d + 1)):
        W, thin = np.zeros((len(A), rank, d), dtype), np.zeros((len(A), rank), dtype)
        for i, (a, _) in enumerate(wide):
            _, s, vectors = np.linalg.svd(a, full_matrices=False)
            W[i, : len(s)], thin[i, : len(s)] = vectors, s * s
        forms[name] = Spectral(W, thin, g, c, full=False)
    if len({len(a) for a in A}) == 1:
        forms["stacked rows"] = Rows(np.stack(list(A)), g, c)
    return forms


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    samples=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    d=st.integers(1, 6),
    count=st.integers(1, 6),
    rho=st.sampled_from([0.0, 0.7, 30.0]),
    shifted=st.booleans(),
    anchored=st.booleans(),
    average=st.booleans(),
    deficient=st.booleans(),
    common=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_steps_of_every_form_follow_the_loop(
    samples: list[int],
    d: int,
    count: int,
    rho: float,
    shifted: bool,
    anchored: bool,
    average: bool,
    deficient: bool,
    common: bool,
    dtype: Any,
    seed: int,
) -> None:
    rng, m = np.random.default_rng(seed), len(samples)
    A, b = rows_of(samples, d, dtype, seed)
    if deficient:
        for a in A:
            a[:, -1] = a[:, 0]
            a[-1] = a[0]
    start = rng.standard_normal(d if common else (m, d)).astype(dtype)
    shift = rng.standard_normal((m, d)).astype(dtype) if shifted else None
    anchor = rng.standard_normal((m, d)).astype(dtype) if anchored else None
    if anchor is None:
        rho = 0.0
    largest = max(float(np.linalg.norm(a.astype(np.float64), 2)) ** 2 for a in A)
    step = 0.7 / (largest + rho + 1)
    expected = []
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        a, v = a.astype(np.float64), v.astype(np.float64)
        expected.append(
            literal_steps(
                lambda x, _, a=a, v=v: a.T @ (a @ x - v),  # type: ignore[misc]
                start if common else start[i],
                step,
                count,
                None if shift is None else shift[i],
                None if anchor is None else anchor[i],
                rho,
            )
        )
    tight = 1e-12 if dtype is np.float64 else 2e-5
    for name, form in forms_of(A, b).items():
        f = form.at(slice(0, m))
        last, mean = f.steps(
            start, step=step, count=count, shift=shift, anchor=anchor, rho=rho, average=average
        )
        size = 1 + max(float(np.abs(x).max()) for pair in expected for x in pair)
        wanted = np.array([x for x, _ in expected])
        np.testing.assert_allclose(last, wanted, atol=tight * size, err_msg=name)
        averages = np.array([x for _, x in expected]) if average else wanted
        np.testing.assert_allclose(mean, averages, atol=tight * size, err_msg=name)
        assert last.dtype == mean.dtype == dtype
        assert f.tally.gradients == count * m


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factorised", [False, True])
def test_steps_of_the_chosen_form_follow_the_loop(shape: str, factorised: bool) -> None:
    A, b = rows_of(SHAPES[shape])
    problem = pdmm.LeastSquares(A, b)
    if factorised:
        problem.factorise()
    rng, m = np.random.default_rng(7), len(A)
    start, shift, anchor = (rng.standard_normal((m, 6)) for _ in range(3))
    last, mean = whole(problem).steps(
        start, step=0.01, count=4, shift=shift, anchor=anchor, rho=2.0, average=True
    )
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        expected = literal_steps(
            lambda x, _, a=a, v=v: a.T @ (a @ x - v),  # type: ignore[misc]
            *(start[i], 0.01, 4, shift[i], anchor[i], 2.0),
        )
        np.testing.assert_allclose(last[i], expected[0], atol=1e-12)
        np.testing.assert_allclose(mean[i], expected[1], atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_agree_whatever_the_form(shape: str) -> None:
    method = pdmm.GPDMM(0.01, 5, rho=3.0)
    x = pdmm.solve(pdmm.LeastSquares(*rows_of(SHAPES[shape])), method, rounds=10).x
    factorised = pdmm.LeastSquares(*rows_of(SHAPES[shape])).factorise()
    np.testing.assert_allclose(pdmm.solve(factorised, method, rounds=10).x, x, atol=1e-12)


def test_one_client_works_on_plain_vectors() -> None:
    A, b = rows_of(SHAPES["ragged, wide"])
    problem = pdmm.LeastSquares(A, b)
    rng = np.random.default_rng(5)
    start, anchor = rng.standard_normal(6), rng.standard_normal(6)
    expected = literal_steps(
        lambda x, _: A[1].T @ (A[1] @ x - b[1]), start, 0.01, 3, None, anchor, 2.0
    )
    last, mean = problem.client(1).steps(
        start, step=0.01, count=3, anchor=anchor, rho=2.0, average=True
    )
    assert last.shape == mean.shape == (6,)
    np.testing.assert_allclose(last, expected[0], atol=1e-13)
    np.testing.assert_allclose(mean, expected[1], atol=1e-13)
    exact = problem.factorise().client(1).prox(anchor, 2.0, start)
    solved = np.linalg.solve(A[1].T @ A[1] + 2 * np.eye(6), A[1].T @ b[1] + 2 * anchor)
    np.testing.assert_allclose(exact, solved, atol=1e-12)


# --- exact steps ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_prox_is_the_linear_solve(shape: str, rho: float, dtype: Any) -> None:
    A, b = rows_of(SHAPES[shape], dtype=dtype)
    if shape == "tall":
        A[0][:, 0] = 0  # a zero eigenvalue
    anchor = np.random.default_rng(4).standard_normal((len(A), 6)).astype(dtype)
    f = whole(pdmm.LeastSquares(A, b).factorise())
    x = f.prox(anchor, rho, np.zeros(6, dtype))
    assert x.dtype == dtype
    assert f.tally.exact == len(A)
    assert f.tally.error == 0
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        a, v = a.astype(np.float64), v.astype(np.float64)
        H = a.T @ a + rho * np.eye(6)
        solved = np.linalg.solve(H, a.T @ v + rho * anchor[i])
        # Where H is nearly singular only the slope can be small, not the distance.
        eps = float(np.finfo(dtype).eps)
        slope = H @ (x[i] - solved)
        scale = np.linalg.norm(H, 2) * np.abs(solved).max()
        assert np.linalg.norm(slope) <= 50 * eps * scale
        if rho >= 1:
            np.testing.assert_allclose(x[i], solved, atol=50 * eps * (1 + np.abs(solved).max()) * 6)


def kkt_residual(slope: Array, x: Array, anchor: Array, rho: float) -> float:
    """The relative residual as ``pdmm.problems.exact.minimise`` states it."""
    scale = np.linalg.norm(slope) + rho * (np.linalg.norm(x) + np.linalg.norm(anchor))
    return float(np.linalg.norm(slope + rho * (x - anchor)) / scale)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 50.0])
@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_prox_reaches_its_tolerance(rho: float, l2: float, dtype: Any) -> None:
    X, y = labelled([15, 15], dtype=dtype)
    problem = pdmm.SoftmaxRegression(X, y, classes=4, l2=l2, batch_size=5)
    rng = np.random.default_rng(8)
    anchor = rng.standard_normal((2, 16)).astype(dtype)
    first = whole(problem).prox(anchor, rho, anchor)
    starts = {
        "far": 100 * rng.standard_normal((2, 16)).astype(dtype),
        "near": first + (1e-9 * rng.standard_normal((2, 16))).astype(dtype),
        "nearer": first + (1e-13 * rng.standard_normal((2, 16))).astype(dtype),
        "there": first,
        "shared": np.zeros(16, dtype),
    }
    # A float32 x is the solution rounded: its slope is off by the curvature times that.
    rounding = (
        0.0
        if dtype is np.float64
        else float(np.finfo(dtype).eps) * (problem.smoothness().clients.max() + rho)
    )
    for name, start in starts.items():
        f = whole(problem)
        x = f.prox(anchor, rho, start)
        assert x.dtype == dtype
        assert f.tally.error <= Block.tolerance, name
        assert f.tally.exact == 2
        assert f.tally.values == f.tally.gradients >= 2
        for i in range(2):
            wide = x[i].astype(np.float64)
            slope = entropy_gradient(X[i].astype(np.float64), y[i], wide, 4, l2)
            error = kkt_residual(slope, wide, anchor[i].astype(np.float64), rho)
            blur = rounding * np.linalg.norm(wide) / (rho * np.linalg.norm(anchor[i]))
            assert error <= 1.01e-10 + blur, name


def log_cosh(c: Array, k: float) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """A smooth convex function with curvature between 0 and k², and its gradient."""

    def value(x: Array) -> float:
        t = np.abs(k * (x - c))
        return float((t + np.log1p(np.exp(-2 * t)) - np.log(2)).sum())

    return value, lambda x: k * np.tanh(k * (x - c))


def own_functions(m: int = 3, d: int = 4) -> pdmm.Functions:
    rng = np.random.default_rng(11)
    pairs = [log_cosh(rng.standard_normal(d), 1.0 + i) for i in range(m)]
    return pdmm.Functions([v for v, _ in pairs], [g for _, g in pairs], dimension=d)


@pytest.mark.parametrize("rho", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("scale", [100.0, 1.0, 1e-8, 1e-12])
def test_prox_of_own_functions_reaches_its_tolerance(rho: float, scale: float) -> None:
    problem, rng = own_functions(), np.random.default_rng(9)
    anchor = rng.standard_normal((3, 4))
    near = whole(problem).prox(anchor, rho, anchor)
    f = whole(problem)
    x = f.prox(anchor, rho, near + scale * rng.standard_normal((3, 4)))
    assert f.tally.error <= Block.tolerance
    for i in range(3):
        slope = problem.gradient(i, x[i])
        assert kkt_residual(slope, x[i], anchor[i], rho) <= 1.01e-10


def test_own_prox_is_called_with_one_over_rho() -> None:
    seen: list[float] = []
    centre = np.array([1.0, -2.0])

    def prox(v: Array, t: float) -> Array:
        seen.append(t)
        return np.asarray((v + t * centre) / (1 + t))

    problem = pdmm.Functions(
        [lambda x: 0.5 * float(((x - centre) ** 2).sum())], [lambda x: x - centre], 2, [prox]
    )
    f = whole(problem)
    np.testing.assert_allclose(
        f.prox(np.array([[3.0, 4.0]]), 4.0, np.zeros(2)), [[2.6, 2.8]], atol=1e-15
    )
    assert seen == [0.25]
    assert (f.tally.exact, f.tally.gradients) == (1, 0)


def test_an_unreachable_tolerance_is_reported_not_hidden() -> None:
    rng = np.random.default_rng(12)

    def noisy(x: Array) -> tuple[float, Array]:
        return 0.5 * float(x @ x), x + 1e-3 * rng.standard_normal(3)

    solution = minimise(noisy, np.ones(3), 1.0, np.zeros(3), 1e-10)
    assert 1e-10 < solution.error < 0.1
    np.testing.assert_allclose(solution.x, 0.5, atol=0.1)


# --- own functions --------------------------------------------------------------------------


def test_own_functions_value_and_gradient() -> None:
    problem, rng = own_functions(), np.random.default_rng(10)
    f = whole(problem)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(4)
    np.testing.assert_array_equal(f.value(x), [problem.value(i, x[i]) for i in range(3)])
    for i in range(3):
        slope = numeric_gradient(lambda p, i=i: problem.value(i, p), x[i])  # type: ignore[misc]
        np.testing.assert_allclose(f.gradient(x)[i], slope, atol=1e-8)
    np.testing.assert_array_equal(f.value(y), [problem.value(i, y) for i in range(3)])


def test_own_functions_may_spoil_their_argument() -> None:
    def spoil(x: Array) -> Array:
        x -= 1.0
        return x

    problem = pdmm.Functions([lambda x: 0.5 * float(spoil(x) @ x)], [spoil], 2)
    start = np.zeros(2)
    result = pdmm.solve(problem, pdmm.FedAvg(0.5, 1), rounds=60, x0=start)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-12)
    np.testing.assert_array_equal(start, 0)


# --- softmax --------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [[12, 12, 12], [5, 12, 9, 9, 30, 1]])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch_size", [None, 1])
def test_softmax_value_and_gradient(samples: list[int], dtype: Any, batch_size: int | None) -> None:
    X, y = labelled(samples, dtype=dtype)
    problem = pdmm.SoftmaxRegression(X, y, classes=4, l2=0.2, batch_size=batch_size)
    assert problem.dimension == 16
    rng, tight = np.random.default_rng(13), (1e-13 if dtype is np.float64 else 2e-6)
    x = rng.standard_normal(16).astype(dtype)
    wide, weights = x.astype(np.float64), rng.uniform(1, 2, len(X))
    values, gradients = [], []
    for rows, labels in zip(X, y, strict=True):
        rows = rows.astype(np.float64)
        values.append(entropy(rows, labels, wide, 4, 0.2))
        gradients.append(entropy_gradient(rows, labels, wide, 4, 0.2))
    np.testing.assert_allclose(
        gradients[0],
        numeric_gradient(lambda p: float(entropy(X[0], y[0], p, 4, 0.2)), wide),
        atol=1e-8 if dtype is np.float64 else 1e-6,
    )
    with Threads(2) as threads:
        total = SumOfBlocks(problem, problem, weights, threads)
        assert total.value(x) == pytest.approx(weights @ values, rel=tight)
        np.testing.assert_allclose(total.gradient(x), weights @ gradients, atol=10 * tight)
    for i in range(len(X)):
        one = problem.at(slice(i, i + 1))
        assert one.value(x)[0] == pytest.approx(values[i], rel=tight)
        np.testing.assert_allclose(one.gradient(x)[0], gradients[i], atol=tight * 5)
        value, gradient = one.smooth(0)(wide)
        assert value == pytest.approx(values[i], rel=1e-13)
        np.testing.assert_allclose(gradient, gradients[i], atol=1e-13)


def test_softmax_of_extreme_logits_stays_finite() -> None:
    X, y = labelled([8])
    f = whole(pdmm.SoftmaxRegression(X, y, classes=4))
    x, origin = 1e4 * np.random.default_rng(0).standard_normal(16), np.zeros(16)
    exact = entropy(X[0], y[0], x, 4, 0)
    assert f.value(x)[0] == pytest.approx(exact, rel=1e-12)
    assert np.isfinite(f.gradient(x)).all()
    plain = exact - np.log(4) - entropy_gradient(X[0], y[0], origin, 4, 0) @ x
    assert f.divergence(x, origin)[0] == pytest.approx(plain, rel=1e-12)
    back = np.log(4) - exact + entropy_gradient(X[0], y[0], x, 4, 0) @ x
    assert f.divergence(origin, x)[0] == pytest.approx(back, abs=1e-9 * exact)


@pytest.mark.parametrize("distance", [1e-3, 1e-2, 0.1, 0.5, 3.0])
def test_softmax_divergence_is_the_difference(distance: float) -> None:
    X, y = labelled([9, 9])
    f, rng = whole(pdmm.SoftmaxRegression(X, y, classes=4, l2=0.1)), np.random.default_rng(1)
    there = rng.standard_normal(16)
    x = there + distance * rng.standard_normal(16)
    expected = []
    for rows, labels in zip(X, y, strict=True):
        wide = [v.astype(np.longdouble) for v in (rows, x, there)]
        slope = entropy_gradient(rows, labels, there, 4, 0.1) @ (x - there)
        expected.append(
            float(
                entropy(wide[0], labels, wide[1], 4, np.longdouble(0.1))
                - entropy(wide[0], labels, wide[2], 4, np.longdouble(0.1))
                - slope
            )
        )
    # The slope is known to 1e-16 of the distance, the divergence is about distance².
    np.testing.assert_allclose(f.divergence(x, there), expected, rtol=1e-14 / distance + 1e-12)


@pytest.mark.parametrize(("distance", "dtype"), [(1e-10, np.float64), (1e-6, np.float32)])
def test_softmax_divergence_of_tiny_distances(distance: float, dtype: Any) -> None:
    X, y = labelled([9, 9], dtype=dtype)
    f, rng = whole(pdmm.SoftmaxRegression(X, y, classes=4, l2=0.1)), np.random.default_rng(1)
    there = 1e-3 * rng.standard_normal(16)
    x = (there + distance * rng.standard_normal(16)).astype(dtype)
    v = x.astype(np.longdouble) - there.astype(np.longdouble)
    expected = []
    for rows in X:
        design = np.hstack([rows, np.ones((9, 1))]).astype(np.longdouble)
        logits, t = (design @ part.reshape(4, 4) for part in (there.astype(np.longdouble), v))
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        # To second order the divergence is half the variance of the change of the logits.
        variance = (p * t * t).sum(1) - (p * t).sum(1) ** 2
        expected.append(float(variance.mean() / 2 + 0.05 * (v * v).sum()))
    assert 0 < max(expected) < 10 * distance**2
    np.testing.assert_allclose(
        f.divergence(x, there), expected, rtol=1e-8 if dtype is np.float64 else 1e-5
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_softmax_batches_follow_the_stored_order(dtype: Any, average: bool, full: bool) -> None:
    # Of 11 samples the last 3 are never seen in batches of 4, of 9 the last one.
    X, y = labelled([11, 9, 4], dtype=dtype)
    problem = pdmm.SoftmaxRegression(X, y, classes=4, l2=0.1, batch_size=None if full else 4)
    rng, cursor = np.random.default_rng(5), np.array([5, 1, 7])
    start, shift, anchor = (rng.standard_normal((3, 16)).astype(dtype) for _ in range(3))
    for i in range(3):

        def gradient(x: Array, k: int, i: int = i) -> Array:
            begin = 0 if full else (int(cursor[i]) + k) % (len(y[i]) // 4) * 4
            part = slice(None) if full else slice(begin, begin + 4)
            return entropy_gradient(X[i][part].astype(np.float64), y[i][part], x, 4, 0.1)

        expected = literal_steps(gradient, start[i], 0.3, 7, shift[i], anchor[i], 0.5)
        last, mean = problem.at(slice(i, i + 1), cursor[i : i + 1]).steps(
            start[i : i + 1],
            step=0.3,
            count=7,
            shift=shift[i : i + 1],
            anchor=anchor[i : i + 1],
            rho=0.5,
            average=average,
        )
        tight = 1e-13 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(last[0], expected[0], atol=tight)
        np.testing.assert_allclose(mean[0], expected[1] if average else last[0], atol=tight)
        assert last.dtype == mean.dtype == dtype


def test_batch_order_runs_on_from_round_to_round() -> None:
    X, y = labelled([11, 9, 4, 8, 10, 6])
    problem = pdmm.SoftmaxRegression(X, y, classes=4, batch_size=4)
    result = pdmm.solve(problem, pdmm.FedAvg(0.4, 3), rounds=5)
    x = np.zeros(16)
    for r in range(5):
        ends = []
        for rows, labels in zip(X, y, strict=True):

            def gradient(
                p: Array, k: int, r: int = r, rows: Array = rows, y: Array = labels
            ) -> Any:
                begin = (3 * r + k) % (len(y) // 4) * 4
                part = slice(begin, begin + 4)
                return entropy_gradient(rows[part], y[part], p, 4, 0.0)

            ends.append(literal_steps(gradient, x, 0.4, 3, None, None, 0.0)[0])
        x = np.mean(ends, axis=0)
    np.testing.assert_allclose(result.x, x, atol=1e-13)
    values = [entropy(rows, labels, x, 4, 0.0) for rows, labels in zip(X, y, strict=True)]
    # The objective is of all samples, also of those that no batch reaches.
    assert result.history["objective"][-1] == pytest.approx(sum(values), rel=1e-13)


def test_predict_accuracy_and_bias_last() -> None:
    X, y = labelled([7, 5], features=2, classes=3)
    problem = pdmm.SoftmaxRegression(X, y, classes=3)
    x = np.arange(9, dtype=float)
    W, bias = np.array([[0.0, 1, 2], [3, 4, 5]]), np.array([6.0, 7, 8])
    new = np.random.default_rng(3).standard_normal((40, 2)) * 5
    np.testing.assert_array_equal(problem.predict(x, new), (new @ W + bias).argmax(1))
    only_bias = np.zeros(9)
    only_bias[7] = 1.0
    np.testing.assert_array_equal(problem.predict(only_bias, new), 1)
    labels = np.concatenate(y)
    assert problem.accuracy(only_bias) == pytest.approx((labels == 1).mean())
    assert problem.accuracy(only_bias, new, np.r_[np.ones(30, int), np.zeros(10, int)]) == 0.75
    shares = np.bincount(y[0], minlength=3) / 7
    gradient = problem.client(0).gradient(np.zeros(9))
    np.testing.assert_allclose(gradient[6:], 1 / 3 - shares, atol=1e-15)
    np.testing.assert_allclose(
        gradient[:6].reshape(2, 3), X[0].T @ (1 / 3 - np.eye(3)[y[0]]) / 7, atol=1e-15
    )
    with pytest.raises(ValueError, match="X must have shape"):
        problem.predict(x, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="X and y together"):
        problem.accuracy(x, new)


# --- the minimum of the sum -----------------------------------------------------------------


def stacked(A: Sequence[Array], b: Sequence[Array], w: Array, l2: float) -> tuple[Array, Array]:
    """The rows whose plain least-squares solution is the weighted, regularised one."""
    d = A[0].shape[1]
    rows = [np.sqrt(wi) * a.astype(np.float64) for wi, a in zip(w, A, strict=True)]
    right = [np.sqrt(wi) * v.astype(np.float64) for wi, v in zip(w, b, strict=True)]
    if l2:
        rows, right = [*rows, np.sqrt(l2) * np.eye(d)], [*right, np.zeros(d)]
    return np.concatenate(rows), np.concatenate(right)


MINIMA: dict[str, list[int]] = SHAPES | {"fewer samples than features": [1, 2, 1]}


@pytest.mark.parametrize("shape", MINIMA)
@pytest.mark.parametrize("l2", [0.0, 0.3, 1e-9])
@pytest.mark.parametrize("problem_of", ["given", "deficient", "float32", "badly scaled"])
def test_minimiser_is_the_least_squares_solution(shape: str, l2: float, problem_of: str) -> None:
    A, b = rows_of(MINIMA[shape], dtype=np.float32 if problem_of == "float32" else np.float64)
    if problem_of == "deficient":
        for a in A:
            a[:, 3] = a[:, 1] - a[:, 2]
    if problem_of == "badly scaled":
        for a in A:
            a *= np.logspace(-3, 3, 6)
    w = np.random.default_rng(1).uniform(0.5, 3, len(A))
    rows, right = stacked(A, b, w, l2)
    reference = np.linalg.lstsq(rows, right)[0]

    def f(x: Array) -> float:
        return 0.5 * float(((rows @ x - right) ** 2).sum())

    with Threads(1) as threads:
        total = pdmm.LeastSquares(A, b).total(w, threads)
        x = total.minimiser(l2)
        assert x is not None
        assert x.dtype == np.float64
        # A minimiser leaves nothing to gain, to rounding in F.
        assert f(x) - f(reference) <= 1e-13 * f(np.zeros(6))
        if problem_of in ("given", "float32") and (l2 != 1e-9 or len(rows) - 6 >= 6):
            np.testing.assert_allclose(x, reference, atol=1e-9 * (1 + np.abs(reference).max()))
        value = total.value(x) + l2 / 2 * float(x @ x)
        assert value == pytest.approx(f(x), rel=1e-10, abs=1e-13 * f(np.zeros(6)))
        np.testing.assert_allclose(
            total.gradient(x) + l2 * x,
            rows.T @ (rows @ x - right),
            atol=1e-10 * float(np.linalg.norm(rows, 2) * np.linalg.norm(right)),
        )
        if shape == "fewer samples than features" and l2 == 0:
            assert value == pytest.approx(0, abs=1e-13 * f(np.zeros(6)))


@pytest.mark.parametrize("c", [0.0, 2.0])
def test_solve_finds_its_own_optimum_with_weights_and_ridge(c: float) -> None:
    A, b = rows_of(SHAPES["ragged, tall"])
    w = np.array([1.0, 3.0, 0.5])
    rows, right = stacked(A, b, w, c)
    reference = np.linalg.lstsq(rows, right)[0]
    f_star = 0.5 * float(((rows @ reference - right) ** 2).sum())
    result = pdmm.solve(
        pdmm.LeastSquares(A, b),
        pdmm.PDMM(10.0),
        rounds=150,
        weights=w,
        regulariser=pdmm.SquaredL2(c),
    )
    assert result.optimum == pytest.approx(f_star, rel=1e-12)
    np.testing.assert_allclose(result.x, reference, atol=1e-12)
    assert 0 <= result.history["gap"][-1] < 1e-20


def test_ridge_on_repeated_samples_has_a_minimum_however_small_it_is() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 10))
    A, b = np.concatenate([rows, rows])[None], np.ones((1, 6))
    with Threads(1) as threads:
        x = pdmm.LeastSquares(A, b).total(np.ones(1), threads).minimiser(1e-17)
    assert x is not None
    np.testing.assert_allclose(A[0] @ x, 1, atol=1e-9)


# --- the paper's problem --------------------------------------------------------------------


def test_random_has_the_stated_statistics() -> None:
    problem = pdmm.LeastSquares.random(clients=4, samples=400, features=100, noise=0.5, seed=3)
    f, units = whole(problem), np.eye(100)
    # The curvature along e_j is ‖A_i e_j‖², whose mean over j is that of n squared normals.
    curvature = np.array([f.divergence(e, 0 * e) for e in units]) * 2
    assert curvature.mean() / 400 == pytest.approx(1, abs=0.02)
    result = pdmm.solve(problem, pdmm.GradientDescent(1e-4), rounds=1)
    assert result.optimum is not None
    assert np.sqrt(2 * result.optimum / (1600 - 100)) == pytest.approx(0.5, abs=0.03)
    clean = pdmm.LeastSquares.random(clients=4, samples=400, features=100, noise=0.0, seed=3)
    with Threads(1) as threads:
        y0 = clean.total(np.ones(4), threads).minimiser(0)
    assert y0 is not None
    assert y0.mean() == pytest.approx(0, abs=0.3)
    assert y0.std() == pytest.approx(1, abs=0.25)
    np.testing.assert_allclose(whole(clean).value(y0), 0, atol=1e-8)
    # A_i of mean 0: for v of ones, ‖A_i v‖² is n d, not n d².
    ones = np.ones(100)
    assert f.divergence(ones, 0 * ones).mean() * 2 / (400 * 100) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("features", [5, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_is_reproducible_client_by_client(features: int, dtype: Any) -> None:
    def make(clients: int, seed: int) -> pdmm.LeastSquares:
        return pdmm.LeastSquares.random(
            clients=clients, samples=10, features=features, seed=seed, dtype=dtype
        )

    few, many, again, other = make(2, 0), make(7, 0), make(7, 0), make(7, 1)
    assert few.dtype == dtype
    x = np.random.default_rng(0).standard_normal(features).astype(dtype)
    np.testing.assert_array_equal(whole(many).gradient(x)[:2], whole(few).gradient(x))
    np.testing.assert_array_equal(whole(many).value(x), whole(again).value(x))
    assert (whole(many).value(x) != whole(other).value(x)).all()
    assert len(np.unique(whole(many).value(x))) == 7
    assert whole(many).gradient(x).dtype == dtype


def test_random_in_float32_is_the_float64_problem_rounded() -> None:
    kinds = [
        pdmm.LeastSquares.random(clients=3, samples=10, features=5, dtype=kind) for kind in DTYPES
    ]
    gradients = [whole(p).gradient(np.ones(5, p.dtype)) for p in kinds]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)


# --- data ------------------------------------------------------------------------------------


def frozen(arrays: Sequence[Array]) -> list[Array]:
    for array in arrays:
        array.setflags(write=False)
    return list(arrays)


@pytest.mark.parametrize("shape", ["tall", "wide", "ragged, wide"])
@pytest.mark.parametrize("as_one", [False, True])
def test_data_are_not_changed(shape: str, as_one: bool) -> None:
    # Writing to a frozen array raises: runs that finish have not changed the data.
    A, b = (frozen(part) for part in rows_of(SHAPES[shape]))
    if as_one and shape != "ragged, wide":
        problem = pdmm.LeastSquares(frozen([np.stack(A)])[0], frozen([np.stack(b)])[0])
    else:
        problem = pdmm.LeastSquares(A, b)
    x0, w = frozen([np.ones(6)])[0], frozen([np.ones(len(A))])[0]
    methods: list[pdmm.Method] = [pdmm.PDMM(1.0), pdmm.GPDMM(0.01, 3), pdmm.Scaffold(0.01, 3)]
    for method in methods:
        result = pdmm.solve(problem, method, rounds=3, x0=x0, weights=w)
        assert not np.shares_memory(result.x, x0)
        assert result.rounds == 3


def test_softmax_data_are_not_changed() -> None:
    X, y = (frozen(part) for part in labelled([9, 7, 8, 8, 8]))
    problem = pdmm.SoftmaxRegression(X, y, classes=4, batch_size=3)
    methods: list[pdmm.Method] = [pdmm.PDMM(1.0), pdmm.GPDMM(0.1, 3), pdmm.FedAvg(0.1, 3)]
    for method in methods:
        assert pdmm.solve(problem, method, rounds=3).rounds == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_are_not_copied(dtype: Any) -> None:
    A = [np.ones((1000, 500), dtype) for _ in range(2)]
    b = [np.ones(1000, dtype) for _ in range(2)]
    y = [np.zeros(1000, np.int64) for _ in range(2)]
    tracemalloc.start()
    try:
        problems = [
            pdmm.LeastSquares(A, b),
            pdmm.LeastSquares(A[0].reshape(2, 500, 500), b[0].reshape(2, 500)),
            pdmm.SoftmaxRegression(A, y, classes=2),
        ]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(problems) == 3
    assert peak < A[0].nbytes / 10


@pytest.mark.parametrize("seed", range(12))
def test_exactly_dependent_columns_have_a_right_objective_and_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.integers(0, 3, 60) for _ in range(5)]
    A = [np.column_stack([np.ones(60), np.eye(3)[g]]) for g in groups]
    b = [rng.standard_normal(60) for _ in groups]
    result = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.PDMM(40.0), rounds=200)
    true = sum(0.5 * float(((a @ result.x - v) ** 2).sum()) for a, v in zip(A, b, strict=True))
    assert result.history["objective"][-1] == pytest.approx(true, rel=1e-12)
    assert 0 <= result.history["gap"][-1] < 1e-20
    assert (result.history["gap"] >= 0).all()


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint64])
def test_labels_of_every_integer_type_mean_the_same(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((300, 3)) for _ in range(2)]
    y = [rng.integers(0, 10, 300) for _ in range(2)]
    small = [labels.astype(kind) for labels in y]
    runs = [
        pdmm.solve(pdmm.SoftmaxRegression(X, labels, classes=10), pdmm.AGPDMM(0.2, 3), 5).x
        for labels in (y, small)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])


def test_accuracy_refuses_labels_that_do_not_fit() -> None:
    X, y = labelled([8, 9])
    problem = pdmm.SoftmaxRegression(X, y, classes=4)
    x = np.zeros(problem.dimension)
    assert problem.accuracy(x, X, y) == problem.accuracy(x)
    for bad in (y[0][:, None], y[0].astype(float), y[1]):
        with pytest.raises(ValueError, match="y must hold a whole number for each row"):
            problem.accuracy(x, X[0], bad)
    with pytest.raises(ValueError, match="x must have shape"):
        problem.predict(x[1:], X[0])


def test_values_come_from_residuals_not_from_large_terms_that_cancel() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 20, 4)).astype(np.float32)
    b = (1000 * A.sum(-1) + rng.standard_normal((3, 20))).astype(np.float32)
    problem, x = pdmm.LeastSquares(A, b), np.full(4, 1000, np.float32)
    true = 0.5 * float(((A.astype(float) @ x - b) ** 2).sum())
    assert problem.objective(x) == pytest.approx(true, rel=1e-12)
    start = pdmm.solve(problem, pdmm.PDMM(9.0), 1, x0=x, optimum=False).history["objective"][0]
    assert start == pytest.approx(true, rel=1e-12)


def test_a_used_problem_can_be_copied() -> None:
    problem = pdmm.LeastSquares(*(np.array(part) for part in rows_of([9] * 3)))
    first = pdmm.solve(problem, pdmm.PDMM(2.0), 5).x
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        np.testing.assert_array_equal(pdmm.solve(twin, pdmm.PDMM(2.0), 5).x, first)


def test_data_whose_squares_overflow_are_refused_by_name() -> None:
    A = [np.ones((5, 2)), np.full((5, 2), 1e160)]
    with pytest.raises(ValueError, match=r"A\[1\] \(client 1\) is too large"):
        pdmm.solve(pdmm.LeastSquares(A, [np.ones(5)] * 2), pdmm.PDMM(1.0), 2)
