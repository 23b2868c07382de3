"""What a site's table is like, counted by hand."""

import numpy as np
import pytest
from scipy import sparse

import pdmm
from pdmm.privacy.contents import contents_of

RNG = np.random.default_rng(0)


def problem(*columns: list[float], n: int = 60) -> pdmm.Problem:
    X = np.column_stack([RNG.standard_normal(n), *columns])
    return pdmm.GLM([X], [np.arange(n) % 2])


def test_rows_and_columns_without_the_intercept() -> None:
    found = contents_of(problem())
    assert (found.rows, found.columns, found.fewest) == (60, 1, 60)
    assert found.size == 60
    assert found.rarest_cell is None


def test_the_rarest_value_of_a_discrete_column() -> None:
    found = contents_of(problem([0.0] * 50 + [1.0] * 10, [0.0] * 30 + [1.0] * 27 + [2.0] * 3))
    assert (found.rarest_level, found.rarest_column) == (3, 2)


def test_the_rarest_combination_of_discrete_columns() -> None:
    a = [0.0] * 30 + [1.0] * 30
    b = [0.0] * 28 + [1.0] * 32  # two rows have a = 0 and b = 1
    assert contents_of(problem(a, b)).rarest_cell == 2


def test_a_column_that_is_nearly_always_0_is_rare_though_it_is_not_discrete() -> None:
    column = [0.0] * 48 + [float(k) for k in range(1, 13)]
    assert contents_of(problem(column)).rarest_level == 12


def test_a_column_of_many_values_is_not_discrete() -> None:
    found = contents_of(problem([float(k) for k in range(60)]))
    assert found.rarest_cell is None
    assert found.rarest_level is None


def test_the_worst_client_counts() -> None:
    X = [RNG.standard_normal((n, 2)) for n in (80, 51)]
    y = [np.arange(len(rows)) % 2 for rows in X]
    assert contents_of(pdmm.GLM(X, y)).fewest == 51


def test_a_mini_batch_counts_as_a_small_client() -> None:
    X, y = RNG.standard_normal((1, 80, 2)), np.arange(80)[None] % 2
    assert contents_of(pdmm.SoftmaxRegression(X, y, 2, batch_size=20)).fewest == 20


def test_rows_of_weight_0_are_none() -> None:
    X = RNG.standard_normal((60, 2))
    weight = np.repeat([1.0, 0.0], [40, 20])
    found = contents_of(pdmm.GLM([X], [np.arange(60) % 2], sample_weight=[weight]))
    assert found.fewest == 40


def test_sparse_tables() -> None:
    X = sparse.csr_array(np.column_stack([np.r_[np.zeros(57), 1, 1, 1], np.arange(60.0)]))
    assert contents_of(pdmm.GLM([X], [np.arange(60) % 2])).rarest_level == 3


def test_functions_have_the_rows_that_are_stated() -> None:
    own = pdmm.Functions([lambda x: 0.0], [lambda x: 0 * x], 2)
    assert contents_of(own).rows == 0
    found = contents_of(own, rows=70, columns=3)
    assert (found.rows, found.size, found.fewest) == (70, 210, 70)


@pytest.mark.parametrize("clients", [1, 3])
def test_least_squares_from_its_moments_still_knows_its_rows(clients: int) -> None:
    found = contents_of(pdmm.LeastSquares.random(clients, 90, 4))
    assert (found.rows, found.fewest) == (90 * clients, 90)
