"""A stall is seen, and more bits are used where they help."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.unreliable import case, make, trace
from pdmm.links.quantise import packed_bytes
from pdmm.links.stall import Stall


def test_bits_are_raised_where_few_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    c = make(5, 10, 50, 1)
    method, gap = pdmm.GPDMM(1 / c.L, 2, c.rho), c.gap()
    raising = pdmm.solve(c.problem, method, 300, bits=3)
    assert gap(raising.x) < 1e-20
    assert any("bits 3 -> 5" in why and "getting smaller" in why for why in raising.choices)
    bits = raising.history["bits"]
    assert bits[0] == 3
    assert bits[-1] > 3
    assert (np.diff(bits) >= 0).all()
    # Bytes follow.
    step = np.diff(raising.history["bytes_up"])
    assert step[0] == 5 * packed_bytes(10, 3)
    assert step[-1] == 5 * packed_bytes(10, int(bits[-1]))
    monkeypatch.setattr(Stall, "add", lambda *_: None)
    stalled = pdmm.solve(c.problem, method, 300, bits=3)
    assert gap(stalled.x) > 1e-3
    assert (stalled.history["bits"] == 3).all()
    assert stalled.choices == ()


@pytest.mark.slow
def test_bits_are_not_raised_where_they_are_enough() -> None:
    c = case()
    every: list[dict[str, Any]] = [
        {},
        {"participation": 0.5},
        {"participation": 0.4, "loss": 0.2},
        {"availability": [0.3] * c.m},
        {"participation": [1.0] + [1] * 30},  # its first round says little about the others
    ]
    for links in every:
        result, _ = trace(
            c.problem, pdmm.AGPDMM(1 / c.L, 5, c.rho), 600, bits=4, record_every=1, **links
        )
        assert result.choices == (), links
        assert (result.history["bits"] == 4).all()
        assert c.gap()(result.x) < 1e-20


def test_rounding_is_no_stall_also_where_the_optimum_is_zero() -> None:
    """x_s vanishes, the z_i do not: what is as good as 0 is to be judged by them."""
    c = case()
    A = np.random.default_rng(0).standard_normal((3, 8, 4))
    b = np.random.default_rng(1).standard_normal((3, 8))
    problem = pdmm.LeastSquares(np.concatenate([A, A]), np.concatenate([b, -b]))
    ends = np.linalg.eigvalsh(np.swapaxes(A, 1, 2) @ A)
    L, rho = float(ends.max()), float(np.sqrt(ends.max() * ends.min()))
    result, xs = trace(problem, pdmm.AGPDMM(1 / L, 5, rho), 1000, bits=8, x0=np.ones(4))
    assert np.abs(xs[-1]).max() < 1e-14
    assert result.choices == ()
    shifted, _ = trace(c.problem, pdmm.AGPDMM(1 / c.L, 5, c.rho), 1000, bits=8)
    assert shifted.choices == ()


def test_a_stall_that_more_bits_do_not_mend_ends_with_those_asked_for() -> None:
    """FedAvg's uploads do not vanish: that is not the rounding."""
    c = case()
    result, _ = trace(c.problem, pdmm.FedAvg(0.02, 5), 400, bits=6, record_every=1)
    bits = result.history["bits"]
    assert set(bits) == {6, 8}  # tried, and taken back
    assert bits[-1] == 6 or (bits[np.argmax(bits > 6) :] == 6).any()
    assert (bits == 6).mean() > 0.5
    assert any("had not helped" in why for why in result.choices)


def test_the_detector_alone() -> None:
    falling = Stall(4)
    assert all(falling.add(0.9**r, 1.0, 1.0, 0.0) is None for r in range(300))
    assert falling.bits == 4
    flat = Stall(4)
    answers = [flat.add(1.0, 1.0, 1.0, 0.0) for _ in range(39)]
    assert answers == [None] * 39
    assert flat.add(1.0, 1.0, 1.0, 0.0) == 6
    at_rounding = Stall(4)
    assert all(at_rounding.add(1e-30, 1.0, 1.0, 1e-14) is None for _ in range(300))
    rare = Stall(4)
    assert all(rare.add(1.0, 1.0, 0.1, 0.0) is None for _ in range(399))
    assert rare.add(1.0, 1.0, 0.1, 0.0) == 6
    most = Stall(16)
    assert all(most.add(1.0, 1.0, 1.0, 0.0) is None for _ in range(300))


def test_scaffold_with_few_bits_is_as_exact_as_it_was() -> None:
    """Full participation: c must stay the mean of the c_i, rounded or not."""
    c, gap = case(), case().gap()
    for both in (True, False):
        method = pdmm.Scaffold(0.2 / c.L, 5, send_control=both)
        plain = pdmm.solve(c.problem, method, 400, record_every=400)
        assert gap(plain.x) < 1e-18
        few = pdmm.solve(c.problem, method, 400, bits=8, record_every=400)
        assert gap(few.x) < 1e-12, f"send_control={both}"
