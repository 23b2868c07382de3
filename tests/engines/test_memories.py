"""The store of the clients' memories: of all clients, or of those that have taken part."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from pdmm.engines.client_tables import Table
from pdmm.engines.memories import EveryMemory, LateMemory


class Two(NamedTuple):
    a: npt.NDArray[Any]
    b: npt.NDArray[Any]


class Empty(NamedTuple):
    pass


START = Two(np.array([[1.0, 2.0]]), np.array([[[3, 4, 5]]], dtype=np.float32))


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_are_like_arrays(on_disk: bool, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder" if on_disk else None
    rows = LateMemory(START, 50, folder)
    a = np.repeat(START.a, 50, axis=0)
    b = np.repeat(START.b, 50, axis=0)
    rng = np.random.default_rng(0)
    written: set[int] = set()
    for k in range(30):
        clients = np.sort(rng.choice(50, rng.integers(0, 7), replace=False))
        found = rows.read(clients)
        np.testing.assert_array_equal(found.a, a[clients])
        np.testing.assert_array_equal(found.b, b[clients])
        assert (found.a.dtype, found.b.dtype) == (np.float64, np.float32)
        found.a[:] += k  # a copy: nobody else's memory changes
        found.b[:] -= k
        np.testing.assert_array_equal(rows.read(clients).a, a[clients])
        rows.write(clients, Two(found.a, found.b))
        a[clients] += k
        b[clients] -= k
        written |= set(clients.tolist())
        assert rows.used == len(written)
        assert rows.used <= len(rows.arrays[0]) <= 50
    everything = rows.read(np.arange(50))
    np.testing.assert_array_equal(everything.a, a)
    np.testing.assert_array_equal(everything.b, b)
    np.testing.assert_array_equal(START.a, [[1.0, 2.0]])
    table = rows.table(7)
    assert {client - 7 for client in table.clients.tolist()} == written
    again = LateMemory(START, 50, folder)
    again.load(table, 7)
    np.testing.assert_array_equal(again.read(np.arange(50)).b, b)
    assert again.used == rows.used
    if folder is not None:
        assert folder.is_dir()
        assert list(folder.iterdir()) == []  # files without a name
    for file in [*rows.files, *again.files]:
        file.close()


def test_rows_of_nothing() -> None:
    rows = LateMemory(Empty(), 10)
    assert rows.read(np.array([1, 2])) == Empty()
    rows.write(np.array([1, 2]), Empty())
    table = rows.table(0)
    assert isinstance(table, Table)
    rows.load(table, 0)
    assert rows.read(np.arange(10)) == Empty()


def test_space_doubles_until_all_have_a_row() -> None:
    """One client after the other: room for 1, 2, 4, 4 and then 5 of 5 clients."""
    rows = LateMemory(START, 5)
    room = []
    for i in (4, 0, 3, 1, 2):
        rows.write(np.array([i]), Two(np.full((1, 2), i), np.full((1, 1, 3), -i)))
        room.append(len(rows.arrays[0]))
    assert room == [1, 2, 4, 4, 5]
    np.testing.assert_array_equal(rows.place, [1, 3, 4, 2, 0])
    np.testing.assert_array_equal(rows.read(np.arange(5)).a[:, 0], np.arange(5))
    np.testing.assert_array_equal(rows.read(np.array([3, 1])).b[:, 0, 2], [-3, -1])


def test_those_that_never_wrote_share_the_first_memory() -> None:
    rows = LateMemory(START, 1000)
    rows.write(np.array([999]), Two(np.zeros((1, 2)), np.zeros((1, 1, 3))))
    np.testing.assert_array_equal(rows.read(np.array([5, 999])).a, [[1.0, 2.0], [0.0, 0.0]])
    assert rows.arrays[0].shape == (1, 2)
    np.testing.assert_array_equal(rows.table(10).clients, [1009])


# --- memories of clients that all take part ---------------------------------------------------


def every() -> EveryMemory:
    return EveryMemory(Two(np.arange(8.0).reshape(4, 2), np.arange(4.0)[:, None]), 4)


def test_a_slice_is_read_without_a_copy() -> None:
    memory = every()
    found = memory.read(slice(1, 3))
    np.testing.assert_array_equal(found.a, [[2.0, 3.0], [4.0, 5.0]])
    assert np.shares_memory(found.a, memory.rows.a)
    assert not np.shares_memory(memory.read(np.array([1, 2])).a, memory.rows.a)


@pytest.mark.parametrize("clients", [slice(1, 3), np.array([1, 2])], ids=["slice", "numbers"])
def test_what_is_written_is_read(clients: Any) -> None:
    memory = every()
    memory.write(clients, Two(np.array([[9.0, 9.0], [7.0, 7.0]]), np.array([[5.0], [6.0]])))
    np.testing.assert_array_equal(memory.read(slice(0, 4)).a, [[0, 1], [9, 9], [7, 7], [6, 7]])
    np.testing.assert_array_equal(memory.read(slice(0, 4)).b[:, 0], [0, 5, 6, 3])


def test_every_client_is_in_the_table() -> None:
    memory = every()
    table = memory.table(100)
    np.testing.assert_array_equal(table.clients, [100, 101, 102, 103])
    again = EveryMemory(Two(np.zeros((4, 2)), np.zeros((4, 1))), 4)
    again.load(table, 100)
    assert isinstance(again.read(slice(0, 4)), Two)
    np.testing.assert_array_equal(again.read(slice(0, 4)).a, memory.rows.a)
    np.testing.assert_array_equal(again.read(np.array([3])).b, [[3.0]])


@pytest.mark.parametrize("late", [True, False])
def test_both_kinds_say_the_same_of_clients_that_all_wrote(late: bool) -> None:
    rows = Two(np.repeat(START.a, 3, axis=0), np.repeat(START.b, 3, axis=0))
    memory = LateMemory(START, 3) if late else EveryMemory(rows, 3)
    memory.write(np.array([2, 0, 1]), Two(np.arange(6.0).reshape(3, 2), np.zeros((3, 1, 3))))
    table = memory.table(0)
    np.testing.assert_array_equal(table.clients, [0, 1, 2])
    np.testing.assert_array_equal(table.columns[0], [[2, 3], [4, 5], [0, 1]])
