"""A client's part of a round, with numbers that follow by hand, and its weighted sums."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.runs import METHODS
from pdmm.common import trees
from pdmm.engines.client_round import Shapes, add_up, client_round, committed
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.family import Memory, Message, Upload
from pdmm.methods.fedavg import Upload as Moved
from pdmm.problems.block import Tally

# Steps of 1/(1/1 + 1) = 1/2, and z_i' = z_i + 2 (x_i - x_s).
HALF = pdmm.AGPDMM(step_size=1.0, local_steps=1, rho=1.0)
CENTRES = [[2.0, -4.0], [6.0, 0.0]]


def test_one_step_by_hand() -> None:
    """From x_s = 0 and z_i = 0 the anchor is 0, so x_i = c_i/2 and z_i' = c_i."""
    f = bowls(CENTRES).at(slice(0, 2))
    done = client_round(HALF, f, Message(np.zeros(2)), Memory(np.zeros((2, 2))), 1)
    np.testing.assert_array_equal(done.upload.dz, CENTRES)
    np.testing.assert_array_equal(done.before.z, np.zeros((2, 2)))
    np.testing.assert_array_equal(done.after.z, CENTRES)
    assert done.tally == Tally(gradients=2)


def test_the_steps_are_those_of_the_round_and_not_of_the_method() -> None:
    """Three steps of 1/2 leave 1/8 of the way to the centre."""
    method = pdmm.FedAvg(step_size=0.5, local_steps=1)
    f = bowls(CENTRES).at(slice(0, 2))
    message = method.broadcast(method.server_start(np.zeros(2), lambda v, t: v))
    done = client_round(method, f, message, method.client_start(np.zeros((2, 2))), 3)
    np.testing.assert_array_equal(done.upload.dx, 7 / 8 * np.array(CENTRES))
    assert done.tally.gradients == 6


def test_nothing_is_committed_by_working() -> None:
    memory = Memory(np.ones((2, 2)))
    client_round(HALF, bowls(CENTRES).at(slice(0, 2)), Message(np.zeros(2)), memory, 1)
    np.testing.assert_array_equal(memory.z, np.ones((2, 2)))


def test_two_bits_leave_three_numbers() -> None:
    """With two bits an entry is -1, 0 or 1 times the largest, rounded up in float32."""
    f = bowls([[2.0, -0.5]]).at(slice(0, 1))
    done = client_round(HALF, f, Message(np.zeros(2)), Memory(np.zeros((1, 2))), 1, bits=2)
    scale = np.nextafter(np.float32(2), np.float32(3))
    np.testing.assert_array_equal(done.upload.dz, [[float(scale), 0.0]])
    np.testing.assert_array_equal(done.after.z, done.upload.dz)  # both ends add the same


def test_memories_stay_in_float64_where_messages_are_rounded() -> None:
    third = Memory(np.full((1, 2), 1 / 3))  # float32 does not hold it
    message = Message(np.zeros(2, np.float32))
    f = bowls([[2.0, -0.5]], np.float32).at(slice(0, 1))
    done = client_round(HALF, f, message, third, 1, bits=8)
    assert done.upload.dz.dtype == np.float32
    assert done.after.z.dtype == np.float64
    np.testing.assert_array_equal(done.before.z, third.z)
    np.testing.assert_array_equal(done.after.z, 1 / 3 + done.upload.dz.astype(np.float64))


