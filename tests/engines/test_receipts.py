"""Numbered uploads: a client that was not told keeps both outcomes, and never guesses."""

import numpy as np
import pytest

from pdmm.engines.memories import EveryMemory
from pdmm.engines.receipts import Receipts
from pdmm.methods.family import Memory

ALL = np.arange(3)


def memories() -> EveryMemory:
    return EveryMemory(Memory(np.zeros((3, 2))), 3)


def after_a_round(arrives: list[bool], told: list[bool]) -> tuple[Receipts, EveryMemory]:
    """Three clients whose memories would go from 0 to i + 1."""
    receipts = Receipts(3)
    store = memories()
    receipts.number(ALL, np.array(arrives))
    new = Memory(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    receipts.keep(ALL, np.array(told), store.read(ALL), new, store)
    return receipts, store


def test_uploads_are_numbered_and_what_arrives_is_applied() -> None:
    receipts = Receipts(3)
    receipts.number(ALL, np.array([True, False, True]))
    receipts.number(np.array([1, 2]), np.array([True, False]))
    np.testing.assert_array_equal(receipts.sent, [1, 2, 2])
    np.testing.assert_array_equal(receipts.applied, [1, 2, 1])


def test_who_was_told_commits_at_once_and_the_others_wait() -> None:
    receipts, store = after_a_round([True, True, False], [True, False, False])
    np.testing.assert_array_equal(store.rows.z[:, 0], [1.0, 0.0, 0.0])
    assert sorted(receipts.drafts) == [1, 2]
    np.testing.assert_array_equal(receipts.drafts[2].z, [[3.0, 3.0]])


def test_at_the_next_contact_an_applied_upload_is_taken_over_and_a_lost_one_is_not() -> None:
    receipts, store = after_a_round([True, True, False], [True, False, False])
    receipts.settle(ALL, store)
    np.testing.assert_array_equal(store.rows.z[:, 0], [1.0, 2.0, 0.0])
    assert receipts.drafts == {}


def test_only_who_hears_settles() -> None:
    receipts, store = after_a_round([True, True, True], [False, False, False])
    receipts.settle(np.array([2]), store)
    np.testing.assert_array_equal(store.rows.z[:, 0], [0.0, 0.0, 3.0])
    assert sorted(receipts.drafts) == [0, 1]


def test_a_draft_is_a_copy() -> None:
    receipts = Receipts(3)
    store = memories()
    new = Memory(np.ones((3, 2)))
    receipts.keep(ALL, np.zeros(3, dtype=bool), store.read(ALL), new, store)
    new.z[:] = 9.0
    assert receipts.drafts[1].z.base is None
    np.testing.assert_array_equal(receipts.drafts[1].z, [[1.0, 1.0]])


@pytest.mark.parametrize("first", [0, 20])
def test_what_is_in_a_checkpoint_goes_on_the_same(first: int) -> None:
    receipts, store = after_a_round([True, True, False], [True, False, False])
    tables = receipts.tables(first)
    np.testing.assert_array_equal(tables["receipts"].clients, first + ALL)
    np.testing.assert_array_equal(tables["drafts"].clients, [first + 1, first + 2])
    again = Receipts(3)
    again.load(tables, store.read(np.arange(0)), first)
    again.settle(ALL, store)
    np.testing.assert_array_equal(store.rows.z[:, 0], [1.0, 2.0, 0.0])
    np.testing.assert_array_equal(again.sent, [1, 1, 1])
    np.testing.assert_array_equal(again.applied, [1, 1, 0])


def test_a_checkpoint_in_which_nobody_waits() -> None:
    receipts, store = after_a_round([True] * 3, [True] * 3)
    tables = receipts.tables(0)
    assert len(tables["drafts"].clients) == 0
    again = Receipts(3)
    again.load(tables, store.read(np.arange(0)), 0)
    assert again.drafts == {}
