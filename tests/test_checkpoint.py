"""Runs that are stopped, killed and taken up again: the same bits as those that never stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import pdmm
from pdmm.common import packing as plain_values
from pdmm.run import checkpoint
from pdmm.run.loop import Run

Make = Callable[[], pdmm.Problem]
AG = pdmm.AGPDMM(step_size=0.02, local_steps=3)


class HaltError(Exception):
    """Raised by a callback: the run ends wherever it is."""


# --- problems, made anew for every process that would have to make them ---------------------


def squares(seed: int = 0, dtype: Any = np.float64, clients: int = 6) -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(clients=clients, samples=12, features=4, seed=seed, dtype=dtype)


def squares32() -> pdmm.LeastSquares:
    return squares(dtype=np.float32)


def rows() -> pdmm.LeastSquares:
    """Clients with different numbers of rows, which are kept as they are."""
    rng = np.random.default_rng(3)
    A = [rng.standard_normal((n, 5)) for n in (3, 7, 4, 9)]
    return pdmm.LeastSquares(A, [a @ np.arange(5.0) + rng.standard_normal(len(a)) for a in A])


def images(seed: int = 0, batch_size: int | None = 4, l2: float = 0.1) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((10, 2)) + c for c in range(4)]
    y = [rng.integers(0, 3, 10) for _ in range(4)]
    return pdmm.SoftmaxRegression(X, y, classes=3, l2=l2, batch_size=batch_size)


def hinges() -> pdmm.Functions:
    """Functions that are steeper where the run goes than where L is estimated."""

    def value(x: Any, c: float) -> float:
        over = np.maximum(x - 15, 0)
        return 0.5 * float(np.sum((x - c) ** 2)) + 4 * float(over @ over)

    def gradient(x: Any, c: float) -> Any:
        return (x - c) + 8 * np.maximum(x - 15, 0)

    centres = (40.0, 60.0, 80.0)
    return pdmm.Functions(
        value=[partial(value, c=c) for c in centres],
        gradient=[partial(gradient, c=c) for c in centres],
        dimension=3,
    )


def absolute() -> pdmm.Functions:
    """Functions with a prox and kinks."""
    centres = [np.array([0.0, 1.0]), np.array([2.0, -1.0]), np.array([5.0, 3.0])]

    def value(x: Any, c: Any) -> float:
        return float(np.abs(x - c).sum())

    def gradient(x: Any, c: Any) -> Any:
        return np.sign(x - c)

    def prox(v: Any, t: float, c: Any) -> Any:
        return c + np.sign(v - c) * np.maximum(np.abs(v - c) - t, 0)

    return pdmm.Functions(
        value=[partial(value, c=c) for c in centres],
        gradient=[partial(gradient, c=c) for c in centres],
        dimension=2,
        prox=[partial(prox, c=c) for c in centres],
    )


# --- runs --------------------------------------------------------------------------------------


def assert_same(found: pdmm.Result, whole: pdmm.Result) -> None:
    """The same bits of all but the seconds."""
    assert found.x.dtype == whole.x.dtype
    assert found.x.tobytes() == whole.x.tobytes()
    assert list(found.history) == list(whole.history)
    for name, column in whole.history.items():
        assert found.history[name].dtype == column.dtype, name
        assert found.history[name].shape == column.shape, name
        if name != "seconds":
            np.testing.assert_array_equal(found.history[name], column, err_msg=name)
    for name in ("reason", "diverged", "rounds", "method", "choices", "seed", "traffic", "scalars"):
        assert getattr(found, name) == getattr(whole, name), name
    assert found.optimum == whole.optimum
    # As words: NaN is not equal to itself.
    assert repr(astuple(found.certificate)) == repr(astuple(whole.certificate))


def halt_at(stop: int) -> Callable[[int, Any], None]:
    def callback(r: int, x: Any) -> None:
        if r == stop:
            raise HaltError

    return callback


def never(r: int, x: Any) -> None:
    raise AssertionError(f"round {r} was run")


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


def header(path: Path) -> dict[str, Any]:
    """What the checkpoint says beside its arrays."""
    with safe_open(path, framework="numpy") as file:
        found: dict[str, Any] = json.loads(file.metadata()["run"])
    return found


def arrays_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def done(path: Path) -> int:
    return int(header(path)["state"]["dict"]["done"])


def history_of(path: Path) -> Path:
    return path.with_name(path.name + ".history")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run.safetensors"


def laid_down(path: Path, **given: Any) -> None:
    """A run of 20 rounds, broken off after 9 of them, whose checkpoint is of round 8."""
    settings: dict[str, Any] = {"rounds": 20, "every": 4, "participation": 0.5, **given}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), AG, checkpoint=path, callback=halt_at(9), **settings)
    assert done(path) == 8


# --- the same bits -----------------------------------------------------------------------------

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


# --- ways to stop ------------------------------------------------------------------------------


def test_stopped_by_the_callback_and_taken_up(place: Path) -> None:
    given: dict[str, Any] = {"rounds": 20, "participation": 0.5, "bits": 4}
    whole = pdmm.solve(squares(), AG, **given)
    stopped = pdmm.solve(squares(), AG, checkpoint=place, callback=lambda r, x: r == 7, **given)
    assert stopped.reason == "stopped by the callback after round 7"
    assert done(place) == 7  # it was finished: no round is lost
    again = pdmm.resume(place, squares(), callback=lambda r, x: r == 13)
    assert again.reason == "stopped by the callback after round 13"
    assert_same(pdmm.resume(place, squares()), whole)
    assert_same(pdmm.resume(place, squares(), callback=never), whole)


STOPPED: dict[str, tuple[pdmm.Method, dict[str, Any]]] = {
    "rows": (AG, {"record_every": 5}),
    "rows, part": (AG, {"record_every": 5, "participation": 0.5}),
    "rows, exact": (pdmm.PDMM(rho=10.0), {"record_every": 5}),
    "checks": (AG, {"tolerance": 1e-30, "check_every": 5}),
    "checks and rows": (AG, {"tolerance": 1e-30, "check_every": 4, "record_every": 5}),
}


@pytest.mark.parametrize("case", STOPPED.values(), ids=STOPPED)
def test_a_stop_by_the_callback_leaves_no_trace(
    case: tuple[pdmm.Method, dict[str, Any]], place: Path
) -> None:
    # The stopped run's own result has a row for its last round, and its certificate; the run
    # that goes on never had them.
    method, given = case
    whole = pdmm.solve(squares(), method, rounds=20, **given)
    stopped = pdmm.solve(
        squares(), method, rounds=20, checkpoint=place, callback=lambda r, x: r == 7, **given
    )
    assert stopped.history["round"][-1] == 7
    assert_same(pdmm.resume(place, squares()), whole)


def test_a_stop_in_the_round_that_is_the_last_anyway(place: Path) -> None:
    certified = pdmm.solve(squares(), AG, rounds=60, tolerance=1e-3, check_every=3)
    assert "certified" in certified.reason
    last = certified.rounds
    given: dict[str, Any] = {"tolerance": 1e-3, "check_every": 3}
    pdmm.solve(squares(), AG, rounds=60, checkpoint=place, callback=lambda r, x: r == last, **given)
    assert_same(pdmm.resume(place, squares()), certified)
    other = place.with_name("other")
    whole = pdmm.solve(squares(), AG, rounds=12)
    pdmm.solve(squares(), AG, rounds=12, checkpoint=other, callback=lambda r, x: r == 12)
    assert_same(pdmm.resume(other, squares(), callback=never), whole)


def test_a_users_function_that_raises(place: Path) -> None:
    method = pdmm.AGPDMM(step_size="auto", local_steps=4)
    whole = pdmm.solve(hinges(), method, rounds=12)
    for call in (25, 35, 50):
        problem = hinges()
        plain, calls = problem.functions["gradient"][1], [0]

        def gradient(x: Any, plain: Any = plain, calls: list[int] = calls, call: int = call) -> Any:
            calls[0] += 1
            if calls[0] >= call:
                raise RuntimeError("out of memory")
            return plain(x)

        broken = list(problem.functions["gradient"])
        broken[1] = gradient
        problem.functions["gradient"] = broken
        path = place.with_name(f"{call}.safetensors")
        with pytest.raises(pdmm.ClientError, match="out of memory"):
            pdmm.solve(problem, method, rounds=12, checkpoint=path, every=2)
        assert done(path) < 12
        assert_same(pdmm.resume(path, hinges()), whole)


# A process of its own that forks one child a job; a child kills itself where it is told to. Each
# ends by itself, and the parent waits for it.
WORKER = """
import json, os, signal, sys
from pathlib import Path

