"""What travels in a round, counted by hand, and the same whatever carries the messages."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.ranks import on_ranks
from builders.sites import FakeSites
from pdmm.engines.sites.sites import Sites
from pdmm.engines.traffic import Envelope, Sent, count
from pdmm.methods.adaptive import Adaptive

CENTRES = np.array([[2.0, -4.0, 1.0], [6.0, 0.0, 0.5], [1.0, 1.0, -2.0], [0.0, 3.0, 3.0]])
M, VECTOR = 4, 3 * 8
HEADER = 8  # a sequence number
ROUNDS = 3
EVERYONE = [[0, 1, 2, 3]]  # all take part, but by name: over links that number their messages

FEDAVG = pdmm.FedAvg(step_size=0.5, local_steps=2)
AGPDMM = pdmm.AGPDMM(step_size=0.5, local_steps=2)
GPDMM = pdmm.GPDMM(step_size=0.5, local_steps=2)
SCAFFOLD = pdmm.Scaffold(step_size=0.5, local_steps=2)


# --- counting by hand ---------------------------------------------------------------------------


def test_full_vectors() -> None:
    sent = count(SCAFFOLD, Envelope(vector=24, up=24), contacts=5, uploads=3)
    assert sent == Sent(5, 3, vectors_down=10, vectors_up=3, bytes_down=240, bytes_up=72)


def test_a_number_goes_with_every_message() -> None:
    sent = count(SCAFFOLD, Envelope(vector=24, up=24, numbered=True), contacts=5, uploads=3)
    assert (sent.bytes_down, sent.bytes_up) == (240 + 5 * 8, 72 + 3 * 8)


def test_rounded_vectors_go_up_and_changes_go_down() -> None:
    """Both of SCAFFOLD's vectors are rounded, each way."""
    method = pdmm.Scaffold(0.5, 2, send_control=True)
    sent = count(method, Envelope(vector=24, up=6), contacts=5, uploads=3, down=44)
    assert (sent.vectors_down, sent.vectors_up) == (10, 6)
    assert (sent.bytes_down, sent.bytes_up) == (2 * 44, 3 * 2 * 6)


def test_memories_and_drafts_travel_in_full_precision() -> None:
    envelope = Envelope(vector=24, up=6, memory=2, draft=1)
    sent = count(GPDMM, envelope, contacts=5, uploads=3, down=30)
    assert (sent.vectors_down, sent.vectors_up) == (5 + 10, 3 + 3)
    assert (sent.bytes_down, sent.bytes_up) == (30 + 5 * 48, 3 * (6 + 24))


def test_one_message_may_be_for_several_clients() -> None:
    """A site is sent one message for its five clients, and the memory of each of them."""
    envelope = Envelope(vector=24, up=24, numbered=True, memory=2)
    sent = count(GPDMM, envelope, contacts=5, uploads=0, messages=1)
    assert (sent.contacts, sent.vectors_down) == (5, 1 + 10)
    assert sent.bytes_down == 24 + 8 + 10 * 24


def test_scalars_are_counted_at_eight_bytes() -> None:
    method = Adaptive(AGPDMM, True, False, 1e-16)
    down, up = method.scalars
    assert down > 0
    assert up > 0
    sent = count(method, Envelope(vector=24, up=24), contacts=5, uploads=3)
    assert (sent.bytes_down, sent.bytes_up) == (5 * (24 + 8 * down), 3 * (24 + 8 * up))


def test_what_was_sent_adds_up() -> None:
    assert Sent(1, 2, 3, 4, 5, 6).plus(Sent(10, 20, 30, 40, 50, 60)) == Sent(11, 22, 33, 44, 55, 66)
    assert Sent().plus(Sent()) == Sent()


# --- the same traffic whatever the engine -------------------------------------------------------


def made(clients: Any) -> pdmm.Problem:
    return bowls(CENTRES[list(clients)])


def in_process(method: pdmm.Method, **given: Any) -> pdmm.Result:
    return pdmm.solve(made(range(M)), method, ROUNDS, **given)


