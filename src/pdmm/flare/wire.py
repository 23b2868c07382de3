"""What travels between server and sites: plain values and NumPy arrays, as bytes.

FLARE could pack arrays itself, but a format of our own lets in nothing but numbers and text, takes
one copy, and does not depend on a setting that both ends must share.
"""

import json
import math
from typing import Any

import numpy as np

ARRAY = "\0array"  # no key of a payload may begin with a zero character
CODES = {  # of what arrays may be of: all numbers of a size that each machine has, little-endian
    code: np.dtype(code)
    for code in (
        *("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8"),
        *("<f2", "<f4", "<f8", "<c8", "<c16"),
    )
}
LONGEST_TEXT = 2**22  # bytes of all that is not an array: 4 MB make some 100 MB of Python objects
LONGEST_NUMBER = 40  # characters
DEEPEST = 30  # lists and dictionaries within each other
MOST_AXES = 8
LONGEST_AXIS = 10**9  # where another axis is 0, the bytes do not limit it


def encode(payload: dict[str, Any]) -> bytes:
    """The payload as bytes: a length, a JSON text, then the arrays as they lie in memory.

    >>> import numpy as np
    >>> decode(encode({"x": np.arange(3.0), "round": 7, "more": [None, "text", {"y": 0.1}]}))
    {'x': array([0., 1., 2.]), 'round': 7, 'more': [None, 'text', {'y': 0.1}]}
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_plain(payload, arrays, "payload")).encode()
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"a message would have {len(text):,} bytes of text, and at most {LONGEST_TEXT:,} are "
            "taken: long lists of numbers should be arrays"
        )
    return b"".join([len(text).to_bytes(8, "little"), text, *(array.data for array in arrays)])


def decode(data: Any) -> dict[str, Any]:
    """The payload that was packed; its arrays are new and may be written to.

    Whatever bytes these are, they are a payload or a ValueError, and take little more memory than
    they are long.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ValueError(f"a message must be bytes, got a {type(data).__name__}")
    view = memoryview(data).cast("B")
    size = int.from_bytes(view[:8], "little")
    if len(view) < 8 + size:
        raise ValueError(
            f"a message was cut short: {len(view)} bytes, at least {8 + size} expected"
        )
    if size > LONGEST_TEXT:
        raise ValueError(
            f"a message has {size:,} bytes of text, and at most {LONGEST_TEXT:,} are taken"
        )
    rest = _Rest(view[8 + size :])
    payload = _restored(_parsed(bytes(view[8 : 8 + size])), rest, 0)
    if not isinstance(payload, dict) or len(rest.view):
        raise ValueError("a message does not have the form that pdmm.flare.wire gives it")
    return payload


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_int=_whole)
    except RecursionError:
        raise ValueError("a message has too many lists within each other") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dictionary; of a key that is there twice, nobody knows which value is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a message has a key twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a message has a whole number of {len(digits):,} digits")
    return int(digits)


class _Rest:
    """The bytes that have not been read yet."""

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def take(self, size: int) -> memoryview:
        if size > len(self.view):
            raise ValueError(f"a message was cut short: an array of {size} bytes is incomplete")
        taken = self.view[:size]
        self.view = self.view[size:]
        return taken


def _plain(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        held = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if held.dtype.str not in CODES:
            raise TypeError(f"{where} is an array of {value.dtype}: only numbers can be sent")
        arrays.append(_flat_bytes(held))
        return {ARRAY: [held.dtype.str, list(held.shape)]}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key.startswith("\0"):
                raise TypeError(f"{where} has the key {key!r}: keys must be text")
        return {key: _plain(item, arrays, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
    raise TypeError(
        f"{where} is a {type(value).__name__}: only numbers, text, None, arrays, lists and "
        "dictionaries of these can be sent"
    )


def _flat_bytes(array: np.ndarray) -> np.ndarray:
    """The array's memory in order, as bytes: also of a strided array, and of an empty one."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(array.tobytes(), np.uint8)


def _restored(value: Any, rest: _Rest, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"a message has more than {DEEPEST} lists within each other")
    if isinstance(value, list):
        return [_restored(item, rest, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        return _array(value, rest)
    if any(key.startswith("\0") for key in value):
        raise ValueError("a message has a key that begins with a zero character")
    return {key: _restored(item, rest, depth + 1) for key, item in value.items()}


def _array(value: dict[str, Any], rest: _Rest) -> np.ndarray:
    """The array that stands here; its bytes are the next ones."""
    said = value[ARRAY]
    if len(value) > 1 or not isinstance(said, list) or len(said) != 2:
        raise ValueError("a message has an array that is not told by a dtype and a shape")
    code, shape = said
    if not isinstance(code, str) or code not in CODES:
        raise ValueError("a message has an array of another dtype than those of plain numbers")
    if not _is_shape(shape):
        raise ValueError(
            f"a message has an array whose shape is no list of at most {MOST_AXES} whole numbers "
            f"from 0 to {LONGEST_AXIS:,}"
        )
    dtype = CODES[code]
    data = rest.take(math.prod(shape) * dtype.itemsize)
    if dtype.kind == "b" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise ValueError("a message has an array of bool with other bytes than 0 and 1")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _is_shape(shape: Any) -> bool:
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        return False
    return all(type(n) is int and 0 <= n <= LONGEST_AXIS for n in shape)
