"""What travels between server and sites: plain values and NumPy arrays, as bytes.

FLARE could pack arrays itself, but a format of our own lets in nothing but numbers and text, takes
one copy, and does not depend on a setting that both ends must share.
"""

import json
import math
from typing import Any

import numpy as np

ARRAY = "\0array"  # no key of a payload may begin with a zero character
KINDS = "biufc"


def encode(payload: dict[str, Any]) -> bytes:
    """The payload as bytes: a length, a JSON text, then the arrays as they lie in memory.

    >>> import numpy as np
    >>> decode(encode({"x": np.arange(3.0), "round": 7, "more": [None, "text", {"y": 0.1}]}))
    {'x': array([0., 1., 2.]), 'round': 7, 'more': [None, 'text', {'y': 0.1}]}
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_plain(payload, arrays, "payload")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *(array.data for array in arrays)])


def decode(data: bytes) -> dict[str, Any]:
    """The payload that was packed; its arrays are new and may be written to."""
    view = memoryview(data)
    size = int.from_bytes(view[:8], "little")
    if len(view) < 8 + size:
        raise ValueError(
            f"a message was cut short: {len(view)} bytes, at least {8 + size} expected"
        )
    rest = _Rest(view[8 + size :])
    payload = _restored(json.loads(bytes(view[8 : 8 + size])), rest)
    if not isinstance(payload, dict) or len(rest.view):
        raise ValueError("a message does not have the form that pdmm.flare.wire gives it")
    return payload


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
        if value.dtype.kind not in KINDS:
            raise TypeError(f"{where} is an array of {value.dtype}: only numbers can be sent")
        arrays.append(_flat_bytes(value))
        return {ARRAY: [value.dtype.str, list(value.shape)]}
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


def _restored(value: Any, rest: _Rest) -> Any:
    if isinstance(value, list):
        return [_restored(item, rest) for item in value]
    if not isinstance(value, dict):
        return value
    if ARRAY not in value:
        return {key: _restored(item, rest) for key, item in value.items()}
    code, shape = value[ARRAY]
    dtype = np.dtype(str(code))
    if dtype.kind not in KINDS or any(not isinstance(n, int) or n < 0 for n in shape):
        raise ValueError(f"a message has an array of {code!r} and shape {shape}: not of numbers")
    data = rest.take(math.prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape).copy()