@pytest.mark.parametrize("name", METHODS)
def test_a_server_that_keeps_memories_commits_the_same(name: str) -> None:
    method = METHODS[name]
    problem = bowls([[2.0, -4.0, 1.0, 0.5], [6.0, 0.0, 3.0, -1.0]])
    message = method.broadcast(method.server_start(np.ones(4), lambda v, t: v))
    memory = method.client_start(np.array([[0.5] * 4, [-2.0] * 4]))
    done = client_round(method, problem.at(slice(0, 2)), message, memory, method.steps)
    for mine, theirs in zip(
        committed(method, message, memory, done.draft, done.upload), done.after, strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


# --- weighted sums ------------------------------------------------------------------------------

FEDAVG = pdmm.FedAvg(step_size=0.5, local_steps=1)


def test_a_weighted_sum_by_hand() -> None:
    """2 (1, 2) + 3 (3, -1) = (11, 1), and 2 (1 + 4) + 3 (9 + 1) = 40."""
    upload = Moved(np.array([[1.0, 2.0], [3.0, -1.0]]))
    part = add_up(FEDAVG, upload, np.array([2.0, 3.0]), Tally(gradients=7))
    np.testing.assert_array_equal(part.sums.dx, [11.0, 1.0])
    assert (part.weight, part.arrived, part.bad, part.apart) == (5.0, 2, None, 40.0)
    assert part.tally == Tally(gradients=7)


def test_the_disagreement_is_that_of_x_and_not_of_z() -> None:
    """z_i moves by 2 relaxation (x_i - x_s), which is x_i - x_s at a relaxation of 1/2."""
    upload = Upload(np.array([[6.0, 8.0]]))
    weights = np.array([1.0])
    half = pdmm.AGPDMM(1.0, 1, rho=1.0, relaxation=0.5)
    assert add_up(HALF, upload, weights, Tally()).apart == 25.0
    assert add_up(half, upload, weights, Tally()).apart == 100.0


def test_a_method_without_an_own_x_has_no_disagreement() -> None:
    method = pdmm.GradientDescent(0.1)
    upload = Shapes.of(method, np.zeros(2), np.dtype(np.float64)).upload
    assert add_up(method, upload, np.ones(1), Tally()).apart is None


def test_sums_are_in_float64() -> None:
    """In float32, 2^24 + 1 is 2^24."""
    upload = Moved(np.array([[2.0**24], [1.0]], dtype=np.float32))
    part = add_up(FEDAVG, upload, np.ones(2), Tally())
    assert part.sums.dx.dtype == np.float64
    assert part.sums.dx[0] == 2.0**24 + 1


@pytest.mark.parametrize(
    ("first", "number"), [(0, 1), (10, 11), (np.array([3, 7, 8]), 7)], ids=["0", "10", "numbers"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_bad_client_is_numbered_among_all(first: Any, number: int, value: float) -> None:
    upload = Moved(np.array([[1.0, 2.0], [value, 0.0], [np.nan, np.nan]]))
    assert add_up(FEDAVG, upload, np.ones(3), Tally(), first).bad == number


def test_a_sum_that_overflows_is_no_clients_fault() -> None:
    part = add_up(FEDAVG, Moved(np.full((2, 1), 1e308)), np.ones(2), Tally())
    assert part.sums.dx[0] == np.inf
    assert part.bad is None


def test_nobody_adds_up_to_nothing() -> None:
    part = add_up(FEDAVG, Moved(np.empty((0, 2))), np.empty(0), Tally(gradients=4))
    np.testing.assert_array_equal(part.sums.dx, [0.0, 0.0])
    assert (part.weight, part.arrived, part.bad) == (0.0, 0, None)
    assert part.tally.gradients == 4  # work that was lost is work


# --- shapes -------------------------------------------------------------------------------------

ADAPTIVE = {
    "adaptive": Adaptive(pdmm.GPDMM(0.01, 3, rho=2.0), True, False, 1e-16),
    "accelerated": Adaptive(pdmm.PDMM(2.0), True, True, 1e-16),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [*METHODS, *ADAPTIVE])
def test_shapes_are_those_of_a_real_round(name: str, dtype: Any) -> None:
    """What is expected of a site's answer is what a client really sends."""
    method: pdmm.Method = {**METHODS, **ADAPTIVE}[name]
    x0 = np.arange(4.0)
    shapes = Shapes.of(method, x0, np.dtype(dtype))
    message = trees.cast(method.broadcast(method.server_start(x0, lambda v, t: v)), dtype)
    row = x0.astype(dtype)[None]
    f = bowls([[1.0, 2.0, 3.0, 5.0]], dtype).at(slice(0, 1))
    done = client_round(method, f, message, method.client_start(row), method.steps)
    pairs = [
        (shapes.message, message),
        (shapes.memory, done.before),
        (shapes.upload, done.upload),
        (shapes.draft, done.draft),
    ]
    for like, real in pairs:
        assert type(like) is type(real)
        for mine, theirs in zip(like, real, strict=True):
            assert np.shape(mine) == np.shape(theirs)
            assert np.asarray(mine).dtype == np.asarray(theirs).dtype
