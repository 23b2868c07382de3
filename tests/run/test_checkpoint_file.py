"""The file of a checkpoint: what is in it, when it is written, and what damage is refused."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

import pdmm
from builders.checkpoints import (
    AG,
    arrays_of,
    assert_same,
    bytes_of,
    done,
    header,
    history_of,
    laid_down,
    squares,
)
from pdmm.run.checkpoint_file import BLANK, VERSION, sealed


def test_the_file_is_plain_arrays_and_json(place: Path) -> None:
    laid_down(place, loss=pdmm.Bursts(0.2, 0.3), bits=4, regulariser=pdmm.L1(0.1))
    raw = place.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    found = json.loads(raw[8 : 8 + length])
    meta = found.pop("__metadata__")
    assert meta["format"] == "pdmm run"
    assert meta["version"] == str(VERSION)
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
    """Other words in the header, and the checksum that goes with them."""

    def write(path: Path) -> None:
        arrays = arrays_of(path)
        with safe_open(path, framework="numpy") as file:
            words = {**file.metadata(), "checksum": BLANK, **changes}
        kept = {k: v for k, v in words.items() if v is not None}
        made = safetensors.numpy.save(arrays, kept)
        path.write_bytes(sealed(made) if "checksum" in kept else made)

    return write


def rows_left(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Other rows in the history, of those that count."""

    def write(path: Path) -> None:
        counted = history_of(path).read_bytes()[: header(path)["length"]]
        history_of(path).write_bytes(change(counted))

    return write


def flipped(where: int) -> Callable[[Path], object]:
    """A byte that is another."""

    def write(path: Path) -> None:
        raw = bytearray(path.read_bytes())
        raw[where] ^= 1
        path.write_bytes(raw)

    return write


NOT_ONE, SHORT, ONES = "not a checkpoint", "history .* is shorter", {"x": np.ones(3)}
DAMAGED = "is a damaged checkpoint: its checksum"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (cut(0), NOT_ONE),
    "a byte": (cut(1), NOT_ONE),
    "half a length": (cut(7), NOT_ONE),
    "half a header": (cut(20), NOT_ONE),
    "a header without end": (lambda p: p.write_bytes(b"\xff" * 7 + p.read_bytes()[7:]), NOT_ONE),
    "nested": (lambda p: p.write_bytes(b"\xa0\x86\1" + bytes(5) + b"[" * 100_000), NOT_ONE),
    "cut": (cut(-1), DAMAGED),
    "cut a lot": (cut(-200), DAMAGED),
    "longer": (lambda p: p.write_bytes(p.read_bytes() + b"x"), DAMAGED),
    "the last bit": (flipped(-1), DAMAGED),
    "a bit in the middle": (flipped(-1000), DAMAGED),
    "no checksum": (meta(checksum=None), "it has no checksum"),
    "noise": (lambda p: p.write_bytes(np.random.default_rng(0).bytes(500)), NOT_ONE),
    "text": (lambda p: p.write_text("round,objective\n0,1\n"), NOT_ONE),
    "tensors": (lambda p: p.write_bytes(safetensors.numpy.save(ONES)), NOT_ONE),
    "a model": (lambda p: p.write_bytes(safetensors.numpy.save(ONES, {"format": "pt"})), NOT_ONE),
    "older": (meta(version=str(VERSION - 1)), "older pdmm .* finish that run"),
    "older, without a checksum": (meta(version="3", checksum=None), "older pdmm"),
    "newer": (meta(version=str(VERSION + 1)), "newer pdmm .* update"),
    "much newer": (meta(version="17", run="new"), "newer pdmm .* update"),
    "strange version": (meta(version="2.0b"), "run.safetensors"),
    "no run": (meta(run=None), "run.safetensors"),
    "a broken run": (meta(run='{"problem": '), "run.safetensors"),
    "no file": (lambda p: p.unlink(), "there is no checkpoint"),
    "no history": (lambda p: history_of(p).unlink(), "history .* is missing"),
    "no rows": (rows_left(lambda text: b""), SHORT),
    "a row less": (rows_left(lambda text: text[: text[:-1].rindex(b"\n") + 1]), SHORT),
    "a byte less": (rows_left(lambda text: text[:-1]), SHORT),
    "other rows": (rows_left(lambda text: b"x" * len(text)), "history .* is damaged"),
    "a broken row": (rows_left(lambda text: text[:-9] + b"oops here"), "history .* is damaged"),
    "another digit": (rows_left(lambda text: text.replace(b"1", b"2", 1)), "history .* is damaged"),
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
