"""The history's rows: opened when a round is done, closed when F is known."""

import math
from typing import Any

import numpy as np
import pytest

from pdmm.engines.traffic import Sent
from pdmm.problems.block import Tally
from pdmm.result import Certificate, Traffic
from pdmm.run.recorder import Recorder
from pdmm.run.state import Accounts

TRAFFIC = Traffic(down=1, up=1, paper_down=2, paper_up=3, bytes_per_vector=10)


def accounts(**other: Any) -> Accounts:
    return Accounts(
        tally=Tally(gradients=8, values=4, exact=2),
        sent=Sent(contacts=5, uploads=4, vectors_down=5, vectors_up=4, bytes_down=55, bytes_up=44),
        **other,
    )


def recorder(objective: bool = True, gap: bool = True) -> Recorder:
    return Recorder(TRAFFIC, clients=4, objective=objective, gap=gap)


def row(record: Recorder) -> dict[str, Any]:
    return {name: column[-1] for name, column in record.columns.items()}


def test_a_row_by_hand() -> None:
    """Calls are per client, of four; two certificates are two vectors up from each of them."""
    record = recorder()
    record.open(3, accounts(checks=2), {"rho": 0.5})
    found = row(record)
    assert found.pop("seconds") >= 0
    assert math.isnan(found.pop("objective"))
    assert math.isnan(found.pop("gap"))
    assert found == {
        "round": 3,
        "bytes_up": 44 + 2 * 4 * 10,
        "bytes_down": 55,
        "vectors_up": 4 + 2 * 4,
        "vectors_down": 5,
        "paper_bytes_up": 4 * 3 * 10,
        "paper_bytes_down": 5 * 2 * 10,
        "paper_vectors_up": 12,
        "paper_vectors_down": 10,
        "gradient_calls": 2.0,
        "value_calls": 1.0,
        "exact_calls": 0.5,
        "rho": 0.5,
    }


def test_f_is_nan_until_the_row_is_closed() -> None:
    record = recorder()
    assert not record.waiting
    record.open(0, accounts(), {})
    assert record.waiting
    assert np.isnan(record.history()["objective"]).tolist() == [True]
    record.close(7.0, 2.0)
    assert not record.waiting
    record.open(5, accounts(), {})
    record.close(6.0, 1.0)
    record.open(10, accounts(), {})
    history = record.history()
    np.testing.assert_array_equal(history["objective"], [7.0, 6.0, np.nan])
    np.testing.assert_array_equal(history["gap"], [2.0, 1.0, np.nan])
    np.testing.assert_array_equal(history["round"], [0, 5, 10])
    assert record.last_round == 10


@pytest.mark.parametrize("objective", [True, False])
@pytest.mark.parametrize("gap", [True, False])
def test_what_is_not_known_has_no_column(objective: bool, gap: bool) -> None:
    record = recorder(objective, gap)
    record.open(0, accounts(), {})
    record.close(7.0, 2.0 if gap else None)
    assert ("objective" in record.columns) is objective
    assert ("gap" in record.columns) is gap
    assert list(record.columns)[: 1 + objective + gap] == [
        "round",
        *["objective"] * objective,
        *["gap"] * gap,
    ]


def test_the_error_of_exact_steps_is_that_since_the_last_row() -> None:
    record = recorder()
    spent = accounts(exact_error=0.0)
    record.open(0, spent, {})
    spent.add(Tally(error=0.25), Sent())
    spent.add(Tally(error=0.125), Sent())
    record.open(2, spent, {})
    spent.add(Tally(error=0.0625), Sent())
    record.open(3, spent, {})
    assert record.columns["exact_error"] == [0.0, 0.25, 0.0625]
    record = recorder()
    record.open(0, accounts(), {})
    assert "exact_error" not in record.columns


def test_accounts_by_hand() -> None:
    spent = accounts(exact_error=0.5)
    spent.add(Tally(1, 2, 3, error=0.25, missed=0.25), Sent(1, 1, 1, 1, 1, 1))
    assert (spent.tally.gradients, spent.tally.values, spent.tally.exact) == (9, 6, 5)
    assert spent.sent == Sent(6, 5, 6, 5, 56, 45)
    assert spent.exact_error == 0.5
    spent.checked(Certificate(None, None, 1.0, None, None, 0.0, "unknown", 1, 8, calls=4))
    assert (spent.checks, spent.tally.gradients) == (1, 13)


def test_the_history_is_a_copy() -> None:
    record = recorder()
    record.open(0, accounts(), {})
    history = record.history()
    record.close(1.0, 0.5)
    assert np.isnan(history["objective"][0])
