"""Odd arguments for every public call: a result, or a sentence that names an argument.

What is asked: a ValueError, TypeError or OSError, of more than 15 characters, that names an
argument of the call; no other exception, and no warning of NumPy's. NaN, masked entries and the
like are refused; what means the same (a list for an array, a NumPy number for a number) gives the
same result, or is refused.
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.attempts import about
from fuzz.draws import Generator, chance, pick
from fuzz.odd_calls import Call
from fuzz.odd_runs import calls, lay_down
from fuzz.odd_values import Demand, odd

DATA = {"A", "b", "X", "y", "H", "c", "value", "gradient", "graph"}  # of what is solved


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder, chdir(folder):
        every = calls(Path(folder))
        name = pick(rng, list(every))
        if name == "resume":
            lay_down(Path(folder))
        return _tried(rng, name, every[name])


def _tried(rng: Generator, name: str, call: Call) -> str:
    given = {key: right for key, (_, right) in call.arguments.items()}
    spoilt = [pick(rng, list(given))]
    if chance(rng, 0.15):
        spoilt.append(pick(rng, list(given)))
    kept = [key for key in given if key in call.required or key in spoilt or chance(rng, 0.3)]
    odds = {key: odd(rng, call.arguments[key][0], given[key]) for key in dict.fromkeys(spoilt)}
    demand: Demand = "any"
    if len(odds) == 1:
        demand = next(iter(odds.values())).demand
    words = ", ".join(f"{key}: {o.words}" for key, o in odds.items())
    plain = {key: given[key] for key in given if key in kept}
    spoils = {**plain, **{key: o.value for key, o in odds.items()}}
    with about(f"{name}({', '.join(plain)}) with {words}"):
        try:
            found = call.go(**spoils)
        except (ValueError, TypeError, OSError) as error:
            _sentence(error, call)
            return "refused"
        assert demand != "refuse", f"accepted, with the result {found!r}"
        if demand == "same":
            _same(found, call, plain)
            return "accepted as it was meant"
        return "accepted"


def _sentence(error: Exception, call: Call) -> None:
    text = str(error)
    if len(text) <= 15 or not _names(text, call.names | DATA):
        raise AssertionError(f"no sentence that names an argument: {error!r}") from error


def _names(text: str, names: set[str] | frozenset[str]) -> bool:
    """Whether a text speaks of one of the names; an article is no name."""
    for name in names:
        follows = r"(?!\w)" if len(name) > 1 else r"(\[|'s|=| must| has| is| and| as| holds| needs)"
        if re.search(rf"(?<![\w.]){re.escape(name)}{follows}", text):
            return True
    return False


def _same(found: Any, call: Call, plain: dict[str, Any]) -> None:
    if "checkpoint" in plain:
        Path(plain["checkpoint"]).unlink(missing_ok=True)
    if "path" in plain:
        return  # it has gone on to its end by now
    expected = call.go(**plain)
    if expected is None:
        return
    near = np.allclose(np.asarray(found, float), np.asarray(expected, float), 1e-6, 1e-9)
    assert near, f"accepted, but {found} is not {expected}"
