"""Bytes behind unreliable links, counted by hand."""

import numpy as np
import pytest

import pdmm
from builders.unreliable import case, contacts, make, trace, variant
from pdmm.links.quantise import packed_bytes

COUNTS: dict[str, tuple[int, int, int, int, int, int]] = {
    # vectors down, up, memory down, draft up (state="server"), the paper's down, up
    "AGPDMM": (1, 1, 1, 0, 2, 1),
    "GPDMM": (1, 1, 2, 1, 1, 1),
    "PDMM": (1, 1, 1, 0, 1, 1),
    "SCAFFOLD": (2, 1, 1, 0, 2, 2),
    "SCAFFOLD both": (2, 2, 1, 0, 2, 2),
    "FedAvg": (1, 1, 0, 0, 1, 1),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("state", ["clients", "server"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bytes_of_full_vectors(name: str, state: str, dtype: type) -> None:
    c = make(7, 5, 12, 0, dtype)
    method, _ = variant(name, c)
    rounds, vector = 15, 5 * np.dtype(dtype).itemsize
    result, _ = trace(
        c.problem, method, rounds, participation=0.5, loss=0.4, seed=9, state=state, record_every=1
    )
    down, up, memory, draft, paper_down, paper_up = COUNTS[name]
    if state == "clients":
        memory = draft = 0
    sent = uploads = 0
    history = result.history
    assert history["bytes_down"][0] == history["bytes_up"][0] == 0
    for r, contact in enumerate(contacts(c.m, rounds, 0.5, 0.4, 9), start=1):
        sent += len(contact.chosen)  # also those that do not hear it
        uploads += int(contact.heard.sum())  # also those that do not arrive
        assert history["vectors_down"][r] == sent * (down + memory)
        assert history["vectors_up"][r] == uploads * (up + draft)
        assert history["bytes_down"][r] == sent * ((down + memory) * vector + 8)
        assert history["bytes_up"][r] == uploads * ((up + draft) * vector + 8)
        assert history["paper_vectors_down"][r] == sent * paper_down
        assert history["paper_vectors_up"][r] == uploads * paper_up
        assert history["paper_bytes_down"][r] == sent * paper_down * vector
        assert history["paper_bytes_up"][r] == uploads * paper_up * vector
    assert 0 < uploads < sent


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_bytes_of_rounded_vectors_with_catching_up(bits: int) -> None:
    c = make(10, 9, 5, 0)
    rounds, vector, full = 40, -(-9 * bits // 8) + 4, 72
    result, _ = trace(
        c.problem,
        pdmm.AGPDMM(1 / c.L, 3, c.rho),
        rounds,
        participation=0.3,
        bits=bits,
        seed=2,
        record_every=1,
    )
    assert not any("bits" in why for why in result.choices)
    last: dict[int, int] = {}
    down = up = 0
    ways = set()
    for r, contact in enumerate(contacts(10, rounds, 0.3, 0.0, 2), start=1):
        for i in contact.chosen.tolist():
            missed = (r - last.get(i, 0)) * vector  # before its first round, it knows x0
            ways.add("differences" if missed < full else "full")
            down += min(missed, full) + 8
            up += vector + 8
            last[i] = r
        assert result.history["bytes_down"][r] == down
        assert result.history["bytes_up"][r] == up
        assert result.history["bits"][r] == bits
    assert ways == {"differences", "full"}


def test_bytes_of_catching_up_where_messages_get_lost() -> None:
    """No less than what clients missed; no more than what the server cannot know they have."""
    c, bits, rounds = make(10, 9, 5, 0), 4, 60
    result, _ = trace(
        c.problem, pdmm.AGPDMM(1 / c.L, 3, c.rho), rounds, participation=0.6, loss=0.3, bits=bits
    )
    vector, full, least, most = packed_bytes(9, bits), 72, 0, 0
    heard: dict[int, int] = {}
    known: dict[int, int] = {}
    for r, contact in enumerate(contacts(10, rounds, 0.6, 0.3, 0), start=1):
        for k, i in enumerate(contact.chosen.tolist()):
            least += min((r - heard.get(i, 0)) * vector, full) + 8
            most += min((r - known.get(i, 0)) * vector, full) + 8
            if contact.heard[k]:
                heard[i] = r
                if contact.arrives[k]:
                    known[i] = r
    assert least < most
    assert least <= result.history["bytes_down"][-1] <= most


def test_state_at_the_server_with_few_bits_ships_whole_memories() -> None:
    c, bits, rounds = make(6, 9, 5, 0), 4, 10
    result, _ = trace(
        c.problem, pdmm.GPDMM(1 / c.L, 3, c.rho), rounds, bits=bits, state="server", record_every=1
    )
    vector = packed_bytes(9, bits)
    # Everyone hears every message: all are differences, the first from x0, and need no number.
    down = [0] + [6 * (vector + 2 * 72)] * rounds
    up = [0] + [6 * (vector + 72)] * rounds
    assert result.history["bytes_down"].tolist() == np.cumsum(down).tolist()
    assert result.history["bytes_up"].tolist() == np.cumsum(up).tolist()


def test_memories_that_adapt_are_counted_too_where_the_server_keeps_them() -> None:
    c = case()
    here, _ = trace(c.problem, pdmm.PDMM("auto"), 10)
    there, _ = trace(c.problem, pdmm.PDMM("auto"), 10, state="server")
    assert there.history["bytes_down"][-1] > here.history["bytes_down"][-1]
    assert there.history["bytes_up"][-1] >= here.history["bytes_up"][-1]


def test_bytes_are_whole_numbers_and_absent_clients_cost_nothing() -> None:
    c = case()
    there = np.zeros((2, c.m), dtype=bool)
    there[0] = True
    result, _ = trace(
        c.problem, pdmm.FedAvg(0.01, 2), 6, availability=there, record_every=1, bits=3
    )
    up, calls = result.history["bytes_up"], result.history["gradient_calls"]
    assert up.dtype.kind == "i"
    for r in (2, 4, 6):
        assert up[r] == up[r - 1] > up[r - 2]
        assert calls[r] == calls[r - 1] > calls[r - 2]
        assert result.history["bytes_down"][r] == result.history["bytes_down"][r - 1]