import pdmm
import safetensors.numpy
import pdmm.common.whole_files, pdmm.run.checkpoint

path, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
method = pdmm.AGPDMM(step_size=0.02, local_steps=3)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def child(where, count):
    callback, left = None, [count]

    def due():
        left[0] -= 1
        return left[0] == 0

    def before(function):
        def replaced(*arguments, **named):
            if due():
                die()
            return function(*arguments, **named)
        return replaced

    if where == "round":
        callback = lambda r, x: due() and die()
    elif where == "replace":
        os.replace = before(os.replace)
    elif where == "replaced":
        plain = os.replace
        def replaced(*arguments):
            plain(*arguments)
            if due():
                die()
        os.replace = replaced
    elif where == "fsync":
        os.fsync = before(os.fsync)
    elif where == "half":  # of the history's new rows, and of the checkpoint
        plain_open = open
        class Half:
            def __init__(self, file):
                self.file = file
            def __enter__(self):
                self.file.__enter__()
                return self
            def __exit__(self, *arguments):
                return self.file.__exit__(*arguments)
            def __getattr__(self, name):
                return getattr(self.file, name)
            def write(self, contents):
                if due():
                    self.file.write(contents[: len(contents) // 2])
                    self.file.flush()
                    die()
                return self.file.write(contents)
        checkpoint, whole_files = pdmm.run.checkpoint, pdmm.common.whole_files
        checkpoint.open = lambda *a: Half(plain_open(*a)) if "a" in a[1] else plain_open(*a)
        whole_files.open = lambda *a: Half(plain_open(*a))
    if path.exists():
        pdmm.resume(path, problem, callback=callback, threads=1)
    else:
        pdmm.solve(
            problem, method, rounds=40, participation=0.5, loss=0.2, bits=4, record_every=2,
            checkpoint=path, every=3, callback=callback, threads=1,
        )


for where, count in jobs:
    pid = os.fork()
    if pid == 0:
        try:
            child(where, count)
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
"""


def run_worker(path: Path, jobs: list[tuple[str, int]]) -> list[int]:
    """The signals that ended the children, 0 for none."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, str(path), json.dumps(jobs)],
        env={**os.environ, **one},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [int(line) for line in ended.stdout.split()]


def killed_result(path: Path) -> pdmm.Result:
    whole = pdmm.solve(
        squares(), AG, rounds=40, participation=0.5, loss=0.2, bits=4, record_every=2
    )
    found = pdmm.resume(path, squares())
    assert_same(found, whole)
    return whole


def test_killed_at_every_kind_of_moment(place: Path) -> None:
    jobs = [
        ("round", 2),  # before the second checkpoint
        ("round", 7),
        ("replace", 1),  # the new checkpoint is there, but beside the old
        ("replace", 3),
        ("replaced", 2),
        ("half", 1),  # of the history's rows
        ("half", 2),  # of the checkpoint
        ("half", 3),
        ("fsync", 1),  # rows are written, the checkpoint is not
        ("fsync", 2),
        ("fsync", 4),
        ("round", 1),
        ("round", 1),
        ("replaced", 1),
        ("replace", 1),
        ("half", 4),
        ("round", 5),
    ]
    assert run_worker(place, jobs) == [signal.SIGKILL] * len(jobs)
    assert done(place) < 40
    killed_result(place)


def test_killed_before_its_first_checkpoint_it_begins_again(place: Path) -> None:
    # There is nothing to take up yet: the same call begins the run, whatever is left behind.
    jobs = [("fsync", 1), ("half", 1), ("half", 2), ("replace", 1), ("round", 4)]
    assert run_worker(place, jobs) == [signal.SIGKILL] * len(jobs)
    killed_result(place)


SLOW = """
import sys, time, pdmm
from pathlib import Path
path = Path(sys.argv[1])
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
slow = lambda r, x: time.sleep(0.001)
if path.exists():
    pdmm.resume(path, problem, callback=slow)
else:
    pdmm.solve(
        problem, pdmm.AGPDMM(step_size=0.02, local_steps=3), rounds=200, participation=0.5,
        loss=0.2, bits=4, record_every=2, checkpoint=path, every=3, callback=slow,
    )
"""


def test_killed_from_outside_several_times(place: Path) -> None:
    killed = 0
    for rows in (4, 30, 60):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, str(place)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline:
                history = history_of(place)
                if place.exists() and history.read_bytes().count(b"\n") > rows:
                    break
                time.sleep(0.005)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
        finally:
            process.kill()
            process.wait()
    assert killed > 0
    whole = pdmm.solve(
        squares(), AG, rounds=200, participation=0.5, loss=0.2, bits=4, record_every=2
    )
    assert_same(pdmm.resume(place, squares()), whole)


# --- runs that had finished --------------------------------------------------------------------


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


# --- the file ----------------------------------------------------------------------------------


def test_the_file_is_plain_arrays_and_json(place: Path) -> None:
    laid_down(place, loss=pdmm.Bursts(0.2, 0.3), bits=4, regulariser=pdmm.L1(0.1))
    raw = place.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    found = json.loads(raw[8 : 8 + length])
    meta = found.pop("__metadata__")
    assert meta["format"] == "pdmm run"
    assert meta["version"] == str(checkpoint.VERSION)
    run = json.loads(meta["run"])
    assert {"problem", "settings", "state", "every", "columns", "rows", "length"} <= set(run)
    kinds = {entry["dtype"] for entry in found.values()}
    assert kinds <= {"F64", "F32", "I64", "I32", "BOOL"}
    ends = max(entry["data_offsets"][1] for entry in found.values())
    assert len(raw) == 8 + length + ends  # nothing else is in it
    lines = history_of(place).read_text().splitlines()
    assert all(len(json.loads(line)) == len(run["columns"]) for line in lines)
    assert len(lines) >= run["rows"]


def test_checkpoints_are_written_as_often_as_asked(place: Path) -> None:
    seen: list[int] = []

    def look(r: int, x: Any) -> None:
        seen.append(done(place))

    pdmm.solve(squares(), AG, rounds=11, checkpoint=place, every=4, callback=look)
    assert seen == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8]
    assert done(place) == 11
    seen.clear()
    pdmm.resume(place, squares(), rounds=16, every=2, callback=look)
    assert seen == [11, 12, 12, 14, 14]
    seen.clear()
    pdmm.resume(place, squares(), rounds=19, callback=look)  # as before
    assert seen == [16, 16, 18]
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="every must be"):
            pdmm.solve(squares(), AG, 3, checkpoint=place.with_name("no"), every=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="every must be"):
            pdmm.resume(place, squares(), every=wrong)  # type: ignore[arg-type]
    assert not place.with_name("no").exists()


