"""Who takes part, and what arrives."""

import itertools
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.engine import watch
from builders.unreliable import case, contacts
from pdmm.links.availability import Availability
from pdmm.links.losses import Losses


@pytest.mark.parametrize(
    ("given_", "m", "count"),
    [
        (0.2, 10, 2),
        (0.25, 10, 2),
        (0.35, 10, 4),
        (0.01, 10, 1),
        (1e-9, 3, 1),
        (1.0, 7, 7),
        (0.5, 1, 1),
        (3, 10, 3),
        (np.int64(4), 10, 4),
        (np.float32(0.5), 10, 5),
        (1, 10, 1),
        (10, 10, 10),
    ],
)
def test_so_many_distinct_clients_take_part(given_: Any, m: int, count: int) -> None:
    seen: set[int] = set()
    for contact in contacts(m, 300, given_, 0.0, 0):
        assert len(contact.chosen) == count
        assert (np.diff(contact.chosen) > 0).all()  # distinct, and in order
        assert contact.heard.all()
        assert contact.arrives.all()
        assert contact.told.all()
        seen |= {int(i) for i in contact.chosen}
    assert seen == set(range(m))


def test_all_sets_of_clients_are_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    for contact in contacts(5, 5000, 2, 0.0, 1):
        counts[tuple(int(i) for i in contact.chosen)] += 1
    assert min(counts.values()) > 400  # 500 each, standard deviation 21
    assert max(counts.values()) < 600


def test_schedules_repeat_and_may_name_clients() -> None:
    plan = [0.5, 2, [4, 1, 1], np.array([0, 5]), 1.0]
    for r, contact in enumerate(contacts(6, 25, plan, 0.0, 2), start=1):
        found = contact.chosen.tolist()
        k = (r - 1) % 5
        assert len(found) == [3, 2, 2, 2, 6][k]
        if k in (2, 3):
            assert found == [[1, 4], [0, 5]][k - 2]


def test_a_callable_of_the_round_may_say_who() -> None:
    asked: list[int] = []

    def who(r: int) -> Any:
        asked.append(r)
        return [[r % 6], 0.5, 2][r % 3]

    found = contacts(6, 9, who, 0.0, 2)
    assert asked == list(range(1, 10))
    for r, contact in enumerate(found, start=1):
        assert len(contact.chosen) == (1, 3, 2)[r % 3]
        if r % 3 == 0:
            assert contact.chosen.tolist() == [r % 6]


def test_named_clients_and_nobody_else_work(monkeypatch: pytest.MonkeyPatch) -> None:
    c = case()
    worked: list[list[int]] = []
    watch(monkeypatch, after=lambda engine: worked.append(engine.here.cursor.tolist()))
    pdmm.solve(c.problem, pdmm.AGPDMM(1 / c.L, 3), 4, participation=[[0, 2], [5]])
    assert worked == [
        [3, 0, 3, 0, 0, 0, 0],
        [3, 0, 3, 0, 0, 3, 0],
        [6, 0, 6, 0, 0, 3, 0],
        [6, 0, 6, 0, 0, 6, 0],
    ]


def test_availability_by_probabilities() -> None:
    share = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    found = contacts(5, 4000, 1.0, 0.0, 3, share)
    seen = np.zeros(5)
    for contact in found:
        seen[contact.chosen] += 1
    assert seen[0] == 0
    assert seen[4] == 4000
    assert np.abs(seen / 4000 - share).max() < 0.04  # standard deviation 0.008
    together = sum(1 for contact in found if {2, 3} <= set(contact.chosen.tolist()))
    assert abs(together / 4000 - 0.45) < 0.04  # independent of each other


def test_never_more_than_are_there_and_never_one_that_is_not() -> None:
    there = np.random.default_rng(4).random((13, 8)) < 0.3
    there[5] = False
    for r, contact in enumerate(contacts(8, 100, 3, 0.0, 4, there), start=1):
        row = there[(r - 1) % 13]
        assert row[contact.chosen].all()
        assert len(contact.chosen) == min(3, int(row.sum()))
    for r, contact in enumerate(contacts(8, 30, [[1, 2, 7]], 0.0, 4, there), start=1):
        row = there[(r - 1) % 13]
        assert contact.chosen.tolist() == [i for i in (1, 2, 7) if row[i]]


