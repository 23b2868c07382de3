"""Convex functions that are not L-smooth: auto against the best of 15 fixed rho, and kinks."""

import os
from typing import Any

import numpy as np
import pytest

import pdmm
from fuzz.auto import Drawn, drawn

EXAMPLES = int(os.environ.get("PDMM_EXAMPLES", "12"))
RELATIVE = 1e-6  # of the first gap: there a run has arrived


def rounds_to(one: Drawn, lowest: float, method: pdmm.Method | None, most: int) -> int | None:
    """How many rounds a run needs to arrive; None if it takes more."""
    target = RELATIVE * one.gap(one.x0, lowest)
    arrived: list[int] = []

    def see(r: int, x: Any) -> bool:
        if one.gap(x, lowest) <= target:
            arrived.append(r)
        return bool(arrived)

    pdmm.solve(one.problem, method, most, x0=one.x0, callback=see)
    return arrived[0] if arrived else None


def best_of_15(one: Drawn, lowest: float, about: float) -> int:
    """The fewest rounds of plain PDMM with a fixed rho, of 15 within 3.5 powers of ten."""
    best = 61  # or more: then auto is compared with this
    for power in sorted(np.linspace(-3.5, 3.5, 15), key=abs):
        rho = about * 10**power
        if best == 1:
            break
        with np.errstate(all="ignore"):
            best = rounds_to(one, lowest, pdmm.PDMM(float(rho)), best - 1) or best
    return best


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:an exact step")  # of a rho that is far too small
def test_auto_arrives_on_steep_functions_in_few_rounds() -> None:
    # PDMM_EXAMPLES=500 tries as many, and prints how far auto is from the best fixed rho.
    ratios = {}
    for seed in range(EXAMPLES):
        one = drawn(seed)
        lowest = one.lowest()
        if lowest is None or one.gap(one.x0, lowest) <= 0:
            continue
        auto = rounds_to(one, lowest, None, 400)
        assert auto is not None, f"seed {seed}: {one.kind} did not arrive"
        rho = pdmm.solve(one.problem, x0=one.x0, rounds=20).method.rho  # type: ignore[attr-defined]
        ratios[seed] = auto / best_of_15(one, lowest, rho)
    found = np.array(list(ratios.values()))
    print(f"{len(found)} problems, median {np.median(found):.2f}, worst {found.max():.2f}")
    assert np.median(found) <= 1.5
    assert (found <= 3).mean() >= 0.9


@pytest.mark.parametrize(
    "method",
    [
        None,
        pdmm.PDMM(),
        pdmm.AGPDMM(),
        pdmm.GPDMM(),
        pdmm.GradientDescent(),
        pdmm.Scaffold(),
    ],
    ids=lambda m: type(m).__name__,
)
def test_cosh_that_is_e_to_the_50_steep_ten_units_away(method: pdmm.Method | None) -> None:
    centres = (-1.0, 0.0, 2.0)

    def value(c: float) -> Any:
        return lambda x: float(np.cosh(5 * (x - c)).sum())

    def gradient(c: float) -> Any:
        return lambda x: 5 * np.sinh(5 * (x - c))

    problem = pdmm.Functions([value(c) for c in centres], [gradient(c) for c in centres], 1)
    result = pdmm.solve(problem, method, rounds=200)
    assert result.x[0] == pytest.approx(0.49933301, rel=1e-5)
    if method is None:
        assert result.rounds <= 20


# --- kinks ------------------------------------------------------------------------------------


def with_kinks(kind: str) -> pdmm.Functions:
    """Functions that are smooth but for a kink, without their prox."""

    def value(a: float) -> Any:
        if kind == "absolute value":
            return lambda x: float(np.abs(x - a).sum()) + 0.05 * float(x @ x)
        return lambda x: float(np.maximum(0, 1 - a * x).sum()) + 0.05 * float(x @ x)

    def gradient(a: float) -> Any:
        if kind == "absolute value":
            return lambda x: np.sign(x - a) + 0.1 * x
        return lambda x: np.where(a * x < 1, -a, 0.0) + 0.1 * x

    centres = (-1.0, 0.5, 2.0)
    return pdmm.Functions([value(a) for a in centres], [gradient(a) for a in centres], 2)


@pytest.mark.parametrize("kind", ["absolute value", "hinge"])
def test_a_kink_is_named_with_what_to_give(kind: str) -> None:
    with pytest.raises(pdmm.ClientError, match=r"client \d has a kink.*prox=") as caught:
        pdmm.solve(with_kinks(kind))
    assert any("in round" in note for note in caught.value.__notes__)


def test_gradient_steps_need_no_prox() -> None:
    result = pdmm.solve(with_kinks("hinge"), pdmm.GradientDescent(0.01), rounds=50)
    assert result.history["objective"][-1] < result.history["objective"][0]