def test_the_history_only_grows(place: Path) -> None:
    seen: list[bytes] = [b""]

    def look(r: int, x: Any) -> None:
        text = history_of(place).read_bytes()
        assert text.startswith(seen[-1])
        seen.append(text)

    whole = pdmm.solve(squares(), AG, rounds=12, checkpoint=place, every=3, callback=look)
    look(12, None)
    assert [text.count(b"\n") for text in seen[1:]] == [1, 1, 1, 4, 4, 4, 7, 7, 7, 10, 10, 10, 13]
    columns = dict(
        zip(
            header(place)["columns"],
            zip(*map(json.loads, seen[-1].splitlines()), strict=True),
            strict=True,
        )
    )
    for name, column in whole.history.items():
        np.testing.assert_array_equal(columns[name], column)
    pdmm.resume(place, squares(), rounds=20, callback=look)
    assert history_of(place).read_bytes().startswith(seen[-1])


@pytest.mark.parametrize("left", [b"[1, 2, 3]\n", b"[8, 3.5", b"garbage" * 1000])
def test_rows_after_the_checkpoint_are_cut_off(left: bytes, place: Path) -> None:
    laid_down(place)
    whole = pdmm.solve(squares(), AG, rounds=20, participation=0.5)
    counted = history_of(place).read_bytes()[: header(place)["length"]]
    with open(history_of(place), "ab") as file:
        file.write(left)
    assert_same(pdmm.resume(place, squares()), whole)
    text = history_of(place).read_bytes()
    assert text.startswith(counted)
    assert text.count(b"\n") == 21


