"""What belongs to single clients, split and joined by their numbers."""

import numpy as np

from pdmm.engines.client_tables import Table, joined


def table(*clients: int) -> Table:
    """Client i has the numbers i and 10 i."""
    numbers = np.array(clients, dtype=np.int64)
    return Table(numbers, [1.0 * numbers, np.column_stack([10 * numbers, 10 * numbers])])


def test_parts_are_joined_and_cut() -> None:
    parts = [{"memory": table(0, 1, 2)}, {"memory": table(3, 4)}, {"memory": table(5)}]
    found = joined(parts, slice(2, 5))["memory"]
    np.testing.assert_array_equal(found.clients, [2, 3, 4])
    np.testing.assert_array_equal(found.columns[0], [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(found.columns[1], [[20, 20], [30, 30], [40, 40]])


def test_clients_without_a_row_stay_without_one() -> None:
    parts = [{"drafts": table(1)}, {"drafts": table(7, 9)}]
    np.testing.assert_array_equal(joined(parts, slice(0, 9))["drafts"].clients, [1, 7])


def test_where_nobody_has_a_row_the_table_is_empty() -> None:
    nobody = Table(np.arange(0), [np.empty((0, 3))])
    found = joined([{"drafts": nobody}, {"drafts": nobody}], slice(0, 9))["drafts"]
    assert len(found.clients) == 0
    assert found.columns[0].shape == (0, 3)
    found = joined([{"drafts": table(1)}, {"drafts": table(7)}], slice(2, 5))["drafts"]
    assert found.columns[1].shape == (0, 2)


def test_tables_without_columns_are_joined_too() -> None:
    """FedAvg's clients remember nothing."""
    nothing = Table(np.arange(3), [])
    assert joined([{"memory": nothing}], slice(0, 3))["memory"].columns == []
