"""Operations on NamedTuples of arrays, each against the loop that it stands for."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from pdmm.common import trees

Floats = npt.NDArray[np.floating]


class Pair(NamedTuple):
    x: Floats
    z: Floats


class Empty(NamedTuple):
    pass


class Group(NamedTuple):
    good: bool
    size: float


class Nested(NamedTuple):
    x: Floats
    group: Group
    rounds: int


def pair(rows: int = 4, dtype: npt.DTypeLike = np.float64) -> Pair:
    rng = np.random.default_rng(rows)
    return Pair(rng.normal(size=(rows, 3)).astype(dtype), rng.normal(size=(rows, 2)).astype(dtype))


def test_each_keeps_the_type_and_the_names() -> None:
    result = trees.each(lambda field: 2 * field, pair())
    assert type(result) is Pair
    np.testing.assert_array_equal(result.z, 2 * pair().z)
    assert trees.each(lambda field: 1 / 0, Empty()) == Empty()


@pytest.mark.parametrize(
    "some", [slice(1, 3), np.array([2, 0]), np.array([True, False, False, True])]
)
def test_rows_are_those_of_the_clients(some: trees.Rows) -> None:
    fields = pair()
    taken = trees.rows(fields, some)
    np.testing.assert_array_equal(taken.x, fields.x[some])
    np.testing.assert_array_equal(taken.z, fields.z[some])
    assert np.shares_memory(taken.x, fields.x) == isinstance(some, slice)


def test_put_writes_in_place_and_only_there() -> None:
    fields = pair()
    before = trees.each(np.copy, fields)
    new = trees.each(lambda field: field + 1, trees.rows(fields, np.array([3, 1])))
    trees.put(fields, np.array([3, 1]), new)
    np.testing.assert_array_equal(fields.x[[0, 2]], before.x[[0, 2]])
    np.testing.assert_array_equal(fields.z[[1, 3]], before.z[[1, 3]] + 1)


def test_put_refuses_a_tuple_with_other_fields() -> None:
    with pytest.raises(ValueError, match="shorter"):
        trees.put(pair(), slice(0, 4), (np.zeros((4, 3)),))


def test_cast_copies_only_where_it_must() -> None:
    fields = pair(dtype=np.float32)
    assert trees.cast(fields, np.float32).x is fields.x
    assert trees.cast(fields, np.float64).x.dtype == np.float64


def test_weighted_sums_are_taken_in_float64() -> None:
    weights = np.array([0.5, 1.0, 2.0, 0.25])
    fields = pair(dtype=np.float32)
    sums = trees.weighted_sum(weights, fields)
    assert sums.x.dtype == sums.z.dtype == np.float64
    np.testing.assert_array_equal(sums.x, weights @ fields.x.astype(np.float64))
    mean = trees.scaled(sums, float(weights.sum()))
    np.testing.assert_allclose(mean.z, np.average(fields.z, axis=0, weights=weights), rtol=1e-6)


def test_parts_are_added_and_joined_in_their_order() -> None:
    first, second = pair(4), pair(4)
    np.testing.assert_array_equal(trees.added([first, second]).x, first.x + second.x)
    both = trees.joined([first, pair(2)])
    np.testing.assert_array_equal(both.z, np.vstack([first.z, pair(2).z]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_is_finite_if_it_is_so_in_every_field(bad: float) -> None:
    fields = pair()
    fields.x[1, 2] = bad
    fields.z[3, 0] = bad
    np.testing.assert_array_equal(trees.finite_rows(fields), [True, False, True, False])
    numbers = Pair(x=np.array([1.0, bad]), z=np.ones((2, 3, 2)))
    np.testing.assert_array_equal(trees.finite_rows(numbers), [True, False])


def test_nested_tuples_go_flat_and_come_back() -> None:
    state = Nested(np.arange(3.0), Group(True, 2.5), 7)
    leaves = trees.flat(state)
    assert leaves[1:] == [True, 2.5, 7]
    like = Nested(np.zeros(3), Group(False, 0.0), 0)
    back = trees.rebuilt(like, leaves)
    assert back.group == Group(True, 2.5)
    assert back.x is state.x
    assert type(back) is Nested
    assert trees.flat(Empty()) == []


@pytest.mark.parametrize("count", [3, 5])
def test_a_list_of_another_length_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"Nested has 4 fields in all, got {count}"):
        trees.rebuilt(Nested(np.zeros(3), Group(False, 0.0), 0), list(range(count)))
