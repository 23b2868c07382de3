"""A run's state as plain values and back, the way that a checkpoint takes."""

import json
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.runs import METHODS
from pdmm.common import trees
from pdmm.common.packing import Arrays, pack, unpack
from pdmm.engines.client_round import client_round
from pdmm.engines.traffic import Sent
from pdmm.methods.adaptive import Adaptive
from pdmm.problems.block import Tally
from pdmm.run.state import Accounts, RunState, held

ALL: dict[str, pdmm.Method] = {
    **METHODS,
    "adaptive": Adaptive(pdmm.AGPDMM(0.01, 3, rho=2.0), True, False, 1e-16),
    "accelerated": Adaptive(pdmm.GPDMM(0.01, 3, rho=2.0), True, True, 1e-16),
    "anderson": Adaptive(pdmm.PDMM(2.0), False, True, 1e-16),
}


def identity(v: Any, t: float) -> Any:
    return v


def begun(method: pdmm.Method) -> RunState:
    server = method.server_start(np.array([1.0, 0.1, -3.0]), identity)
    return RunState(method, server, np.array([1.0, 0.1, -3.0]), tolerance=None)


def later(method: pdmm.Method) -> RunState:
    """After three rounds with one client, and with something else in every field."""
    state = begun(method)
    memory = method.client_start(np.array([[1.0, 0.1, -3.0]]))
    for _ in range(3):
        message = method.broadcast(state.server)
        f = bowls([[0.3, 7.0, 1 / 3]]).at(slice(0, 1))
        done = client_round(method, f, message, memory, method.steps)
        memory = done.after
        mean = trees.each(lambda field: field[0], done.upload)
        state.server = method.server(state.server, mean, 1.0, identity)
    state.x = np.asarray(method.broadcast(state.server).x)
    state.tolerance = 1e-6
    state.target = float("nan")
    state.done = 3
    state.finished = state.diverged = state.proven = True
    state.reason = "because"
    state.worst = 0.5
    state.residuals = {"consensus": 0.1, "dual_sum": None}
    state.accounts = Accounts(
        Tally(1, 2, 3, error=0.5, missed=0.25), Sent(1, 2, 3, 4, 5, 6), 7, 0.125, 9.5
    )
    return state


def through_a_file(state: RunState, into: RunState) -> RunState:
    arrays: Arrays = {}
    text = json.dumps(pack(state.plain(), arrays, "state"))
    return into.loaded(unpack(json.loads(text), arrays))


@pytest.mark.parametrize("name", ALL)
def test_what_goes_in_comes_out(name: str) -> None:
    state = later(ALL[name])
    found = through_a_file(state, begun(ALL[name]))
    assert type(found.server) is type(state.server)
    for mine, theirs in zip(trees.flat(found.server), trees.flat(state.server), strict=True):
        assert type(mine) is type(theirs)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(found.x, state.x)
    assert found.method == state.method
    assert found.accounts == state.accounts
    assert isinstance(found.accounts.sent, Sent)
    assert np.isnan(found.target)
    for field in ("tolerance", "done", "finished", "diverged", "proven", "reason", "worst"):
        assert getattr(found, field) == getattr(state, field), field
    assert found.residuals == state.residuals


@pytest.mark.parametrize("name", ALL)
def test_the_next_round_is_the_same(name: str) -> None:
    """What the server sends next has the same bits."""
    state = later(ALL[name])
    found = through_a_file(state, begun(ALL[name]))
    ours, theirs = (s.method.broadcast(s.server) for s in (found, state))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_the_method_comes_back_with_the_numbers_that_it_had_by_then() -> None:
    state = later(pdmm.AGPDMM(0.01, 3))
    state.method = pdmm.AGPDMM(0.005, 3)  # a smaller step, for an L that was met in the run
    assert through_a_file(state, begun(pdmm.AGPDMM(0.01, 3))).method == pdmm.AGPDMM(0.005, 3)


def test_an_adapting_method_is_kept_by_the_parameters_that_the_user_knows() -> None:
    method = Adaptive(pdmm.AGPDMM(0.01, 3, rho=2.0), True, False, 1e-16)
    plain = begun(method).plain()
    assert plain["method"]["rho"] == 2.0
    assert "inner" not in plain["method"]


def test_a_plain_state_does_not_change_the_state() -> None:
    state = later(pdmm.AGPDMM(0.01, 3))
    state.plain()
    assert isinstance(state.accounts, Accounts)
    assert isinstance(state.method, pdmm.AGPDMM)


def test_x_is_held_in_the_clients_numbers() -> None:
    found = held([1 / 3, 2.0], np.dtype(np.float32))
    assert found.dtype == np.float32
    assert found[0] == np.float32(1 / 3)
    x = np.ones(2)
    assert held(x, np.dtype(np.float64)) is not x  # nobody changes the server's
