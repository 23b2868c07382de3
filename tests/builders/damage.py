"""Checkpoints that are damaged at random: each must be refused, or go on to the same bits.

:func:`damaged` tries any number of them; :func:`one_case` repeats one by its number.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy

import pdmm
from builders import cases
from builders.checkpoints import AG, HaltError, Make, assert_same, halt_at, images, squares
from builders.ranks import on_ranks

Random = np.random.Generator
Change = Callable[[Random, bytes], bytes]
NAME = "run.safetensors"


def _range(rng: Random, raw: bytes) -> slice:
    """A few bytes in a row, somewhere; often few, sometimes many."""
    start = int(rng.integers(len(raw)))
    longest = min(len(raw) - start, 1 << int(rng.integers(13)))
    return slice(start, start + int(rng.integers(1, longest + 1)))


def flip(rng: Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    changed[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def another_byte(rng: Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    changed[rng.integers(len(raw))] = int(rng.integers(256))
    return bytes(changed)


def another_digit(rng: Random, raw: bytes) -> bytes:
    """The change that is hardest to see: numbers and texts stay what they are."""
    digits = np.flatnonzero(np.isin(np.frombuffer(raw, np.uint8), list(b"0123456789")))
    if not len(digits):
        return raw
    changed = bytearray(raw)
    changed[rng.choice(digits)] = int(rng.choice(list(b"0123456789")))
    return bytes(changed)


def cut(rng: Random, raw: bytes) -> bytes:
    return raw[: rng.integers(len(raw))]


def insert(rng: Random, raw: bytes) -> bytes:
    where = int(rng.integers(len(raw) + 1))
    return raw[:where] + rng.bytes(int(rng.integers(1, 64))) + raw[where:]


def delete(rng: Random, raw: bytes) -> bytes:
    gone = _range(rng, raw)
    return raw[: gone.start] + raw[gone.stop :]


def zero(rng: Random, raw: bytes) -> bytes:
    gone = _range(rng, raw)
    return raw[: gone.start] + bytes(gone.stop - gone.start) + raw[gone.stop :]


def duplicate(rng: Random, raw: bytes) -> bytes:
    twice = _range(rng, raw)
    return raw[: twice.stop] + raw[twice] + raw[twice.stop :]


def swap(rng: Random, raw: bytes) -> bytes:
    a, b, c = sorted(int(k) for k in rng.integers(len(raw) + 1, size=3))
    d = min(len(raw), c + (b - a))
    return raw[:a] + raw[c:d] + raw[b:c] + raw[a:b] + raw[d:]


def append(rng: Random, raw: bytes) -> bytes:
    return raw + rng.bytes(int(rng.integers(1, 4096)))


def append_a_row(rng: Random, raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    return raw + lines[rng.integers(len(lines))]


def nothing(rng: Random, raw: bytes) -> bytes:
    return b""


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        *(flip, another_byte, another_digit, cut, insert, delete, zero, duplicate, swap),
        *(append, append_a_row, nothing),
    )
}


# --- what is damaged ---------------------------------------------------------------------------


class Kept(NamedTuple):
    """A checkpoint with its files, the problem, and what comes of it."""

    files: dict[str, bytes]
    make: Make
    result: pdmm.Result


def _broken_off(path: Path) -> None:
    given: dict[str, Any] = {"rounds": 14, "participation": 0.5, "loss": 0.2, "bits": 5}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), AG, checkpoint=path, every=4, callback=halt_at(9), **given)


def _adapting(path: Path) -> None:
    with pytest.raises(HaltError):
        pdmm.solve(squares(), rounds=14, checkpoint=path, every=3, callback=halt_at(7))


def _finished(path: Path) -> None:
    pdmm.solve(images(), pdmm.Scaffold(0.1, 3), rounds=5, checkpoint=path)


def _on_ranks(path: Path) -> None:
    more: dict[str, Any] = {"rounds": 8, "checkpoint": path, "callback": lambda r, x: r == 5}
    on_ranks(2, lambda mpi: cases.solve("scaffold", mpi, **more))


BEGUN: dict[str, tuple[Callable[[Path], None], Make]] = {
    "broken off": (_broken_off, squares),
    "adapting": (_adapting, squares),
    "finished": (_finished, images),
    "on ranks": (_on_ranks, lambda: cases.least_squares(range(cases.M))),
}


@contextmanager
def _same_bytes_always() -> Iterator[None]:
    """Files without what differs from one process to the next: seconds, and the order of words."""
    save = safetensors.numpy.save

    def in_order(arrays: Any, metadata: dict[str, str]) -> bytes:
        made = save(arrays, metadata=metadata)
        end = 8 + int.from_bytes(made[:8], "little")
        found = json.loads(made[8:end])
        found["__metadata__"] = metadata
        text = json.dumps(found, separators=(",", ":")).encode()
        return len(text).to_bytes(8, "little") + text + made[end:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safetensors.numpy, "save", in_order)
        for module in ("recorder", "loop", "saver", "saved"):
            patch.setattr(f"pdmm.run.{module}.perf_counter", lambda: 0.0)
        yield


def kept(folder: Path) -> dict[str, Kept]:
    """The checkpoints that are to be damaged."""
    found = {}
    for name, (begin, make) in BEGUN.items():
        place = folder / name
        with _same_bytes_always():
            begin(place / NAME)
        files = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
        found[name] = Kept(files, make, pdmm.resume(place / NAME, make(), threads=1))
        shutil.rmtree(place)
    return found


# --- trying it ---------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How many checkpoints were refused, how many gave the same bits, and what else happened."""

    refused: int
    same: int
    failures: list[str]
    """A line for each case: what was done to which file, and what came of it."""


def damaged(folder: Path, count: int, seed: int) -> Outcome:
    """Damage so many checkpoints, and resume each.

    Args:
        folder: for the files; it is empty again afterwards.
        count: how many.
        seed: of all choices: case k is the same whatever the count.
    """
    checkpoints = kept(folder)
    came = Counter[str]()
    failures = []
    for k in range(count):
        words = one_case(folder, k, seed, checkpoints)
        came[words] += 1
        if words not in ("refused", "same"):
            failures.append(f"damage.one_case(folder, {k}, {seed}): {words}")
    return Outcome(came["refused"], came["same"], failures)


def one_case(folder: Path, k: int, seed: int, checkpoints: dict[str, Kept] | None = None) -> str:
    """Damage one checkpoint: "refused", "same", or what happened instead."""
    rng = np.random.default_rng([seed, k])
    found = kept(folder) if checkpoints is None else checkpoints
    which = str(rng.choice(list(found)))
    files = dict(found[which].files)
    name = str(rng.choice(list(files)))
    how = str(rng.choice(list(CHANGES)))
    files[name] = CHANGES[how](rng, files[name])
    place = folder / "damaged"
    place.mkdir()
    for other, raw in files.items():
        (place / other).write_bytes(raw)
    try:
        came = _resumed(place, found[which])
    finally:
        shutil.rmtree(place)
    if came in ("refused", "same"):
        return came
    return f"{how} in {name} of {which!r}: {came}"


def _resumed(place: Path, whole: Kept) -> str:
    try:
        result = pdmm.resume(place / NAME, whole.make(), threads=1)
    except (ValueError, OSError) as error:
        if isinstance(error, UnicodeError) or NAME not in str(error):
            return f"not a sentence: {error!r}"
        return "refused"
    except Exception as error:
        return repr(error)
    try:
        assert_same(result, whole.result)
    except AssertionError:
        return "resumed to other bits"
    return "same"
