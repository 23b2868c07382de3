"""Softmax regression against plain NumPy formulas."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.formulas import (
    entropy,
    entropy_gradient,
    kkt_residual,
    literal_steps,
    numeric_gradient,
    whole,
)
from builders.inputs import softmax
from builders.samples import DTYPES, frozen, labelled
from pdmm.common.threads import Threads
from pdmm.problems.block import Block
from pdmm.problems.sums import SumOfBlocks

Array = npt.NDArray[Any]


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


# --- mini-batches -----------------------------------------------------------------------------


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


# --- data and predictions ---------------------------------------------------------------------


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


def test_softmax_data_are_not_changed() -> None:
    X, y = (frozen(part) for part in labelled([9, 7, 8, 8, 8]))
    problem = pdmm.SoftmaxRegression(X, y, classes=4, batch_size=3)
    methods: list[pdmm.Method] = [pdmm.PDMM(1.0), pdmm.GPDMM(0.1, 3), pdmm.FedAvg(0.1, 3)]
    for method in methods:
        assert pdmm.solve(problem, method, rounds=3).rounds == 3


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
    assert problem.accuracy(x, X[0], y[0][:, None]) == problem.accuracy(x, X[0], y[0])
    for bad in (y[0].astype(float), y[1]):
        with pytest.raises(ValueError, match="y must hold a whole number for each row"):
            problem.accuracy(x, X[0], bad)
    with pytest.raises(ValueError, match="x must have shape"):
        problem.predict(x[1:], X[0])


@pytest.mark.parametrize("kind", ["complex", "words", "dates", "fields", "None", "NaN"])
def test_a_point_that_holds_no_numbers_predicts_nothing(kind: str) -> None:
    problem, X = labelled_problem()
    d = problem.dimension
    point: Any = {
        "complex": np.full(d, 1j),
        "words": np.full(d, "word"),
        "dates": np.full(d, "2024-01-01", dtype="M8[D]"),
        "fields": np.zeros(d, dtype=[("x", "f8")]),
        "None": np.full(d, None),
        "NaN": np.full(d, np.nan),
    }[kind]
    calls: list[Any] = [
        lambda: problem.predict(point, X),
        lambda: problem.accuracy(point),
        lambda: problem.objective(point),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"x must be numbers|x has nan"):
            call()


def test_accuracy_of_labels_that_are_no_list() -> None:
    problem, X = labelled_problem()
    with pytest.raises(ValueError, match="y must be a list of arrays"):
        problem.accuracy(np.zeros(problem.dimension), [X], np.array(None))


def labelled_problem() -> tuple[pdmm.SoftmaxRegression, Any]:
    problem = softmax(np.float64)
    return problem, problem.X[0]