def on_two_ranks(method: pdmm.Method, **given: Any) -> pdmm.Result:
    results = on_ranks(
        2, lambda mpi: pdmm.solve(made(mpi.range(M)), method, ROUNDS, engine=mpi, **given)
    )
    return results[0]


def at_sites(method: pdmm.Method) -> pdmm.Result:
    """One client at each site."""
    shares = {name: [i] for i, name in enumerate("abcd")}
    return pdmm.solve(Sites(FakeSites(made, shares)), method, ROUNDS)


def per_round(result: pdmm.Result, column: str) -> list[int]:
    found: list[int] = np.diff(result.history[column]).tolist()
    return found


def both_ways(result: pdmm.Result) -> tuple[list[int], list[int]]:
    return per_round(result, "bytes_down"), per_round(result, "bytes_up")


@pytest.mark.parametrize("run", [in_process, on_two_ranks])
@pytest.mark.parametrize("given", [{}, {"local_steps": [1, 2, 3, 1]}], ids=["perfect", "own steps"])
def test_perfect_links_number_nothing(run: Any, given: dict[str, Any]) -> None:
    full = [M * VECTOR] * ROUNDS
    assert both_ways(run(AGPDMM, **given)) == (full, full)


@pytest.mark.parametrize("run", [in_process, on_two_ranks])
def test_bits_alone_number_nothing(run: Any) -> None:
    """Three numbers of 8 bits, and a scale: 7 bytes instead of 24."""
    few = [M * 7] * ROUNDS
    assert both_ways(run(AGPDMM, bits=8)) == (few, few)


@pytest.mark.parametrize("run", [in_process, on_two_ranks])
def test_links_that_may_lose_number_their_messages(run: Any) -> None:
    """Nothing is lost here, but nobody could know."""
    full = [M * (VECTOR + HEADER)] * ROUNDS
    assert both_ways(run(AGPDMM, participation=EVERYONE)) == (full, full)
    few = [M * (7 + HEADER)] * ROUNDS
    assert both_ways(run(AGPDMM, participation=EVERYONE, bits=8)) == (few, few)


@pytest.mark.parametrize("run", [in_process, on_two_ranks])
def test_the_servers_memories_travel_in_every_round(run: Any) -> None:
    """GPDMM: x_s and two vectors of memory go down, the change and the draft go up."""
    down = [M * 3 * VECTOR] * ROUNDS
    up = [M * 2 * VECTOR] * ROUNDS
    assert both_ways(run(GPDMM, state="server")) == (down, up)


def test_sites_with_one_client_each_cost_what_numbered_links_do() -> None:
    sites = at_sites(FEDAVG)
    assert both_ways(sites) == both_ways(in_process(FEDAVG, participation=EVERYONE))
    assert both_ways(sites)[0] == [M * (VECTOR + HEADER)] * ROUNDS


def test_sites_are_sent_their_memories_once() -> None:
    sites = at_sites(GPDMM)
    shipped = in_process(GPDMM, participation=EVERYONE, state="server")
    kept = in_process(GPDMM, participation=EVERYONE)
    assert per_round(sites, "bytes_down")[0] == per_round(shipped, "bytes_down")[0]
    assert per_round(sites, "bytes_down")[1:] == per_round(kept, "bytes_down")[1:]
    assert per_round(sites, "bytes_up") == per_round(shipped, "bytes_up")


@pytest.mark.parametrize("method", [FEDAVG, AGPDMM, SCAFFOLD], ids=lambda m: type(m).__name__)
def test_the_papers_count_knows_no_engine(method: pdmm.Method) -> None:
    one = in_process(method)
    for other in (on_two_ranks(method), at_sites(method), in_process(method, bits=8)):
        for column in ("paper_bytes_up", "paper_bytes_down"):
            assert per_round(other, column) == per_round(one, column)


@pytest.mark.parametrize(
    ("method", "vectors"), [(FEDAVG, 1), (AGPDMM, 1), (GPDMM, 2), (SCAFFOLD, 2)]
)
def test_drafts_of_sites_travel_too(method: pdmm.Method, vectors: int) -> None:
    """A site's answer has the draft beside the upload, also where a server could make it itself."""
    assert per_round(at_sites(method), "vectors_up") == [vectors * M] * ROUNDS
