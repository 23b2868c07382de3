"""The L and mu of least squares, against dense eigenvalues."""

import copy
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.samples import (
    scaled_rows,
    spectra,
)
from pdmm.problems import eigenvalues
from pdmm.problems.base import Problem
from pdmm.problems.quadratic import Gram, Spectral

Array = npt.NDArray[Any]
EPS = float(np.finfo(np.float64).eps)


def compare(problem: pdmm.LeastSquares, A: list[Array], w: Array, rtol: float = 1e-10) -> None:
    """Everything against NumPy's dense eigenvalues."""
    L, mu = problem.smoothness(w), problem.strong_convexity(w)
    low, high = spectra(A)
    d = problem.dimension
    np.testing.assert_allclose(L.clients, high, rtol=rtol)
    np.testing.assert_allclose(mu.clients, low, rtol=rtol, atol=(1e-13 + rtol * 1e-4) * high.max())
    H = sum(v * a.T.astype(np.float64) @ a.astype(np.float64) for v, a in zip(w, A, strict=True))
    values = np.linalg.eigvalsh(H)
    # The ends are bounds: they leave room for the rounding of every product in H.
    products = sum(len(a) for a in A) + d
    room = 1e-12 + 8 * d * products * EPS
    assert L.overall == pytest.approx(values[-1], rel=room)
    assert mu.overall == pytest.approx(max(0, values[0]), abs=room * values[-1])
    assert L.overall >= values[-1]
    assert 0 <= mu.overall <= max(0, values[0])
    assert {L.kind, L.overall_kind, mu.kind, mu.overall_kind} == {"exact"}
    assert L.clients.shape == mu.clients.shape == (len(A),)
    assert L.clients.dtype == mu.clients.dtype == np.float64


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
    A, b = scaled_rows(samples, d, seed, dtype)
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
    A, b = scaled_rows(samples, d, dtype=dtype)
    compare(pdmm.LeastSquares(A, b), A, np.linspace(0.5, 2, len(A)))


def test_least_squares_beyond_dense_eigenvalues() -> None:
    d = eigenvalues.DENSE + 3
    A, b = scaled_rows([2 * d, d - 1], d)
    problem = pdmm.LeastSquares(A, b)
    low, high = spectra(A)
    np.testing.assert_allclose(problem.smoothness().clients, high, rtol=1e-12)
    np.testing.assert_allclose(problem.strong_convexity().clients, low, rtol=1e-9)
    assert problem.strong_convexity().clients[1] == 0


def test_dependent_columns_have_no_strong_convexity() -> None:
    A, b = scaled_rows([50, 60], 6)
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


def test_what_ran_before_does_not_change_a_bit() -> None:
    A, b = scaled_rows([40, 50], 12)
    fresh, used = pdmm.LeastSquares(A, b), pdmm.LeastSquares(A, b)
    pdmm.solve(used, pdmm.PDMM(3.0), rounds=2)
    assert Spectral in used._forms.held
    for make in (Problem.smoothness, Problem.strong_convexity):
        np.testing.assert_array_equal(make(fresh).clients, make(used).clients)
        assert make(fresh).overall == make(used).overall


def test_factorised_spectra_survive_copying() -> None:
    A, b = scaled_rows([40, 50], 12)
    problem = pdmm.LeastSquares(A, b).factorise()
    for twin in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        np.testing.assert_array_equal(twin.smoothness().clients, problem.smoothness().clients)
        assert not twin._forms.held or twin is problem or Gram not in twin._forms.held