def test_killed_while_writing_leaves_the_old_one_whole(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_down(place)
    before = place.read_bytes()
    counted = history_of(place).read_bytes()[: header(place)["length"]]

    def fail(*arguments: Any) -> None:
        raise OSError("No space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space left"):
                pdmm.resume(place, squares())
        assert place.read_bytes() == before
        assert history_of(place).read_bytes().startswith(counted)
    assert_same(
        pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=20, participation=0.5)
    )


def test_a_write_that_fails_leaves_nothing_behind(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_down(place)

    def fail(*arguments: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            pdmm.resume(place, squares())
    assert set(bytes_of(place.parent)) == {place.name, history_of(place).name}


def test_a_checkpoint_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "run.safetensors"
    whole = pdmm.solve(squares(), AG, rounds=5, checkpoint=str(path))
    assert_same(pdmm.resume(str(path), squares()), whole)


def cut(length: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:length])


def meta(**changes: str | None) -> Callable[[Path], object]:
    """Other words in the header."""

    def write(path: Path) -> None:
        arrays = arrays_of(path)
        with safe_open(path, framework="numpy") as file:
            words = {**file.metadata(), **changes}
        kept = {k: v for k, v in words.items() if v is not None}
        path.write_bytes(safetensors.numpy.save(arrays, kept))

    return write


def rows_left(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Other rows in the history, of those that count."""

    def write(path: Path) -> None:
        counted = history_of(path).read_bytes()[: header(path)["length"]]
        history_of(path).write_bytes(change(counted))

    return write


NOT_ONE, SHORT, ONES = "not a checkpoint", "history .* is shorter", {"x": np.ones(3)}
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (cut(0), NOT_ONE),
    "a byte": (cut(1), NOT_ONE),
    "half a length": (cut(7), NOT_ONE),
    "half a header": (cut(20), NOT_ONE),
    "cut": (cut(-1), NOT_ONE),
    "cut a lot": (cut(-200), NOT_ONE),
    "longer": (lambda p: p.write_bytes(p.read_bytes() + b"x"), NOT_ONE),
    "noise": (lambda p: p.write_bytes(np.random.default_rng(0).bytes(500)), NOT_ONE),
    "text": (lambda p: p.write_text("round,objective\n0,1\n"), NOT_ONE),
    "tensors": (lambda p: p.write_bytes(safetensors.numpy.save(ONES)), NOT_ONE),
    "a model": (lambda p: p.write_bytes(safetensors.numpy.save(ONES, {"format": "pt"})), NOT_ONE),
    "newer": (meta(version=str(checkpoint.VERSION + 1)), "newer pdmm .* update"),
    "much newer": (meta(version="17", run="new"), "newer pdmm .* update"),
    "strange version": (meta(version="2.0b"), "run.safetensors"),
    "no run": (meta(run=None), "run.safetensors"),
    "a broken run": (meta(run='{"problem": '), "run.safetensors"),
    "no file": (lambda p: p.unlink(), "there is no checkpoint"),
    "no history": (lambda p: history_of(p).unlink(), "history .* is missing"),
    "no rows": (rows_left(lambda text: b""), SHORT),
    "a row less": (rows_left(lambda text: text[: text[:-1].rindex(b"\n") + 1]), SHORT),
    "a byte less": (rows_left(lambda text: text[:-1]), SHORT),
    "other rows": (rows_left(lambda text: b"x" * len(text)), "history"),
    "a broken row": (rows_left(lambda text: text[:-9] + b"oops here"), "history"),
}


@pytest.mark.parametrize("case", DAMAGE.values(), ids=DAMAGE)
def test_what_is_no_whole_checkpoint_is_refused_and_left(
    case: tuple[Callable[[Path], object], str], place: Path
) -> None:
    laid_down(place)
    damage, words = case
    damage(place)
    before = bytes_of(place.parent)
    with pytest.raises(ValueError, match=words) as caught:
        pdmm.resume(place, squares())
    assert place.name in str(caught.value)  # which file it is about
    assert bytes_of(place.parent) == before


def test_a_folder_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no checkpoint"):
        pdmm.resume(tmp_path, squares())


def test_a_checkpoint_that_exists_is_not_overwritten(place: Path) -> None:
    laid_down(place)
    before = bytes_of(place.parent)
    with pytest.raises(ValueError, match=r"exists already.*pdmm\.resume"):
        pdmm.solve(squares(), AG, rounds=20, checkpoint=place)
    assert bytes_of(place.parent) == before
    for name in ("something", "other"):  # nor is anything else
        file = place.with_name(name)
        file.write_text("mine")
        with pytest.raises(ValueError, match="exists already"):
            pdmm.solve(squares(), AG, rounds=20, checkpoint=file)
        assert file.read_text() == "mine"
        assert not history_of(file).exists()


def test_without_safetensors_it_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_down(place)
    before = bytes_of(place.parent)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"need safetensors: pip install"):
        pdmm.solve(squares(), AG, rounds=5, checkpoint=place.with_name("new"))
    with pytest.raises(ImportError, match=r"need safetensors: pip install"):
        pdmm.resume(place, squares())
    assert bytes_of(place.parent) == before
    assert pdmm.solve(squares(), AG, rounds=5).rounds == 5  # all else goes without


# --- what must be the same ---------------------------------------------------------------------


def refused(path: Path, problem: Any, words: str, **given: Any) -> None:
    before = bytes_of(path.parent)
    with pytest.raises(ValueError, match=words):
        pdmm.resume(path, problem, **given)
    assert bytes_of(path.parent) == before


def test_another_problem_is_refused(place: Path) -> None:
    laid_down(place)
    refused(place, squares(clients=7), "its clients is 7, and it was 6")
    wide = pdmm.LeastSquares.random(clients=6, samples=12, features=5, seed=0)
    refused(place, wide, "its dimension is 5, and it was 4")
    refused(place, squares(dtype=np.float32), "its dtype is float32, and it was float64")
    same = [lambda x: 0.5 * float(x @ x)] * 6
    other = pdmm.Functions(same, [lambda x: x] * 6, dimension=4)
    refused(place, other, "its kind is Functions, and it was LeastSquares")
    refused(place, squares(seed=1), "problem is not the one of the checkpoint: its objective")
    refused(place, "LeastSquares", "problem must be a pdmm problem")
    refused(place, None, "problem must be a pdmm problem")


def test_a_problem_that_differs_elsewhere_than_at_the_start_is_refused(tmp_path: Path) -> None:
    # F(0) = 1/2 ‖b‖² whatever A is, and n log(classes) whatever the images are.
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((2, 3, 8, 4)), rng.standard_normal((3, 8))
    same, other = pdmm.LeastSquares(A[0], b), pdmm.LeastSquares(A[1], b)
    assert same.objective(np.zeros(4)) == other.objective(np.zeros(4))
    pairs: list[tuple[pdmm.Problem, pdmm.Problem]] = [
        (same, other),
        (images(0, None), images(1, None)),
        (images(0, None), images(0, None, l2=0.2)),
        (images(0, 4), images(0, 5)),
    ]
    accepted: list[Any] = []
    for k, (first, second) in enumerate(pairs):
        path = tmp_path / str(k) / "run"
        with pytest.raises(HaltError):
            pdmm.solve(first, AG, rounds=20, checkpoint=path, callback=halt_at(9), every=4)
        before = bytes_of(path.parent)
        try:
            pdmm.resume(path, second)
        except ValueError as error:
            words = str(error)
        else:
            words = ""
        if "problem is not the one of the checkpoint" not in words:
            accepted.append((first, second))
        elif bytes_of(path.parent) != before:
            accepted.append((first, "the file was changed"))
    assert accepted == []


def test_callables_must_be_given_again(place: Path) -> None:
    laid_down(place, participation=lambda r: 3, local_steps=lambda r, i: 1 + i % 2)
    refused(place, squares(), "participation was a callable: give it to resume again")
    refused(place, squares(), "local_steps was a callable", participation=lambda r: 3)
    refused(place, squares(), "participation was a callable", participation=3, local_steps=[1] * 6)
    found = pdmm.resume(
        place, squares(), participation=lambda r: 3, local_steps=lambda r, i: 1 + i % 2
    )
    assert found.rounds == 20


def test_what_is_in_the_file_cannot_be_changed(place: Path) -> None:
    laid_down(place)
    refused(place, squares(), "participation is in the checkpoint: 0.5", participation=0.2)
    refused(place, squares(), "participation is in the checkpoint", participation=lambda r: 3)
    refused(place, squares(), "local_steps is in the checkpoint", local_steps=[1] * 6)
    other = replace(AG, local_steps=4)
    refused(place, squares(), "method is in the checkpoint.*cannot be changed", method=other)
    refused(place, squares(), "method is in the checkpoint", method=pdmm.PDMM(rho=1.0))
    refused(place, squares(), "callback must be callable", callback=3)
    assert pdmm.resume(place, squares(), method=AG).rounds == 20  # the same may be said again


@dataclass(frozen=True)
class Own(pdmm.AGPDMM):
    """A user's own method: it damps the server's step."""

    damping: float = 1.0

    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return super().server(server, mean, self.damping * share, prox)


def test_a_users_own_method_is_given_again(place: Path) -> None:
    method = Own(step_size=0.02, local_steps=3, damping=0.9)
    whole = pdmm.solve(squares(), method, rounds=20, participation=0.5)
    given: dict[str, Any] = {"rounds": 20, "participation": 0.5}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), method, checkpoint=place, callback=halt_at(9), every=4, **given)
    refused(place, squares(), "method was a Own of your own: give it to resume again")
    refused(
        place, squares(), "method must be the same as then", method=replace(method, damping=0.8)
    )
    refused(place, squares(), "method must be the same as then", method=AG)
    refused(place, squares(), "give it to resume again", method="Own")
    assert_same(pdmm.resume(place, squares(), method=method), whole)


def test_a_users_own_method_may_have_any_name(place: Path) -> None:
    @dataclass(frozen=True)
    class AGPDMM(pdmm.AGPDMM):
        """The name and the parameters of one of the library's, but not what it does."""

        def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
            return super().server(server, mean, 0.9 * share, prox)

    method = AGPDMM(step_size=0.02, local_steps=3)
    given: dict[str, Any] = {"rounds": 12, "participation": 0.5}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), method, checkpoint=place, callback=halt_at(9), every=4, **given)
    refused(place, squares(), "give it to resume again")
    found = pdmm.resume(place, squares(), method=method)
    assert type(found.method) is AGPDMM


