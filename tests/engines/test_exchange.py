"""What blocks of clients did, added up, and what the server makes of it."""

import numpy as np
import pytest

from pdmm.engines.client_round import Part
from pdmm.engines.exchange import add
from pdmm.engines.traffic import Sent
from pdmm.methods.fedavg import Upload
from pdmm.problems.block import Tally

SENT = Sent(contacts=4, uploads=3, vectors_down=4, vectors_up=3, bytes_down=64, bytes_up=48)


def part(
    dx: float,
    weight: float,
    arrived: int = 1,
    bad: int | None = None,
    apart: float | None = 0.0,
    tally: Tally | None = None,
) -> Part:
    return Part(Upload(np.array([dx])), weight, arrived, tally or Tally(), bad, apart)


def test_parts_add_up_by_hand() -> None:
    parts = [
        part(6.0, 2.0, arrived=1, apart=3.0, tally=Tally(1, 2, 3, error=0.5, missed=0.1)),
        part(-1.0, 3.0, arrived=2, apart=4.0, tally=Tally(10, 20, 30, error=0.2, missed=0.4)),
    ]
    sums = add(parts, SENT, value=1.5, steepest=8.0)
    np.testing.assert_array_equal(sums.uploads.dx, [5.0])
    assert (sums.weight, sums.arrived, sums.bad, sums.apart) == (5.0, 3, None, 7.0)
    assert sums.tally == Tally(11, 22, 33, error=0.5, missed=0.4)
    assert (sums.sent, sums.value, sums.steepest) == (SENT, 1.5, 8.0)
    np.testing.assert_array_equal(parts[0].sums.dx, [6.0])  # the parts stay as they are


def test_lost_work_counts_as_work_alone() -> None:
    lost = part(0.0, 0.0, arrived=0, tally=Tally(gradients=5))
    sums = add([lost, part(4.0, 2.0, apart=9.0, tally=Tally(gradients=1))], SENT)
    np.testing.assert_array_equal(sums.uploads.dx, [4.0])
    assert (sums.weight, sums.arrived, sums.apart) == (2.0, 1, 9.0)
    assert sums.tally.gradients == 6


def test_a_disagreement_must_be_known_of_all() -> None:
    assert add([part(1.0, 1.0, apart=2.0), part(1.0, 1.0, apart=None)], SENT).apart is None


def test_the_first_bad_client_in_the_order_of_blocks_is_named() -> None:
    sums = add([part(1.0, 1.0), part(np.nan, 1.0, bad=7), part(np.nan, 1.0, bad=3)], SENT)
    assert sums.bad == 7
    assert sums.outcome(3.0, 3.0).bad_client == 7


def test_the_server_learns_means() -> None:
    sums = add([part(6.0, 2.0, apart=8.0), part(2.0, 2.0, apart=4.0)], SENT, value=2.5)
    outcome = sums.outcome(4.0, 16.0)
    np.testing.assert_array_equal(outcome.mean.dx, [2.0])
    assert (outcome.share, outcome.disagreement, outcome.arrived) == (0.25, 3.0, 2)
    assert (outcome.sent, outcome.value, outcome.bad_client) == (SENT, 2.5, None)


@pytest.mark.parametrize("parts", [[], [part(0.0, 0.0, arrived=0)]], ids=["nobody", "all lost"])
def test_where_nothing_arrives_there_is_no_mean(parts: list[Part]) -> None:
    sums = add(parts, SENT)
    assert sums.uploads is None
    outcome = sums.outcome(0.0, 10.0)
    assert (outcome.mean, outcome.share, outcome.disagreement) == (None, 0.0, None)
    assert outcome.sent == SENT  # it was sent all the same
