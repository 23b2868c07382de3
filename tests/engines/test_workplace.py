"""The clients of a process at work: grouped into jobs, and committing what arrives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pdmm
from builders.bowls import bowls_in_blocks
from pdmm.engines.in_process import InProcess
from pdmm.engines.workplace import Workplace
from pdmm.links.links import Contact, Links, Plan
from pdmm.methods.family import Memory, Message
from pdmm.problems.block import Tally

# Steps of 1/2, and z_i' = z_i + 2 (x_i - x_s): from zeros, one step takes z_i to c_i.
HALF = pdmm.AGPDMM(step_size=1.0, local_steps=1, rho=1.0)
CENTRES = np.array([[2.0], [4.0], [8.0], [16.0], [32.0]])
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
PERFECT = Plan(contact=None, steps=None, bits=None)
ZERO = Message(np.zeros(1))
TRUE = np.ones(3, dtype=bool)


@contextmanager
def workplace(links: Links | None = None, method: pdmm.Method = HALF) -> Iterator[Workplace]:
    clients = InProcess(bowls_in_blocks(CENTRES))
    if links is not None:
        clients.behind(links)
    with clients.working(1):
        clients.prepare(method, np.zeros(1), WEIGHTS, 5)
        yield clients.here


def some() -> Links:
    """Links over which not everybody takes part."""
    return Links(5, participation=0.5)


def z_of(here: Workplace) -> list[float]:
    found: list[float] = here.memories.read(np.arange(5)).z[:, 0].tolist()
    return found


def test_jobs_are_of_one_block_and_of_equally_many_steps() -> None:
    with workplace() as here:
        jobs = here._grouped(np.array([0, 1, 3, 4]), np.array([2, 1, 2, 2]))
    found = [(np.asarray(job.clients).tolist(), job.steps, job.rows) for job in jobs]
    # Blocks are (0, 1), (2, 3) and (4): fewer steps come first in each of them.
    assert [entry[:2] for entry in found] == [([1], 1), ([0], 2), ([3], 2), ([4], 2)]
    assert [np.asarray(rows).tolist() for *_, rows in found] == [[1], [0], [2], [3]]


def test_clients_of_a_block_with_equally_many_steps_are_one_job() -> None:
    with workplace() as here:
        jobs = here._grouped(np.array([0, 1, 2, 3]), np.array([3, 3, 1, 1]))
        assert [np.asarray(job.clients).tolist() for job in jobs] == [[0, 1], [2, 3]]
        assert here._grouped(np.arange(0), np.arange(0)) == []


def test_everyone_is_whole_blocks() -> None:
    with workplace() as here:
        jobs = here._everyone(PERFECT)
        assert [(job.clients, job.steps) for job in jobs] == [
            (slice(0, 2), 1),
            (slice(2, 4), 1),
            (slice(4, 5), 1),
        ]


def test_a_perfect_round_by_hand() -> None:
    with workplace() as here:
        parts = here.round(HALF, ZERO, PERFECT, 1)
        assert [part.sums.dz[0] for part in parts] == [2 + 8, 24 + 64, 160]
        assert [part.weight for part in parts] == [3.0, 7.0, 5.0]
        assert sum(part.arrived for part in parts) == 5
        assert z_of(here) == CENTRES[:, 0].tolist()
        np.testing.assert_array_equal(here.cursor, [1] * 5)


def test_own_steps_by_hand() -> None:
    """FedAvg with steps of 1/2: after k of them, 1 - 2^-k of the way to the centre is done."""
    method = pdmm.FedAvg(step_size=0.5, local_steps=9)
    steps = np.array([1, 2, 1, 1, 3])
    start = method.broadcast(method.server_start(np.zeros(1), lambda v, t: v))
    with workplace(method=method) as here:
        parts = here.round(method, start, Plan(None, steps, None), 1)
        np.testing.assert_array_equal(here.cursor, steps)
    total = sum(part.sums.dx[0] for part in parts)
    assert total == float(WEIGHTS @ ((1 - 0.5**steps) * CENTRES[:, 0]))
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    assert tally.gradients == steps.sum()


def contact(heard: Any = TRUE, arrives: Any = TRUE, told: Any = TRUE) -> Contact:
    """Clients 0, 2 and 4 are sent the message."""
    return Contact(np.array([0, 2, 4]), np.array(heard), np.array(arrives), np.array(told))


def test_who_is_not_chosen_or_does_not_hear_does_nothing() -> None:
    with workplace(some()) as here:
        plan = Plan(contact(heard=[True, False, True]), None, None)
        parts = here.round(HALF, ZERO, plan, 1)
        assert sum(part.sums.dz[0] for part in parts) == 1 * 2 + 5 * 32
        assert z_of(here) == [2.0, 0.0, 0.0, 0.0, 32.0]
        np.testing.assert_array_equal(here.cursor, [1, 0, 0, 0, 1])
        np.testing.assert_array_equal(here.receipts.sent, [1, 0, 0, 0, 1])


def test_a_lost_upload_is_work_that_does_not_count() -> None:
    with workplace(some()) as here:
        plan = Plan(contact(arrives=[True, False, True]), None, None)
        parts = here.round(HALF, ZERO, plan, 1)
        assert [part.arrived for part in parts] == [1, 0, 1]
        assert sum(part.weight for part in parts) == 1 + 5
        assert sum(part.tally.gradients for part in parts) == 3
        # Nobody told client 2 that its upload was lost: it keeps both, and hears it next time.
        assert z_of(here) == [2.0, 0.0, 0.0, 0.0, 32.0]
        assert list(here.receipts.drafts) == [2]
        np.testing.assert_array_equal(here.broadcasts.heard_last, [1, 0, 0, 0, 1])


def test_a_lost_acknowledgement_is_settled_at_the_next_contact() -> None:
    with workplace(some()) as here:
        here.round(HALF, ZERO, Plan(contact(told=[True, False, True]), None, None), 1)
        assert z_of(here)[2] == 0.0
        deaf = contact(heard=[False, False, False])
        here.round(HALF, ZERO, Plan(deaf, None, None), 2)
        assert z_of(here)[2] == 0.0
        # It hears the third message, takes z = 8 over, and works from there: its anchor is -8, so
        # that x_i = -1/2 (0 - 8 + 0 + 8) = 0, and z_i stays where it is.
        here.round(HALF, ZERO, Plan(contact(), None, None), 3)
        assert z_of(here)[2] == 8.0
        assert here.receipts.drafts == {}


def test_own_steps_are_one_for_each_listener() -> None:
    with workplace(some()) as here:
        plan = Plan(contact(heard=[False, True, True]), np.array([3, 1]), None)
        parts = here.round(HALF, ZERO, plan, 1)
        np.testing.assert_array_equal(here.cursor, [0, 0, 3, 0, 1])
        assert sum(part.tally.gradients for part in parts) == 4


def test_a_lost_upload_that_is_not_finite_harms_nobody() -> None:
    """Not even as 0 times NaN."""
    with workplace(some()) as here:
        here.memories.write(np.array([2]), Memory(np.array([[np.nan]])))
        plan = Plan(contact(arrives=[True, False, True]), None, None)
        parts = here.round(HALF, ZERO, plan, 1)
        assert all(part.bad is None for part in parts)
        assert sum(part.sums.dz[0] for part in parts) == 1 * 2 + 5 * 32


def test_rounded_messages_are_heard_by_all() -> None:
    with workplace(Links(5, bits=8)) as here:
        here.round(HALF, ZERO, Plan(None, None, 8), 4)
        np.testing.assert_array_equal(here.broadcasts.heard_last, [4] * 5)
        assert here.memories.read(np.arange(5)).z.dtype == np.float64
