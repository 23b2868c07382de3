"""Data that are changed after a problem was made: a run says so, and no old answer comes back."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse

import pdmm
from builders.samples import labelled, rows_of
from pdmm.engines.sites.site import Site

Array = npt.NDArray[Any]
Made = tuple[pdmm.Problem, Array, str]


def whole() -> Made:
    A, b = rows_of([9, 4, 30])
    return pdmm.LeastSquares(A, b), A[1], r"A\[1\] \(client 1\)"


def targets() -> Made:
    A, b = rows_of([9, 4, 30])
    return pdmm.LeastSquares(A, b), b[2], r"b\[2\] \(client 2\)"


def stacked() -> Made:
    A, b = (np.array(part) for part in rows_of([9] * 3))
    return pdmm.LeastSquares(A, b), A[2], "A was changed"


def views() -> Made:
    """Every other row of larger arrays, and the columns backwards."""
    A, b = rows_of([40, 40], 8)
    problem = pdmm.LeastSquares([a[::2, ::-1] for a in A], [part[::2] for part in b])
    return problem, A[1][4:], r"A\[1\] \(client 1\)"


def columns_first() -> Made:
    A, b = rows_of([9, 9, 9])
    turned = [np.asfortranarray(a) for a in A]
    return pdmm.LeastSquares(turned, b), turned[1], r"A\[1\] \(client 1\)"


def sparse_data() -> Made:
    A, b = rows_of([9, 4, 30])
    rows = [sparse.csr_array(a) for a in A]
    return pdmm.LeastSquares(rows, b), rows[0].data, r"A\[0\] \(client 0\)"


def softmax() -> Made:
    X, y = labelled([9, 7, 8])
    return pdmm.SoftmaxRegression(X, y, 4), X[2], r"X\[2\] \(client 2\)"


def matrices() -> Made:
    H = np.stack([np.eye(3), 2 * np.eye(3)])
    return pdmm.Quadratic(H, np.ones((2, 3))), H[1], "H was changed"


def diagonals() -> Made:
    h = np.ones((2, 3))
    return pdmm.Quadratic(h, np.ones((2, 3))), h, "H was changed"


def linear_terms() -> Made:
    c = np.ones((2, 3))
    return pdmm.Quadratic(1.0, c), c, "c was changed"


def absolute() -> Made:
    a = np.arange(6.0).reshape(3, 2)
    return pdmm.Absolute(a), a, "a was changed"


CASES: list[Callable[[], Made]] = [
    *(whole, targets, stacked, views, columns_first, sparse_data, softmax),
    *(matrices, diagonals, linear_terms, absolute),
]


@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("used", [False, True])
def test_a_run_on_changed_data_is_refused(make: Callable[[], Made], used: bool) -> None:
    problem, array, name = make()
    method = pdmm.PDMM(1.0, 0.9)
    if used:
        pdmm.solve(problem, method, 3)
    array[...] += 1e-9
    calls: list[Callable[[], Any]] = [
        lambda: pdmm.solve(problem, method, 3),
        lambda: pdmm.solve(problem),
        lambda: problem.objective(np.zeros(problem.dimension)),
        lambda: pdmm.certify(problem, np.zeros(problem.dimension)),
        problem.smoothness,
        problem.strong_convexity,
        lambda: pdmm.solve_network(
            pdmm.Network(nx.path_graph(problem.clients), problem), iterations=2, rho=1.0
        ),
        lambda: Site(lambda: problem).answer("check", {"x0": np.zeros(3), "exact": True}),
        lambda: pickle.dumps(problem),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{name}.*make a new problem"):
            call()


@pytest.mark.parametrize("make", CASES)
def test_data_that_come_back_are_as_they_were(make: Callable[[], Made]) -> None:
    problem, array, _ = make()
    before = pdmm.solve(problem, pdmm.PDMM(1.0, 0.9), 3).x
    kept = array.copy()
    array[...] = 7.0
    array[...] = kept
    np.testing.assert_array_equal(pdmm.solve(problem, pdmm.PDMM(1.0, 0.9), 3).x, before)


@pytest.mark.parametrize("make", CASES)
def test_copies_have_data_of_their_own(make: Callable[[], Made]) -> None:
    problem, array, _ = make()
    before = pdmm.solve(problem, pdmm.PDMM(1.0, 0.9), 3).x
    twins = [copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))]
    array[...] = 7.0
    for twin in twins:
        np.testing.assert_allclose(pdmm.solve(twin, pdmm.PDMM(1.0, 0.9), 3).x, before, atol=1e-12)


def test_the_certificate_of_the_old_data_does_not_come_back() -> None:
    A, b = rows_of([20] * 3)
    problem = pdmm.LeastSquares(A, b)
    assert pdmm.solve(problem).certificate is not None
    A[0] *= 100
    with pytest.raises(ValueError, match=r"A\[0\] \(client 0\) was changed"):
        pdmm.solve(problem)
    fresh = pdmm.solve(pdmm.LeastSquares(A, b))
    x, *_ = np.linalg.lstsq(np.concatenate(A), np.concatenate(b))
    np.testing.assert_allclose(fresh.x, x, rtol=1e-5)


def test_rows_that_change_places_are_noticed() -> None:
    A, b = rows_of([20] * 3)
    problem = pdmm.LeastSquares(A, b)
    A[1][[3, 4]] = A[1][[4, 3]]
    with pytest.raises(ValueError, match=r"A\[1\] \(client 1\) was changed"):
        pdmm.solve(problem)


def test_clients_that_a_lazy_problem_keeps() -> None:
    A, b = rows_of([9] * 5)
    problem = pdmm.Lazy(5, lambda i: pdmm.LeastSquares(A[i : i + 1], b[i : i + 1]))
    method = pdmm.AGPDMM(1e-3, 2, rho=1.0)
    pdmm.solve(problem, method, 3, participation=[[0, 3]])
    A[4] += 1  # nobody has seen it yet
    pdmm.solve(problem, method, 3, participation=[[0, 3]])
    A[3] += 1
    with pytest.raises(ValueError, match=r"make_client\(3\): A\[0\] \(client 0\) was changed"):
        pdmm.solve(problem, method, 3, participation=[[0, 3]])


def test_what_was_copied_may_be_changed() -> None:
    X, y = labelled([9, 7, 8])
    labels = [part.copy() for part in y]
    problem = pdmm.SoftmaxRegression(X, labels, 4)
    weights, x0 = np.ones(3), np.zeros(16)
    box = pdmm.Box(bound := np.full(16, -1.0), 1.0)
    first = pdmm.solve(problem, pdmm.AGPDMM(0.1, 2), 3, weights=weights, x0=x0, regulariser=box)
    for array in (*labels, weights, x0, bound):
        array[...] = 0
    again = pdmm.solve(problem, pdmm.AGPDMM(0.1, 2), 3, x0=np.zeros(16), regulariser=box)
    np.testing.assert_array_equal(again.x, first.x)


def test_tables_are_noticed_or_copied() -> None:
    A, b = rows_of([9, 9])
    tables = [pd.DataFrame(a, columns=list("uvwxyz")) for a in A]
    problem = pdmm.LeastSquares(tables, b)
    before = pdmm.solve(problem).x
    for table in tables:
        table.loc[0, "v"] = 1e3
    try:
        after = pdmm.solve(problem).x
    except ValueError as error:
        assert "was changed after the problem was made" in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(after, before)
