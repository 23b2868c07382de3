"""The server's messages: rounded changes, and the price of what a client has missed."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.engines.broadcasts import Broadcasts
from pdmm.links.quantise import rounded
from pdmm.methods.family import Message

METHOD = pdmm.AGPDMM(step_size=1.0, local_steps=1, rho=1.0)


def broadcasts(dtype: Any = np.float64, rounds: int = 9, d: int = 3) -> Broadcasts:
    return Broadcasts(METHOD, np.zeros(d), np.dtype(dtype), clients=2, rounds=rounds)


def test_a_vector_takes_what_its_numbers_take() -> None:
    """Three numbers of 4 bits are 12 bits, which are 2 bytes, and 4 bytes for the scale."""
    full = broadcasts()
    assert (full.vector_bytes(None), full.vector_bytes(4), full.vector_bytes(8)) == (24, 6, 7)
    assert broadcasts(np.float32).vector_bytes(None) == 12


def test_in_full_precision_a_message_is_cast_and_no_more() -> None:
    sender = broadcasts(np.float32)
    sent = sender.send(Message(np.array([1 / 3, 2.0, 0.0])), 1, None)
    assert sent.x.dtype == np.float32
    assert sent.x[0] == np.float32(1 / 3)
    assert sender.bytes_down(np.array([0, 1]), 1, None) == 2 * 12


def test_rounded_messages_are_changes_of_what_clients_hold() -> None:
    sender = broadcasts()
    held = np.zeros(3)
    for r, x in enumerate(np.random.default_rng(0).standard_normal((5, 3)), start=1):
        held = held + rounded((x - held)[None], 4)[0]
        np.testing.assert_array_equal(sender.send(Message(x), r, 4).x, held)
    same = np.array([1.0, -2.0, 0.5])
    for r in range(6, 30):  # the same point again and again: rounding errors die out
        sent = sender.send(Message(same), r, 4)
    np.testing.assert_allclose(sent.x, same, atol=1e-15)


def test_missed_changes_or_the_whole_vector_whichever_is_smaller() -> None:
    """A change takes 6 bytes and the vector 24: from five missed changes on, the vector goes."""
    sender = broadcasts()
    costs = []
    for r in range(1, 7):
        sender.send(Message(np.full(3, 1.0 * r)), r, 4)
        costs.append([sender.bytes_down(np.array([i]), r, 4) for i in (0, 1)])
        sender.heard(np.array([0, 1]), np.array([True, False]), r)  # client 1 never hears
    assert costs == [[6, 6], [6, 12], [6, 18], [6, 24], [6, 24], [6, 24]]
    assert sender.bytes_down(np.array([0, 1]), 6, 4) == 0 + 24  # client 0 has it already


def test_what_was_missed_keeps_the_bits_that_it_had() -> None:
    """Two changes of 4 bits and one of 8 take 6 + 6 + 7 bytes."""
    sender = broadcasts()
    for r, bits in enumerate((4, 4, 8), start=1):
        sender.send(Message(np.ones(3)), r, bits)
    assert sender.bytes_down(np.array([1]), 3, 8) == 19


def test_more_rounds_than_were_planned() -> None:
    sender = broadcasts(rounds=2, d=30)
    for r in range(1, 8):
        sender.send(Message(np.ones(30)), r, 2)  # 60 bits are 8 bytes, and 4
    assert sender.bytes_down(np.array([0]), 7, 2) == 7 * 12


@pytest.mark.parametrize("first", [0, 5])
def test_a_checkpoint_keeps_what_clients_hold(first: int) -> None:
    sender = broadcasts()
    sender.send(Message(np.array([1.0, 2.0, 3.0])), 1, 4)
    sender.heard(np.array([1]), np.array([True]), 1)
    table = sender.table(first)
    np.testing.assert_array_equal(table.clients, [first, first + 1])
    again = broadcasts()
    again.load(sender.state())
    again.load_table(table)
    message = Message(np.array([-1.0, 0.3, 3.0]))
    np.testing.assert_array_equal(again.send(message, 2, 4).x, sender.send(message, 2, 4).x)
    assert [again.bytes_down(np.array([i]), 2, 4) for i in (0, 1)] == [12, 6]
