"""The bytes of a checkpoint: what is put into them comes out, and nothing else is read."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdmm.common.packing import Arrays
from pdmm.engines.client_tables import Table
from pdmm.run.checkpoint_file import (
    FORMAT,
    PART,
    checksum_of,
    contents,
    history_path,
    pack_tables,
    part_path,
    read_file,
    unpack_tables,
)

HEADER: dict[str, Any] = {"rows": 3, "probe": 0.1, "problem": {"kind": "Quadratic"}, "files": None}
ARRAYS: Arrays = {
    "x": np.array([[1 / 3, 2.0]]),
    "f": np.array([1.5, np.nan, np.inf], dtype=np.float32),
    "cursor": np.arange(3),
    "heard": np.array([True, False]),
}


def test_header_and_arrays_come_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(contents(ARRAYS, FORMAT, HEADER))
    header, arrays = read_file(path)
    assert header == HEADER
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_a_part_is_no_checkpoint_and_a_checkpoint_is_no_part(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for written, wanted in ((FORMAT, PART), (PART, FORMAT)):
        path.write_bytes(contents(ARRAYS, written, HEADER))
        assert read_file(path, written)[0] == HEADER
        with pytest.raises(ValueError, match="but not a checkpoint of pdmm"):
            read_file(path, wanted)


def test_an_older_file_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("pdmm.run.checkpoint_file.VERSION", 2)
        path.write_bytes(contents(ARRAYS, FORMAT, HEADER))
    with pytest.raises(ValueError, match=r"older pdmm .*finish that run with the pdmm that began"):
        read_file(path)


def test_the_checksum_is_of_all_bytes_but_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run"
    made = contents(ARRAYS, FORMAT, HEADER)
    stated = checksum_of(made)
    blank = made.replace(stated.encode(), b"0" * 64)
    assert hashlib.sha256(blank).hexdigest() == stated
    for k in range(len(made)):
        damaged = bytearray(made)
        damaged[k] ^= 1 << k % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="checkpoint"):
            read_file(path)


def test_a_file_must_have_the_checksum_that_another_states(tmp_path: Path) -> None:
    path = tmp_path / "part"
    made = contents(ARRAYS, PART, HEADER)
    path.write_bytes(contents(ARRAYS, PART, {**HEADER, "rows": 4}))  # sound, but another run's
    with pytest.raises(ValueError, match="part belongs to another checkpoint"):
        read_file(path, PART, checksum_of(made))
    path.write_bytes(made)
    assert read_file(path, PART, checksum_of(made))[0] == HEADER


def test_tables_of_every_shape_come_back(tmp_path: Path) -> None:
    """A state with one number, with nothing and with nobody."""
    tables = {
        "memory": Table(np.array([2, 5]), [np.ones((2, 3)), np.zeros((2, 1, 4), np.float32)]),
        "drafts": Table(np.arange(0), [np.empty((0, 3))]),
        "learnt": Table(np.arange(0), []),
    }
    arrays: Arrays = {}
    packed = pack_tables(tables, arrays)
    path = tmp_path / "part"
    path.write_bytes(contents(arrays, PART, {"tables": packed}))
    header, found = read_file(path, PART)
    again = unpack_tables(header["tables"], found)
    assert list(again) == list(tables)
    for name, table in tables.items():
        assert isinstance(again[name], Table)
        np.testing.assert_array_equal(again[name].clients, table.clients)
        for mine, theirs in zip(again[name].columns, table.columns, strict=True):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_array_equal(mine, theirs)


def test_the_files_of_a_run_are_beside_each_other() -> None:
    path = Path("some/run.safetensors")
    assert history_path(path) == Path("some/run.safetensors.history")
    assert part_path(path, 12, 3) == Path("some/run.safetensors.12-3")
