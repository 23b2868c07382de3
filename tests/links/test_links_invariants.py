"""Whatever the links do: means stay means, and nothing depends on where the state lives."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.engine import settled, watch
from builders.unreliable import LINKS, NAMES, K, case, close, make, own_steps, trace, variant
from pdmm.engines.in_process import InProcess
from pdmm.links.links import Contact
from twins.methods import Vector


def mean_apart(engine: InProcess, mean: Vector, field: str) -> float:
    """How far the server's mean is from that of what the clients have, or will know to have."""
    rows = np.asarray(getattr(settled(engine), field), np.float64)
    apart = engine.weights @ rows / engine.weights.sum() - np.asarray(mean, np.float64)
    return float(np.abs(apart).max()) / max(float(np.abs(rows).max()), 1e-300)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost(seed: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([seed, 50])
    c = make(int(rng.integers(2, 9)), int(rng.integers(1, 7)), 10, seed, dtype)
    K, rho, eta = int(rng.integers(1, 6)), c.rho, 1 / c.L
    method = [pdmm.AGPDMM(eta, K, rho), pdmm.GPDMM(eta, K, rho), pdmm.PDMM(rho, relaxation=0.8)][
        seed % 3
    ]
    bits = [None, 2, 4, 9][seed % 4]
    apart: list[float] = []  # before every round; x_s is the mean z, without a regulariser
    unheard: list[bool] = []
    watch(
        monkeypatch,
        before=lambda engine, message: apart.append(mean_apart(engine, message.x, "z")),
        after=lambda engine: unheard.append(
            any(
                engine.here.receipts.applied[i] == engine.here.receipts.sent[i]
                for i in engine.here.receipts.drafts
            )
        ),
    )
    result = pdmm.solve(
        c.problem,
        method,
        60,
        weights=rng.uniform(0.2, 4, c.m),
        participation=float(rng.uniform(0.1, 1)),
        loss=float(rng.uniform(0.1, 0.6)),
        bits=bits,
        local_steps=own_steps if seed % 3 < 2 and seed % 2 else None,
        state="server" if seed % 2 else "clients",
        record_every=60,
        seed=seed,
    )
    assert len(apart) == 60
    assert np.abs(result.x).max() > 0.1
    assert any(unheard)  # some memories differed from what the server had applied
    assert max(apart) < (2e-6 if dtype is np.float32 and bits is None else 1e-13)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bits", [None, 4])
def test_the_control_variate_is_the_mean_of_the_clients(
    both: bool, bits: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = case()
    apart: list[float] = []
    watch(
        monkeypatch,
        before=lambda engine, message: apart.append(mean_apart(engine, message.c, "c")),
    )
    pdmm.solve(
        c.problem,
        pdmm.Scaffold(0.1 / c.L, K, send_control=both),
        50,
        weights=np.arange(1.0, c.m + 1),
        participation=0.6,
        loss=0.2,
        bits=bits,
        record_every=50,
    )
    assert len(apart) == 50
    assert max(apart) < 1e-11


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bits", [None, 5])
def test_a_round_in_which_nobody_arrives_changes_nothing(name: str, bits: int | None) -> None:
    c = case()
    method, _ = variant(name, c)
    there = np.ones((4, c.m), dtype=bool)
    there[1:3] = False  # nobody is there in rounds 2, 3, 6, 7, ...
    _, with_gaps = trace(c.problem, method, 24, availability=there, bits=bits)
    assert all((with_gaps[4 * k] == with_gaps[4 * k + j]).all() for k in range(6) for j in (1, 2))
    assert (with_gaps[2] != with_gaps[3]).any()
    if bits is None:
        _, without = trace(c.problem, method, 12, availability=np.ones((1, c.m), dtype=bool))
        kept = [x for r, x in enumerate(with_gaps) if r % 4 in (0, 3)]
        assert all((a == b).all() for a, b in zip(kept, without, strict=True))


def test_rounds_in_which_all_uploads_are_lost_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the clients' memories are what they were, whatever they had heard."""
    lost = (2, 3, 5)
    memories: list[Any] = []

    def lose(contact: Contact, r: int) -> Contact:
        return contact._replace(arrives=contact.arrives & (r not in lost))

    watch(monkeypatch, after=lambda engine: memories.append(settled(engine)), change=lose)
    c = case()
    _, xs = trace(c.problem, pdmm.GPDMM(1 / c.L, K), 6, participation=[1.0])
    for r in lost:
        assert (xs[r - 1] == xs[r - 2]).all()
        for new, old in zip(memories[r - 1], memories[r - 2], strict=True):
            assert (new == old).all()
    assert (xs[3] != xs[2]).any()


@pytest.mark.parametrize("name", NAMES)
def test_where_the_state_lives_does_not_matter(name: str) -> None:
    c = case()
    method, _ = variant(name, c)
    for links in (LINKS["both"], {"bits": 4, **LINKS["some"]}, {}):
        _, here = trace(c.problem, method, 30, **links)
        _, there = trace(c.problem, method, 30, state="server", **links)
        if links:
            assert all((a == b).all() for a, b in zip(here, there, strict=True))
        close(here, there, 1e-12)


@pytest.mark.parametrize("name", ["AGPDMM", "GPDMM", "PDMM", "SCAFFOLD", "FedAvg"])
def test_same_seed_same_bits_on_any_number_of_threads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = make(12, 6, 10, 5)
    monkeypatch.setattr(
        type(c.problem), "blocks", lambda self: [slice(k, k + 3) for k in range(0, 12, 3)]
    )
    method, _ = variant(name, c)
    settings: dict[str, Any] = {
        "participation": 0.5,
        "loss": 0.2,
        "bits": 6,
        "local_steps": None if name == "PDMM" else own_steps,
    }
    _, first = trace(c.problem, method, 30, threads=1, seed=8, **settings)
    for threads, seed in ((1, 8), (2, 8), (2, 9)):
        _, again = trace(c.problem, method, 30, threads=threads, seed=seed, **settings)
        same = all((a == b).all() for a, b in zip(first, again, strict=True))
        assert same == (seed == 8)


@pytest.mark.parametrize("name", NAMES)
def test_perfect_links_are_the_ordinary_path(name: str) -> None:
    c = case()
    method, _ = variant(name, c)
    weights = np.random.default_rng(3).uniform(0.3, 3, c.m)
    ordinary, plain = trace(c.problem, method, 40, weights=weights)
    spelled, said = trace(
        c.problem, method, 40, weights=weights, participation=1.0, loss=0.0, bits=None
    )
    assert all((a == b).all() for a, b in zip(plain, said, strict=True))
    for column in ("bytes_up", "bytes_down", "vectors_up", "vectors_down"):
        assert (ordinary.history[column] == spelled.history[column]).all()
    _, behind_links = trace(
        c.problem, method, 40, weights=weights, availability=np.ones(c.m), participation=c.m
    )
    close(behind_links, plain, 1e-12)