def test_a_users_own_regulariser_is_not_lost(place: Path) -> None:
    @dataclass(frozen=True)
    class Half(pdmm.L1):
        def prox(self, v: Any, t: float) -> Any:
            return super().prox(v, t / 2)

    # There is no way to give it again: so no run may begin that could not be taken up.
    with pytest.raises(ValueError, match="regulariser"):
        pdmm.solve(squares(), AG, rounds=5, checkpoint=place, regulariser=Half(1.0))
    assert bytes_of(place.parent) == {}


def test_the_run_on_disk_is_no_link_to_the_run_in_memory(place: Path) -> None:
    """Two runs taken up from copies of one file do not meet."""
    laid_down(place, bits=4, loss=0.2)
    folder = place.with_name("copy")
    folder.mkdir()
    for path in (place, history_of(place)):
        shutil.copy(path, folder / path.name)
    problem = squares()
    first = pdmm.resume(place, problem)
    assert_same(pdmm.resume(folder / place.name, problem), first)


def test_nothing_in_a_state_is_left_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run holds after taking up is what it held when it was laid down."""
    states: list[Any] = []
    plain = Run.state

    def state(self: Run) -> dict[str, Any]:
        found = plain(self)
        states.append(json.dumps(plain_values.pack(found, {}, "state"), default=str))
        return found

    monkeypatch.setattr(Run, "state", state)
    laid_down(place, loss=pdmm.Bursts(0.3, 0.3), bits=3, availability=pdmm.OnOff(0.2, 0.4))
    last = json.loads(states[-1])

    loaded: list[Any] = []

    def look(self: Run, *arguments: Any) -> None:
        load(self, *arguments)
        loaded.append(json.loads(json.dumps(plain_values.pack(plain(self), {}, "state"))))

    load = Run.load
    monkeypatch.setattr(Run, "load", look)
    pdmm.resume(place, squares(), rounds=8, callback=never)
    for found in (last, loaded[0]):
        found["dict"].pop("seconds")
    assert loaded[0] == last


def test_values_of_every_kind_survive(place: Path) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {}
    values: dict[str, Any] = {
        "none": None,
        "truth": True,
        "whole": 2**130,
        "number": 0.1,
        "infinite": float("-inf"),
        "word": "é\n",
        "list": [1, [2.5, None], {"a": np.arange(3)}],
        "scalar": np.float32(0.1),
        "flag": np.bool_(True),
        "empty": np.zeros((0, 4)),
        "point": np.array(2.5),
        "strided": np.arange(12.0).reshape(3, 4).T,
        "bools": np.array([True, False]),
        "bursts": pdmm.Bursts(0.1, 0.2),
    }
    packed = json.loads(json.dumps(plain_values.pack(values, arrays, "v")))
    place.write_bytes(safetensors.numpy.save({k: np.atleast_1d(v) for k, v in arrays.items()}))
    found = plain_values.unpack(packed, arrays_of(place))
    assert set(found) == set(values)
    for name in ("none", "truth", "whole", "number", "infinite", "word", "bursts"):
        assert found[name] == values[name]
    assert found["scalar"] == float(np.float32(0.1))
    assert found["flag"] is True
    np.testing.assert_array_equal(found["list"][2]["a"], np.arange(3))
    for name in ("empty", "point", "strided", "bools"):
        assert found[name].shape == values[name].shape
        assert found[name].dtype == values[name].dtype
        np.testing.assert_array_equal(found[name], values[name])
    with pytest.raises(ValueError, match=r"v.odd cannot be kept in a checkpoint"):
        plain_values.pack({"odd": object()}, {}, "v")
    assert plain_values.unpack(plain_values.pack(len, {}, "v"), {}) == {
        "code": plain_values.CALLABLE
    }
