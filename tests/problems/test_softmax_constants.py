"""The L and mu of softmax regression, against true Hessians."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.samples import two_labelled

Array = npt.NDArray[Any]


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
    X, y = two_labelled(n, p, classes)
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
    X, y = two_labelled(40, 5, 2)
    problem = pdmm.SoftmaxRegression(X, y, 2, l2=0.2)
    L = problem.smoothness()
    for i in range(2):
        true = np.linalg.eigvalsh(hessian(problem.client(i).gradient, np.zeros(12)))[-1]
        assert true <= L.clients[i] <= 1.002 * true


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "p", "batch"), [(300, 140, None), (140, 300, None), (400, 200, 130), (10, 300, 4)]
)
def test_softmax_of_some_size_is_a_close_bound(
    n: int, p: int, batch: int | None, dtype: Any
) -> None:
    X, y = two_labelled(n, p, 3, dtype)
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
