"""What can happen to the files of a checkpoint."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz.draws import Generator, chance, pick, whole


def damage(rng: Generator, path: Path, old: Path) -> str:
    """Change one of the files of a checkpoint; returns what was done."""
    files = sorted(file for file in path.parent.iterdir() if file.is_file())
    file = pick(rng, files)
    earlier = old / file.name
    if earlier.is_file() and chance(rng, 0.1):
        shutil.copy(earlier, file)
        return f"{file.name} is of an earlier round"
    if chance(rng, 0.05):
        file.unlink()
        return f"{file.name} is gone"
    if chance(rng, 0.03):
        file.unlink()
        file.mkdir()
        return f"{file.name} is a folder"
    content = file.read_bytes()
    name, changed = _changed(rng, content, [other.read_bytes() for other in files])
    file.write_bytes(changed)
    return f"{file.name} ({len(content)} bytes): {name}"


def _changed(rng: Generator, content: bytes, others: list[bytes]) -> tuple[str, bytes]:
    size = len(content)
    at = whole(rng, 0, max(0, size - 1))
    length = min(whole(rng, 1, 64), size - at)
    noise = rng.bytes(max(1, length))
    digits = [k for k, byte in enumerate(content) if chr(byte).isdigit()]
    ways: dict[str, Callable[[], bytes]] = {
        "a bit flipped": lambda: _with(content, at, bytes([content[at] ^ (1 << whole(rng, 0, 7))])),
        "bytes replaced": lambda: _with(content, at, noise[:length]),
        "bytes zero": lambda: _with(content, at, bytes(length)),
        "bytes removed": lambda: content[:at] + content[at + length :],
        "bytes inserted": lambda: content[:at] + noise + content[at:],
        "cut off": lambda: content[:at],
        "bytes added": lambda: content + noise,
        "written twice": lambda: content + content,
        "another file's content": lambda: pick(rng, others),
        "empty": lambda: b"",
        "two parts swapped": lambda: _swapped(rng, content),
        "a line repeated": lambda: _repeated(rng, content),
    }
    if digits:  # what no parser notices
        k = pick(rng, digits)
        other = bytes([ord(pick(rng, "0123456789"))])
        for name in ("a digit", "another digit", "some digit"):
            ways[name] = lambda: _with(content, k, other)
    name = pick(rng, list(ways))
    changed = content if size == 0 and name != "bytes added" else ways[name]()
    return f"{name}, at {at}", changed


def _with(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _swapped(rng: Generator, content: bytes) -> bytes:
    cuts = np.sort(rng.integers(0, len(content) + 1, 3)).tolist()
    parts = [content[a:b] for a, b in itertools.pairwise([0, *cuts, len(content)])]
    return b"".join([parts[0], parts[2], parts[1], parts[3]])


def _repeated(rng: Generator, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    k = whole(rng, 0, len(lines) - 1)
    return b"".join([*lines[: k + 1], lines[k], *lines[k + 1 :]])
