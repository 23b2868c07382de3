"""Runs that had come to their end, and go on only where there is more to do."""

from pathlib import Path
from typing import Any

import pytest

import pdmm
from builders.checkpoints import (
    AG,
    HaltError,
    Make,
    absolute,
    assert_same,
    bytes_of,
    done,
    halt_at,
    hinges,
    laid_down,
    never,
    squares,
)


def diverging() -> pdmm.Method:
    return pdmm.FedAvg(step_size=50.0, local_steps=5)


FINISHED: dict[str, tuple[Make, pdmm.Method | None, dict[str, Any], str]] = {
    "all rounds": (squares, AG, {"rounds": 10}, "all 10 rounds done"),
    "not reached": (squares, AG, {"rounds": 10, "tolerance": 1e-30}, "not reached"),
    "certified": (squares, None, {}, "certified"),
    "optimal start": (
        squares,
        AG,
        {"rounds": 10, "tolerance": 1e-6, "regulariser": pdmm.L1(1e6)},
        "the start is optimal",
    ),
    "diverged": (squares, diverging(), {"rounds": 300, "participation": 0.5}, "diverged"),
    "functions": (hinges, pdmm.AGPDMM(step_size="auto", local_steps=4), {"rounds": 10}, "all 10"),
    "kinks": (absolute, None, {"rounds": 10}, "all 10"),
}


@pytest.mark.parametrize("case", FINISHED.values(), ids=FINISHED)
def test_a_finished_run_returns_its_result(
    case: tuple[Make, pdmm.Method | None, dict[str, Any], str], place: Path
) -> None:
    make, method, given, words = case
    whole = pdmm.solve(make(), method, checkpoint=place, **given)
    assert words in whole.reason
    before = bytes_of(place.parent)
    for _ in range(2):
        assert_same(pdmm.resume(place, make(), callback=never), whole)
    assert bytes_of(place.parent) == before
    if "rounds" in given and "all" not in whole.reason:  # more rounds do not undo why it ended
        found = pdmm.resume(place, make(), rounds=given["rounds"] + 50, callback=never)
        assert found.reason == whole.reason


@pytest.mark.parametrize("method", [AG, pdmm.PDMM(rho=10.0), pdmm.Scaffold(0.02, 3)])
def test_more_rounds(method: pdmm.Method, place: Path) -> None:
    given: dict[str, Any] = {"participation": 0.5, "loss": 0.1, "bits": 8}

    def make() -> pdmm.Problem:
        return squares().factorise()

    short = pdmm.solve(make(), method, rounds=10, checkpoint=place, **given)
    whole = pdmm.solve(make(), method, rounds=25, **given)
    with pytest.raises(HaltError):
        pdmm.resume(place, make(), rounds=17, callback=halt_at(14), every=1)
    assert done(place) == 13
    assert_same(pdmm.resume(place, make(), rounds=25), whole)
    assert short.rounds == 10
    assert_same(pdmm.resume(place, make(), callback=never), whole)  # the 25 are in the file


def test_fewer_rounds_than_are_done_are_refused(place: Path) -> None:
    laid_down(place)
    before = bytes_of(place.parent)
    with pytest.raises(ValueError, match="rounds is 7, but 8 are done"):
        pdmm.resume(place, squares(), rounds=7)
    with pytest.raises(ValueError, match="rounds must be a whole number"):
        pdmm.resume(place, squares(), rounds=10.5)  # type: ignore[arg-type]
    assert bytes_of(place.parent) == before
    shorter = pdmm.resume(place, squares(), rounds=12)
    assert_same(shorter, pdmm.solve(squares(), AG, rounds=12, participation=0.5))
