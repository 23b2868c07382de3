"""Runs that are stopped and taken up again: the same bits as those that never stopped."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.checkpoints import (
    AG,
    HaltError,
    Make,
    absolute,
    assert_same,
    halt_at,
    hinges,
    images,
    never,
    rows,
    squares,
)


def squares32() -> pdmm.LeastSquares:
    return squares(dtype=np.float32)


def interrupted(
    make: Make,
    path: Path,
    method: pdmm.Method | None,
    stops: list[int],
    every: int = 3,
    code: dict[str, Any] | None = None,
    **given: Any,
) -> pdmm.Result:
    """A run that breaks off at some rounds, and is taken up after each with a fresh problem.

    Args:
        code: what must be given again to resume.
    """
    again, threads = code or {}, given.pop("threads", 1)
    problem = make()
    broken = False
    try:
        pdmm.solve(
            problem,
            method,
            checkpoint=path,
            every=every,
            callback=halt_at(stops[0]),
            threads=threads,
            **given,
        )
    except HaltError:
        broken = True
    assert broken, f"the run ended before round {stops[0]}"
    for k, stop in enumerate(stops[1:]):
        # Threads may differ from one process to the next.
        with pytest.raises(HaltError):
            pdmm.resume(path, make(), callback=halt_at(stop), threads=1 + k % 2, **again)
    return pdmm.resume(path, make(), threads=threads, **again)


SPLIT = pdmm.InexactFedSplit(gamma=0.1, step_size=0.02, local_steps=3, start="server")
METHODS: dict[str, pdmm.Method] = {
    "PDMM": pdmm.PDMM(rho=10.0),
    "FedSplit": pdmm.FedSplit(gamma=0.1, relaxation=0.8),
    "InexactFedSplit": SPLIT,
    "GPDMM": pdmm.GPDMM(step_size=0.02, local_steps=3),
    "GPDMM last": pdmm.GPDMM(step_size=0.02, local_steps=3, iterate="last", rho=8.0),
    "AGPDMM": AG,
    "Scaffold": pdmm.Scaffold(step_size=0.02, local_steps=3),
    "Scaffold both": pdmm.Scaffold(step_size=0.02, local_steps=3, send_control=True),
    "FedAvg": pdmm.FedAvg(step_size=0.02, local_steps=3),
    "FedProx": pdmm.FedProx(step_size=0.02, local_steps=3, mu=2.0),
    "FedDyn": pdmm.FedDyn(step_size=0.02, local_steps=3, alpha=10.0),
    "GradientDescent": pdmm.GradientDescent(step_size=0.05),
}
LINKS: dict[str, dict[str, Any]] = {
    "perfect": {},
    "unreliable": {"participation": 0.5, "loss": 0.3, "bits": 6},
    "server": {"participation": 4, "loss": 0.2, "state": "server"},
}


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_goes_on_to_the_same_bits(
    method: pdmm.Method, links: str, place: Path
) -> None:
    given = LINKS[links]
    whole = pdmm.solve(squares(), method, rounds=16, seed=5, **given)
    found = interrupted(squares, place, method, [5, 8, 8], rounds=16, seed=5, **given)
    assert_same(found, whole)


ADAPTIVE: dict[str, tuple[Make, pdmm.Method | None, int]] = {
    "lbfgs": (squares, pdmm.LBFGS(3), 25),
    "chosen": (squares, None, 40),
    "chosen, rows": (rows, None, 60),
    "rho": (squares, pdmm.PDMM(rho="auto"), 25),
    "rho, AGPDMM": (squares, pdmm.AGPDMM(rho="auto"), 25),
    "gamma": (squares, pdmm.FedSplit(gamma="auto"), 25),
    "gamma, inexact": (squares, pdmm.InexactFedSplit(start="server"), 25),
    "anderson": (squares, pdmm.PDMM(rho=3.0, acceleration="anderson"), 25),
    "anderson, GPDMM": (squares, pdmm.GPDMM(0.02, 3, acceleration="anderson"), 25),
    "both, AGPDMM": (squares, pdmm.AGPDMM(rho="auto", acceleration="anderson"), 25),
    "both, GPDMM": (squares, pdmm.GPDMM(rho="auto", acceleration="anderson"), 25),
    "both, softmax": (lambda: images(batch_size=None), None, 25),
    "both, kinks": (absolute, pdmm.PDMM(rho="auto", relaxation=0.9), 25),
    "auto, no adapting": (squares, pdmm.Scaffold(), 15),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "state"),
    [*((name, "clients") for name in ADAPTIVE), ("chosen", "server"), ("both, GPDMM", "server")],
)
def test_what_adapts_goes_on_to_the_same_bits(name: str, state: str, place: Path) -> None:
    make, method, rounds = ADAPTIVE[name]
    given: dict[str, Any] = {"rounds": rounds, "state": state}
    whole = pdmm.solve(make(), method, **given)
    stops = [r for r in (2, 4, 7, 8) if r < whole.rounds]
    assert len(stops) >= 3
    assert_same(interrupted(make, place, method, stops, every=2, **given), whole)


def test_float32_that_adapts_goes_on_to_the_same_bits(place: Path) -> None:
    def make() -> pdmm.Problem:
        return squares(dtype=np.float32)

    whole = pdmm.solve(make(), rounds=40)
    assert whole.rounds > 6
    found = interrupted(make, place, None, [3, 5, 6], every=1, rounds=40)
    assert found.x.dtype == np.float32
    assert_same(found, whole)


OPTIMUM = np.linspace(-1, 1, 4)
OTHERS: dict[str, dict[str, Any]] = {
    "a count": {"participation": 2},
    "a schedule": {"participation": [0.5, 2, [0, 3], 1.0]},
    "a schedule of arrays": {"participation": [np.array([1, 2]), np.float64(0.5), np.int64(3)]},
    "numpy's fraction": {"participation": np.float32(0.5)},
    "probabilities": {"availability": [0.2, 0.9, 0.5, 1.0, 0.7, 0.3]},
    "an array of probabilities": {"availability": np.linspace(0.2, 1.0, 6), "participation": 3},
    "a table": {"availability": np.tri(5, 6, dtype=bool), "participation": 2},
    "a table of lists": {"availability": np.tri(5, 6, dtype=bool).tolist()},
    "on and off": {"availability": pdmm.OnOff(0.3, 0.4), "participation": 0.5},
    "loss": {"loss": 0.4},
    "bursts": {"loss": pdmm.Bursts(0.3, 0.4), "participation": 0.7},
    "bursts, in part": {"loss": pdmm.Bursts(0.2, 0.3, loss=0.9, otherwise=0.1), "bits": 4},
    "bits": {"bits": 3},
    "steps": {"local_steps": [1, 2, 3, 4, 5, 6], "participation": 0.5},
    "an array of steps": {"local_steps": np.arange(1, 7)},
    "at the server": {"state": "server", "bits": 5, "loss": 0.2},
    "weights": {"weights": np.linspace(0.5, 3, 6), "participation": 0.5},
    "a list of weights": {"weights": [1, 2, 3, 4, 5, 6]},
    "L1": {"regulariser": pdmm.L1(2.0), "loss": 0.1},
    "SquaredL2": {"regulariser": pdmm.SquaredL2(2.0), "participation": 0.5},
    "Box": {"regulariser": pdmm.Box(-0.2, 0.3), "participation": 0.5},
    "Box of arrays": {"regulariser": pdmm.Box([-1.0, -np.inf, 0.0, -0.1], np.full(4, np.inf))},
    "a start": {"x0": [1.0, -2.0, 3.0, 0.1], "participation": 0.5},
    "rows": {"record_every": 4},
    "rows of a part": {"record_every": 7, "participation": 0.5, "bits": 4},
    "F* given": {"optimum": 1.0},
    "F* given, numpy": {"optimum": np.float32(1.5)},
    "F* given, whole": {"optimum": 0},
    "x* given": {"optimum": OPTIMUM},
    "x* given as a list": {"optimum": OPTIMUM.tolist(), "participation": 0.5},
    "no optimum": {"optimum": False, "participation": 0.5},
    "tolerance": {"tolerance": 1e-30, "check_every": 4},
    "tolerance reached": {"tolerance": 1e-3, "check_every": 6, "record_every": 4},
    "a seed": {"seed": 2**40, "participation": 0.3, "loss": 0.5},
    "two threads": {"threads": 2, "participation": 0.5},
}


@pytest.mark.slow
@pytest.mark.parametrize("given_", OTHERS.values(), ids=OTHERS)
def test_every_setting_is_in_the_file(given_: dict[str, Any], place: Path) -> None:
    make = squares32 if "bits" in given_ or "x0" in given_ or "optimum" in given_ else squares

    whole = pdmm.solve(make(), AG, rounds=18, **given_)
    stops = [r for r in (4, 5, 6, 10) if r < whole.rounds]
    found = interrupted(make, place, AG, stops, rounds=18, **given_)
    assert_same(found, whole)


def test_bits_that_are_raised_stay_raised(place: Path) -> None:
    # FedAvg's clients drift apart however finely they speak: first more bits, then back.
    method = pdmm.FedAvg(step_size=0.02, local_steps=3)
    given: dict[str, Any] = {"rounds": 100, "bits": 2, "record_every": 5}
    whole = pdmm.solve(squares(), method, **given)
    words = " ".join(whole.choices)
    raised = int(words.split("bits 2 -> 4 after round ")[1].split(":")[0])
    back = int(words.split("bits 4 -> 2 after round ")[1].split(":")[0])
    stops = [20, raised - 1, raised + 1, raised + 2, back, back + 2]
    assert_same(interrupted(squares, place, method, stops, every=2, **given), whole)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_mini_batches_go_on_where_they_were(participation: float, place: Path) -> None:
    # Two batches of four of ten samples, three steps a round: rounds begin with either batch.
    method = pdmm.AGPDMM(step_size=0.3, local_steps=3)
    whole = pdmm.solve(images(), method, rounds=15, participation=participation)
    fresh = pdmm.solve(images(batch_size=None), method, rounds=15, participation=participation)
    assert (whole.x != fresh.x).any()
    found = interrupted(
        images, place, method, [3, 7, 8, 12], every=1, rounds=15, participation=participation
    )
    assert_same(found, whole)


@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_what_functions_have_shown_is_carried_over(participation: float, place: Path) -> None:
    method = pdmm.AGPDMM(step_size="auto", local_steps=4)
    steps: list[float] = []
    for rounds in (1, 4, 30):
        short = pdmm.solve(hinges(), method, rounds=rounds, participation=participation)
        steps.append(short.method.step_size)  # type: ignore[attr-defined]
    assert steps[0] > steps[-1]  # a larger L was met on the way
    whole = pdmm.solve(hinges(), method, rounds=30, participation=participation)
    for k, stops in enumerate(([1], [2, 3], [4, 9, 20])):
        path = place.with_name(f"{k}.safetensors")
        found = interrupted(
            hinges, path, method, stops, every=1, rounds=30, participation=participation
        )
        assert_same(found, whole)


def test_exact_steps_of_functions_go_on_from_where_they_were(place: Path) -> None:
    whole = pdmm.solve(hinges(), rounds=30)
    stops = [r for r in (2, 3, 5) if r < whole.rounds]
    assert_same(interrupted(hinges, place, None, stops, every=1, rounds=30), whole)


def test_callables_are_given_again(place: Path) -> None:
    code: dict[str, Any] = {
        "participation": lambda r: 2 + r % 3,
        "local_steps": lambda r, i: 1 + (r + i) % 4,
    }
    whole = pdmm.solve(squares(), AG, rounds=15, loss=0.2, **code)
    found = interrupted(squares, place, AG, [4, 9], rounds=15, loss=0.2, code=code, **code)
    assert_same(found, whole)


@st.composite
def combinations(draw: st.DrawFn) -> tuple[dict[str, Any], list[int], int]:
    given: dict[str, Any] = {"seed": draw(st.integers(0, 99))}

    def maybe(name: str, values: st.SearchStrategy[Any]) -> None:
        if draw(st.booleans()):
            given[name] = draw(values)

    method = draw(st.sampled_from(sorted(METHODS)))
    plain = METHODS[method].no_regulariser == "" and method != "GradientDescent"
    given["method"] = method
    maybe("participation", st.sampled_from([0.3, 0.5, 4, [1, 5], [[0, 2], 3]]))
    maybe(
        "availability",
        st.sampled_from(
            [pdmm.OnOff(0.2, 0.5), [0.5] * 6, np.eye(6, dtype=bool) | (np.arange(6) > 3)]
        ),
    )
    maybe("loss", st.sampled_from([0.1, 0.5, pdmm.Bursts(0.3, 0.3)]))
    maybe("bits", st.integers(2, 16))
    maybe("state", st.just("server"))
    maybe("weights", st.just(np.linspace(1, 2, 6)))
    maybe("record_every", st.integers(1, 6))
    maybe("x0", st.just([0.5, -1.0, 2.0, 0.0]))
    maybe("optimum", st.sampled_from([False, 3.0, [0.0, 1.0, 2.0, 3.0]]))
    maybe("tolerance", st.sampled_from([1e-2, 1e-9]))
    maybe("check_every", st.integers(1, 7))
    if plain:
        maybe("regulariser", st.sampled_from([pdmm.L1(1.0), pdmm.SquaredL2(1.0), pdmm.Box(-1, 1)]))
    if method in ("AGPDMM", "GPDMM", "Scaffold both", "FedAvg", "InexactFedSplit"):
        maybe("local_steps", st.just([1, 4, 2, 3, 1, 2]))
    stops = draw(st.lists(st.integers(1, 19), min_size=1, max_size=4))
    return given, sorted(stops), draw(st.integers(1, 8))


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(combinations(), st.sampled_from([np.float64, np.float32]))
def test_any_combination_goes_on_to_the_same_bits(
    drawn: tuple[dict[str, Any], list[int], int], dtype: Any
) -> None:
    given_, stops, every = drawn
    kept = {**given_, "rounds": 20}
    method = METHODS[kept.pop("method")]

    def make() -> pdmm.Problem:
        return squares(dtype=dtype)

    whole = pdmm.solve(make(), method, **kept)
    stops = [r for r in stops if r < whole.rounds]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        if stops:
            found = interrupted(make, path, method, stops, every=every, **kept)
        else:
            found = pdmm.solve(make(), method, checkpoint=path, every=every, **kept)
        assert_same(found, whole)
        assert_same(pdmm.resume(path, make(), callback=never), whole)
