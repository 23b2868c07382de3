"""A round of ranks is one sum: what goes into it comes out of it, with failures too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.ranks import on_ranks
from pdmm.common.team import ElsewhereClientError, ElsewhereError, Team
from pdmm.engines.exchange import Evaluation, Outcome, Question, Sums
from pdmm.engines.in_process import InProcess
from pdmm.engines.ranks import Ranks, _Added, _Own
from pdmm.engines.traffic import Sent
from pdmm.links.links import Links
from pdmm.methods.family import Memory, Message, Upload
from pdmm.problems.block import Tally

HALF = pdmm.AGPDMM(step_size=1.0, local_steps=1, rho=1.0)
CENTRES = np.array([[2.0, 1.0], [4.0, -2.0], [8.0, 0.5], [16.0, 0.0], [32.0, 4.0]])
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
X = np.array([1.0, -1.0])
QUESTION = Question(1, HALF, Message(np.zeros(2)))
ASKS_F = Question(1, HALF, Message(X), evaluate=Evaluation(X))

SUMS = Sums(
    uploads=Upload(np.array([1.0, 2.0])),
    weight=3.0,
    arrived=2,
    tally=Tally(gradients=5, values=6, exact=7, error=0.25, missed=0.125),
    bad=None,
    apart=4.0,
    sent=Sent(1, 2, 3, 4, 5, 6),
    value=8.0,
    steepest=16.0,
)


def calls(mpi: pdmm.engines.MPI) -> dict[str, int]:
    communicator: Any = mpi.team.communicator
    return dict(communicator.calls)


# --- the pieces ---------------------------------------------------------------------------------


def test_numbers_that_are_added_up() -> None:
    added = _Added.of(SUMS)
    assert (added.weight, added.apart, added.arrived, added.value) == (3.0, 4.0, 2, 8.0)
    assert (added.gradients, added.values, added.exact) == (5, 6, 7)
    assert added.sent == SUMS.sent
    assert all(number == 0 for number in _Added.of(None))
    unknown = _Added.of(SUMS._replace(apart=None, value=None))
    assert (unknown.apart, unknown.value) == (0.0, 0.0)


@pytest.mark.parametrize(("bad", "code"), [(None, 0), (0, 1), (6, 7)])
def test_numbers_of_which_each_member_has_its_own(bad: int | None, code: int) -> None:
    own = _Own.of(SUMS._replace(bad=bad), None)
    assert [float(number) for number in own] == [0.0, 0.25, 0.125, code, 16.0]
    assert [float(number) for number in _Own.of(None, ValueError())] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_own_numbers_are_in_a_place_of_their_own() -> None:
    class Second(Team):
        rank = 1
        size = 3

    places = _Own.of(SUMS, None).in_its_place(Second()).reshape(3, 5)
    np.testing.assert_array_equal(places[[0, 2]], np.zeros((2, 5)))
    np.testing.assert_array_equal(places[1], [0.0, 0.25, 0.125, 0.0, 16.0])


# --- what each rank puts in, all get out --------------------------------------------------------


def prepared(mpi: pdmm.engines.MPI, method: pdmm.Method = HALF) -> Ranks:
    clients = Ranks(bowls(CENTRES[mpi.range(5)]), mpi.team)
    with clients.working(1):
        clients.prepare(method, np.zeros(2), WEIGHTS, 5)
    return clients


def exchanged(
    size: int, sums: Callable[[int], Sums], question: Question = QUESTION, times: int = 1
) -> list[Sums]:
    """What all ranks have, when each has its own."""

    def work(mpi: pdmm.engines.MPI) -> Sums:
        clients = prepared(mpi)
        before = calls(mpi)
        for _ in range(times):
            found = clients._of_all(lambda: sums(mpi.rank), question)
        after = calls(mpi)
        assert after["Allreduce"] - before["Allreduce"] == times
        assert after["allgather"] == before["allgather"]
        return found

    return on_ranks(size, work)


def test_what_goes_in_comes_out() -> None:
    def of(rank: int) -> Sums:
        return SUMS._replace(
            uploads=Upload(np.array([1.0, 2.0]) * 10**rank),
            tally=Tally(5, 6, 7, error=0.25 / (1 + rank), missed=0.125 * rank),
            steepest=[4.0, 64.0, 16.0][rank],
        )

    for found in exchanged(3, of, ASKS_F, times=2):
        np.testing.assert_array_equal(found.uploads.dz, [111.0, 222.0])
        assert isinstance(found.uploads, Upload)
        assert (found.weight, found.arrived, found.apart, found.value) == (9.0, 6, 12.0, 24.0)
        assert found.tally == Tally(15, 18, 21, error=0.25, missed=0.25)
        assert found.sent == Sent(3, 6, 9, 12, 15, 18)
        assert (found.bad, found.steepest) == (None, 64.0)


def test_f_that_was_not_asked_for_is_none() -> None:
    assert all(
        found.value is None for found in exchanged(2, lambda rank: SUMS._replace(value=None))
    )


@pytest.mark.parametrize(
    ("bads", "named"), [([None, 3, 4], 3), ([0, None, None], 0), ([None, None, None], None)]
)
def test_the_bad_client_of_the_lowest_rank_is_named(
    bads: list[int | None], named: int | None
) -> None:
    found = exchanged(3, lambda rank: SUMS._replace(bad=bads[rank]))
    assert [sums.bad for sums in found] == [named] * 3


def test_a_rank_none_of_whose_uploads_arrived() -> None:
    lost = SUMS._replace(uploads=None, weight=0.0, arrived=0, apart=None)
    for found in exchanged(2, lambda rank: lost if rank else SUMS):
        np.testing.assert_array_equal(found.uploads.dz, [1.0, 2.0])
        assert (found.weight, found.arrived, found.apart) == (3.0, 2, 4.0)
    for found in exchanged(2, lambda rank: lost):
        assert found.uploads is None
        assert found.arrived == 0


@pytest.mark.parametrize(
    ("error", "elsewhere"),
    [
        (RuntimeError("the disk is gone"), ElsewhereError),
        (pdmm.ClientError("gradient[0] (client 0) raised"), ElsewhereClientError),
        (SystemExit("the disk is gone"), ElsewhereError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_one_rank_that_fails_fails_all(error: BaseException, elsewhere: type[Exception]) -> None:
    def work(mpi: pdmm.engines.MPI) -> tuple[type[BaseException], str, int]:
        clients = prepared(mpi)
        before = calls(mpi)["Allreduce"]

        def own() -> Sums:
            if mpi.rank == 1:
                raise error
            return SUMS

        try:
            clients._of_all(own, QUESTION)
        except (Exception, SystemExit) as raised:
            return type(raised), str(raised), calls(mpi)["Allreduce"] - before
        raise AssertionError("no error")

    found = on_ranks(3, work)
    assert [kind for kind, *_ in found] == [elsewhere, type(error), elsewhere]
    assert found[0][1] == f"rank 1 of 3 failed: {type(error).__name__}: {error}"
    assert [count for *_, count in found] == [1, 1, 1]


# --- real rounds --------------------------------------------------------------------------------


def one_process(question: Question, links: Links) -> Outcome:
    clients = InProcess(bowls(CENTRES))
    clients.behind(links)
    with clients.working(1):
        clients.prepare(HALF, np.zeros(2), WEIGHTS, 5)
        return clients.round(question)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("participation", [1.0, [[1, 4]], [[2]]], ids=str)
def test_a_round_is_that_of_one_process(size: int, participation: Any) -> None:
    """All numbers here are sums of powers of two: whatever their order, they are exact."""
    expected = one_process(ASKS_F, Links(5, participation))

    def work(mpi: pdmm.engines.MPI) -> Outcome:
        clients = Ranks(bowls(CENTRES[mpi.range(5)]), mpi.team)
        clients.behind(Links(5, participation))
        with clients.working(1):
            clients.prepare(HALF, np.zeros(2), WEIGHTS, 5)
            before = calls(mpi)
            outcome = clients.round(ASKS_F)
            after = calls(mpi)
        assert after["Allreduce"] - before["Allreduce"] == (1 if size > 1 else 0)
        assert after["allgather"] == before["allgather"]
        return outcome

    for found in on_ranks(size, work):
        np.testing.assert_array_equal(found.mean.dz, expected.mean.dz)
        assert found._replace(mean=None) == expected._replace(mean=None)
    # F = sum_i w_i (1/2 ‖x‖² - c_i·x), from all clients, whoever takes part.
    assert expected.value == float(WEIGHTS @ (0.5 * X @ X - CENTRES @ X))


def test_clients_are_numbered_through() -> None:
    def work(mpi: pdmm.engines.MPI) -> tuple[int, int, slice]:
        clients = Ranks(bowls(CENTRES[mpi.range(5)]), mpi.team)
        return clients.clients, clients.first, clients.own

    found = on_ranks(3, work)
    assert found == [(5, 0, slice(0, 1)), (5, 1, slice(1, 3)), (5, 3, slice(3, 5))]


@pytest.mark.parametrize("participation", [1.0, [[0, 2, 4]]], ids=["all", "some"])
def test_the_bad_client_of_a_round_is_numbered_among_all(participation: Any) -> None:
    """Client 4 is the second of the last rank's."""

    def work(mpi: pdmm.engines.MPI) -> int | None:
        clients = Ranks(bowls(CENTRES[mpi.range(5)]), mpi.team)
        clients.behind(Links(5, participation))
        with clients.working(1):
            clients.prepare(HALF, np.zeros(2), WEIGHTS, 5)
            if mpi.rank == 2:
                clients.here.memories.write(np.array([1]), Memory(np.full((1, 2), np.inf)))
            return clients.round(QUESTION).bad_client

    assert on_ranks(3, work) == [4, 4, 4]