@pytest.mark.parametrize(("leave", "come"), [(0.05, 0.15), (0.3, 0.1), (1.0, 1.0), (0.0, 0.5)])
def test_clients_that_come_and_go(leave: float, come: float) -> None:
    m, rounds = 400, 600
    there = Availability(pdmm.OnOff(leave, come), m, np.random.default_rng(5))
    table = np.stack([there.at(r) for r in range(1, rounds + 1)])
    share = come / (come + leave)
    assert abs(table[0].mean() - share) < 0.12  # steady from the start
    assert abs(table.mean() - share) < 0.03
    before, after = table[:-1], table[1:]
    if leave > 0:
        assert abs(after[before].mean() - (1 - leave)) < 0.02  # stays a while
    if 0 < share < 1:
        assert abs(after[~before].mean() - come) < 0.02


def test_losses_are_independent_of_each_other() -> None:
    rounds, m = 400, 30
    heard, arrives, told = (
        np.stack(flags)
        for flags in zip(*(c[1:] for c in contacts(m, rounds, 1.0, 0.3, 6)), strict=True)
    )
    for flags in (heard, arrives, told):
        assert abs(flags.mean() - 0.7) < 0.02
        assert abs((flags[1:] & flags[:-1]).mean() - 0.49) < 0.03
    for one, other in itertools.combinations((heard, arrives, told), 2):
        assert abs((one & other).mean() - 0.49) < 0.03


@pytest.mark.parametrize(
    "bursts",
    [
        pdmm.Bursts(0.05, 0.2),
        pdmm.Bursts(0.1, 0.1, 0.8, 0.1),
        pdmm.Bursts(0.9, 0.7, 0.6, 0.2),
        pdmm.Bursts(0.95, 0.9, 1.0, 0.0),
    ],
)
@pytest.mark.parametrize("every", [1, 4])
def test_bursts_lose_their_share_and_persist(bursts: pdmm.Bursts, every: int) -> None:
    m, looks = 500, 400
    losses = Losses(bursts, m, np.random.default_rng(7))
    everyone = np.arange(m)
    lost = np.stack([~losses.arrive(everyone, 1 + every * k) for k in range(looks)])
    bad = bursts.start / (bursts.start + bursts.end)
    assert bursts.mean == pytest.approx(bad * bursts.loss + (1 - bad) * bursts.otherwise)
    assert abs(lost[0].mean() - bursts.mean) < 0.1
    assert abs(lost.mean() - bursts.mean) < 0.02
    # Two looks, ``every`` rounds apart: step the chain that often to know how they go together.
    p_bad = 1.0
    for _ in range(every):
        p_bad = p_bad * (1 - bursts.end) + (1 - p_bad) * bursts.start
    p_good = 0.0
    for _ in range(every):
        p_good = p_good * (1 - bursts.end) + (1 - p_good) * bursts.start

    def loss_if(p: float) -> float:
        return p * bursts.loss + (1 - p) * bursts.otherwise

    both = bad * bursts.loss * loss_if(p_bad) + (1 - bad) * bursts.otherwise * loss_if(p_good)
    assert abs((lost[1:] & lost[:-1]).mean() - both) < 0.02


def test_links_of_clients_that_are_rarely_seen_age_just_as_much() -> None:
    m, bursts = 40000, pdmm.Bursts(0.02, 0.06)
    losses = Losses(bursts, m, np.random.default_rng(8))
    everyone = np.arange(m)
    first = ~losses.arrive(everyone, 1)
    gaps = np.random.default_rng(9).permutation(np.repeat([1, 3, 10, 100], m // 4))
    for gap in (1, 3, 10, 100):  # each group is seen again at a time of its own
        group = everyone[gaps == gap]
        again = ~losses.arrive(group, 1 + gap)
        stay = 0.25 + 0.75 * 0.92**gap
        assert abs(again[first[group]].mean() - stay) < 0.04
        assert abs(again[~first[group]].mean() - (0.25 - 0.25 * 0.92**gap)) < 0.03


def test_a_seed_decides_everything_and_its_parts_do_not_disturb_each_other() -> None:
    def draw(participation: Any, loss: Any, seed: int) -> list[list[int]]:
        return [c.chosen.tolist() for c in contacts(9, 40, participation, loss, seed)]

    assert draw(0.4, 0.0, 1) == draw(0.4, 0.0, 1) == draw(0.4, 0.5, 1)
    assert draw(0.4, 0.0, 1) != draw(0.4, 0.0, 2)
