"""Absent clients, lost messages, few bits, stragglers: the same iterates as naive twins."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.unreliable import LINKS, NAMES, K, case, close, contacts, own_steps, trace, variant
from pdmm.links.stall import Stall
from twins import unreliable


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", LINKS)
def test_a_run_equals_its_twin(name: str, how: str) -> None:
    c, rounds, seed = case(), 40, 3
    weights = np.random.default_rng(1).uniform(0.3, 3, c.m)
    x0 = np.random.default_rng(2).standard_normal(c.d)
    method, twin = variant(name, c)
    result, xs = trace(c.problem, method, rounds, weights=weights, x0=x0, seed=seed, **LINKS[how])
    net = c.network(x0=x0, weights=list(weights))
    drawn = contacts(c.m, rounds, seed=seed, **LINKS[how])
    expected = unreliable.run(net, twin, drawn, lambda r, i: K)
    close(xs, expected.x)
    assert result.history["bytes_down"][-1] == expected.bytes_down[-1]
    assert result.history["bytes_up"][-1] == expected.bytes_up[-1]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "PDMM"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_stragglers_equal_their_twin(name: str, loss: float) -> None:
    c, rounds = case(), 40
    method, twin = variant(name, c)
    result, xs = trace(
        c.problem, method, rounds, participation=0.6, loss=loss, local_steps=own_steps, seed=4
    )
    if isinstance(twin, unreliable.Scaffold):
        twin.both = True  # its c_i' - c_i must travel
        assert result.method.send_control
        assert any("c_i" in why for why in result.choices) == (name == "SCAFFOLD")
    drawn = contacts(c.m, rounds, 0.6, loss, 4)
    expected = unreliable.run(c.network(), twin, drawn, own_steps)
    close(xs, expected.x)
    assert result.history["gradient_calls"][-1] * c.m == pytest.approx(sum(expected.steps))


def test_steps_per_client_as_a_list() -> None:
    c, counts = case(), [1, 2, 3, 4, 5, 6, 7]
    method, _ = variant("AGPDMM", c)
    ours, by_list = trace(c.problem, method, 20, participation=0.5, local_steps=counts)
    _, by_call = trace(c.problem, method, 20, participation=0.5, local_steps=lambda r, i: counts[i])
    assert all((a == b).all() for a, b in zip(by_list, by_call, strict=True))
    work = sum(counts[i] for contact in contacts(c.m, 20, 0.5, 0.0, 0) for i in contact.chosen)
    assert ours.history["gradient_calls"][-1] * c.m == pytest.approx(work)
    assert ours.method.rho == method.rho  # type: ignore[attr-defined]


def test_rho_is_made_of_the_nominal_number_of_steps() -> None:
    c = case()
    _, nominal = trace(
        c.problem, pdmm.AGPDMM(1 / c.L, 5), 30, participation=0.5, local_steps=own_steps
    )
    _, given_rho = trace(
        c.problem, pdmm.AGPDMM(1 / c.L, 5, c.L / 5), 30, participation=0.5, local_steps=own_steps
    )
    close(nominal, given_rho, 1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bits", [3, 5, 16])
@pytest.mark.parametrize("how", ["some", "both"])
def test_rounded_messages_equal_their_twin(
    name: str, bits: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stall, "add", lambda *_: None)
    c, rounds = case(), 25
    weights = np.random.default_rng(3).uniform(0.3, 3, c.m)
    method, twin = variant(name, c)
    result, xs = trace(c.problem, method, rounds, weights=weights, bits=bits, seed=6, **LINKS[how])
    if isinstance(twin, unreliable.Scaffold):
        twin.both = result.method.send_control
    drawn = contacts(c.m, rounds, seed=6, **LINKS[how])
    net = c.network(weights=list(weights))
    expected = unreliable.run(net, twin, drawn, lambda r, i: K, bits)
    close(xs, expected.x)
    assert result.history["bytes_up"][-1] == expected.bytes_up[-1]
    if how == "some":
        assert result.history["bytes_down"][-1] == expected.bytes_down[-1]


def test_everything_at_once_equals_its_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stall, "add", lambda *_: None)
    c, rounds = case(), 60
    weights = np.random.default_rng(5).uniform(0.3, 3, c.m)
    there = np.random.default_rng(6).random((9, c.m)) < 0.7
    links: dict[str, Any] = {
        "participation": [0.3, 5, [1, 2, 6]],
        "loss": 0.25,
        "availability": there,
    }
    for name in ("AGPDMM", "GPDMM", "SCAFFOLD both", "FedAvg"):
        method, twin = variant(name, c)
        _, xs = trace(
            c.problem,
            method,
            rounds,
            weights=weights,
            bits=6,
            local_steps=own_steps,
            seed=7,
            threads=2,
            state="server",
            **links,
        )
        drawn = contacts(c.m, rounds, seed=7, **links)
        net = c.network(weights=list(weights))
        close(xs, unreliable.run(net, twin, drawn, own_steps, 6).x)
