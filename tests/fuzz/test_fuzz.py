"""A minute of every fuzzer's cases, the same ones each time; and that fuzzers notice a fault.

``python -m tests.fuzz --minutes 10 --seed 1`` tries others, for as long as you like.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdmm
from fuzz import attempts, command
from fuzz.attempts import Failure, attempt
from fuzz.command import FUZZERS, main, tried
from pdmm.engines.sites.reading import Reply
from pdmm.flare import wire

SEED = 2024
CASES = {  # so many that each takes some 8 s of one core
    "methods": 2200,
    "certificates": 220,
    "checkpoints": 700,
    "inputs": 1700,
    "networks": 220,
    "theory": 5000,
    "auto": 80,
    "wire": 300,  # of 100 messages each
    "replies": 90,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_all_is_as_promised(name: str) -> None:
    tally = tried(name, SEED, CASES[name])
    assert not tally.failures, "\n".join(map(str, tally.failures))
    assert tally.cases == CASES[name]


# --- a fault in the library is found ------------------------------------------------------------

Wrapped = Callable[..., Any]


def _shifted_iterates(solve: Wrapped, *given: Any, **more: Any) -> Any:
    see = more.pop("callback", None)
    if see is None:
        return solve(*given, **more)
    return solve(*given, callback=lambda r, x: see(r, x * x.dtype.type(1.01)), **more)


def _bounds_of_zero(solve: Wrapped, *given: Any, **more: Any) -> Any:
    result = solve(*given, **more)
    nothing = dataclasses.replace(result.certificate, gap=0.0, distance=0.0)
    return dataclasses.replace(result, certificate=nothing)


def _shifted_end(call: Wrapped, *given: Any, **more: Any) -> Any:
    result = call(*given, **more)
    return dataclasses.replace(result, x=result.x + 1)


def _terse(solve: Wrapped, *given: Any, **more: Any) -> Any:
    raise ValueError("wrong")


def _half_the_error(solve_network: Wrapped, *given: Any, **more: Any) -> Any:
    result = solve_network(*given, **more)
    result.history["consensus"] = result.history["consensus"] + 1.0
    return result


def _too_large(best_rho: Wrapped, *given: Any) -> Any:
    return 1.001 * best_rho(*given)


def _bare(decode: Wrapped, data: Any) -> Any:
    try:
        return decode(data)
    except ValueError:
        raise TypeError("'NoneType' object is not subscriptable") from None


def _untold(refuse: Wrapped, *given: Any) -> Any:
    raise TypeError("float() argument must be a string or a real number")


class Fault(NamedTuple):
    """What is called instead of a public name, and what its fuzzer then says."""

    place: Any
    name: str
    instead: Wrapped
    words: str


FAULTS: dict[str, Fault] = {
    "methods": Fault(pdmm, "solve", _shifted_iterates, "from its twin"),
    "certificates": Fault(pdmm, "solve", _bounds_of_zero, "below"),
    "checkpoints": Fault(pdmm, "resume", _shifted_end, "another result"),
    "inputs": Fault(pdmm, "solve", _terse, "no sentence"),
    "networks": Fault(pdmm, "solve_network", _half_the_error, "the history's consensus"),
    "theory": Fault(pdmm.theory, "best_rho", _too_large, "best_rho is"),
    "auto": Fault(pdmm, "solve", _shifted_end, "certified, far from the optimum"),
    "wire": Fault(wire, "decode", _bare, "TypeError"),
    "replies": Fault(Reply, "refuse", _untold, "TypeError"),
}


@pytest.mark.parametrize("name", FUZZERS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    right = getattr(fault.place, fault.name)
    monkeypatch.setattr(fault.place, fault.name, partial(fault.instead, right))
    found = [failure for failure in tried(name, 1, 12).failures if fault.words in failure.what]
    assert found, f"no failure says {fault.words!r}"


# --- one case -----------------------------------------------------------------------------------


def test_nothing_escapes_a_case() -> None:
    def fails(seed: int) -> str:
        with attempts.about("a case of nothing"):
            raise KeyError(seed)

    outcome = attempt("mine", fails, 7)
    assert isinstance(outcome, Failure)
    assert outcome.command == "python -m tests.fuzz --only mine --case 7"
    assert "KeyError" in outcome.what
    assert "a case of nothing" in outcome.what


def test_a_hanging_case_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "LIMIT", 0.05)

    def hangs(seed: int) -> str:
        try:
            time.sleep(60)
        except Exception:  # nobody may take the alarm for an error of their own
            return "swallowed"
        return "done"

    outcome = attempt("mine", hangs, 1)
    assert isinstance(outcome, Failure)
    assert "hangs" in outcome.what


def test_warnings_of_numpy_are_faults_and_sentences_are_not() -> None:
    def numpy_warns(seed: int) -> str:
        with attempts.about("the logarithm of 0"):
            return str(np.log(np.zeros(1)))

    def library_warns(seed: int) -> str:
        warnings.warn("strong_convexity of client 0 is too large", RuntimeWarning, stacklevel=2)
        return "said"

    assert attempt("mine", library_warns, 1) == "said"
    outcome = attempt("mine", numpy_warns, 1)
    assert isinstance(outcome, Failure)
    assert "divide by zero" in outcome.what
    assert "the logarithm of 0" in outcome.what


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def odd_numbers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def case(seed: int) -> str:
        assert seed % 2 == 0, f"{seed} is odd"
        return "even"

    monkeypatch.setattr(command, "FUZZERS", {"numbers": case, "nothing": lambda seed: "nothing"})


@pytest.mark.usefixtures("odd_numbers_fail")
def test_the_command_counts_and_says_how_to_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", "20", "--seed", "3"]) == 1
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.startswith("python -m tests.fuzz")]
    assert lines
    failing = int(lines[0].split("--case ")[1].split()[0])
    assert failing % 2 == 1
    assert f"{failing} is odd" in lines[0]
    assert "40 cases" in said
    assert main(["--only", "numbers", "--case", str(failing)]) == 1
    assert main(["--only", "numbers", "--case", str(failing + 1)]) == 0
    assert "even" in capsys.readouterr().out
    assert main(["--only", "nothing", "--cases", "4"]) == 0


@pytest.mark.usefixtures("odd_numbers_fail")
def test_the_command_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing", "--minutes", "0.0005"]) == 0
    assert "nothing" in capsys.readouterr().out


def test_cases_are_the_same_for_the_same_seed() -> None:
    assert tried("theory", 1, 5).words == tried("theory", 1, 5).words
    streams = [[next(stream) for _ in range(3)] for stream in map(_stream, (1, 1, 2))]
    assert streams[0] == streams[1] != streams[2]


def _stream(seed: int) -> Any:
    return command.seeds(seed, "theory")


def test_a_case_needs_its_fuzzer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--case", "3"])
    assert "--only" in capsys.readouterr().err
