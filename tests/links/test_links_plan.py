"""What links have in mind for a round: nothing, where nothing is between server and clients."""

from typing import Any

import numpy as np
import pytest

from pdmm.links.links import Contact, Links


def test_perfect_links_plan_nothing() -> None:
    links = Links(3)
    for r in (1, 2, 7):
        assert links.plan(r) == (None, None, None)
    assert links.perfect
    assert links.steady


@pytest.mark.parametrize("share", [1.0, 3, 0.9], ids=str)
def test_all_of_them_is_perfect_too(share: Any) -> None:
    """Nine tenths of three clients are three clients."""
    assert Links(3, participation=share).plan(1).contact is None


def test_steps_alone_need_no_contact() -> None:
    links = Links(3, local_steps=lambda r, i: 10 * r + i)
    plan = links.plan(2)
    assert plan.contact is None
    assert plan.bits is None
    np.testing.assert_array_equal(np.asarray(plan.steps), [20, 21, 22])
    assert links.perfect
    assert not links.steady


def test_bits_alone_need_no_contact() -> None:
    links = Links(3, bits=5)
    assert links.plan(1) == (None, None, 5)
    assert links.perfect
    assert not links.steady


def test_steps_are_those_of_the_clients_that_hear() -> None:
    links = Links(4, participation=[[1, 3], [0, 1, 2, 3]], local_steps=[5, 6, 7, 8])
    first, second = links.plan(1), links.plan(2)
    assert first.contact is not None
    np.testing.assert_array_equal(first.contact.chosen, [1, 3])
    np.testing.assert_array_equal(np.asarray(first.steps), [6, 8])
    assert second.contact is not None  # by name, so they may not all be there next time
    np.testing.assert_array_equal(np.asarray(second.steps), [5, 6, 7, 8])


def test_who_hears_nothing_takes_no_steps() -> None:
    links = Links(100, loss=0.5, local_steps=list(range(1, 101)))
    plan = links.plan(1)
    assert plan.contact is not None
    assert 20 < plan.contact.heard.sum() < 80
    np.testing.assert_array_equal(np.asarray(plan.steps), plan.contact.listeners + 1)


def test_the_same_seed_plans_the_same() -> None:
    def plans(seed: int) -> list[list[int]]:
        links = Links(20, participation=0.3, loss=0.2, seed=seed)
        contacts = [links.plan(r).contact for r in range(1, 6)]
        return [contact.listeners.tolist() for contact in contacts if contact is not None]

    assert plans(1) == plans(1)
    assert plans(1) != plans(2)


CONTACT = Contact(
    chosen=np.array([0, 2, 3, 6]),
    heard=np.array([True, False, True, True]),
    arrives=np.array([True, True, False, True]),
    told=np.array([False, True, True, False]),
)


def test_a_part_of_a_contact_is_counted_from_its_first_client() -> None:
    part = CONTACT.among(slice(2, 6))
    np.testing.assert_array_equal(part.chosen, [0, 1])
    np.testing.assert_array_equal(part.heard, [False, True])
    np.testing.assert_array_equal(part.arrives, [True, False])
    np.testing.assert_array_equal(part.told, [True, True])
    assert len(CONTACT.among(slice(4, 6)).chosen) == 0


def test_listeners_in_a_part() -> None:
    np.testing.assert_array_equal(CONTACT.listeners, [0, 3, 6])
    np.testing.assert_array_equal(CONTACT.listeners_in(slice(2, 6)), [False, True, False])
    parts = [CONTACT.listeners_in(own) for own in (slice(0, 2), slice(2, 6), slice(6, 9))]
    np.testing.assert_array_equal(sum(part.astype(int) for part in parts), [1, 1, 1])
