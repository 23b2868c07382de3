"""Random bytes in the place of a message between server and site: a payload, or a ValueError.

What is asked: ``wire.decode`` raises nothing but ValueError, with a sentence; it takes no more
memory than the bytes are worth; and what it takes, it takes for what ``wire.encode`` makes.
"""

import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.attempts import about
from fuzz.draws import Generator, chance, pick, whole
from pdmm.flare import wire

FIXED = 2**20  # bytes of memory that a small message may take, whatever is in it
EACH = 200  # and for each byte of it: an empty list takes some sixty, and two in a message
TIMES = 100  # one case is so many messages
WATCHED = 0.05  # of the messages: whose memory is measured, which takes time
CODES = [
    *("<f8", "<f4", "|b1", "<i8", ">f8", "|O", "|O8", "|V8", "<M8[s]", "<U4", "|S9", "f8,f8"),
    *("(1000,1000,1000)f8", "[('a','f8')]", "<f16", "<c32", "float64", "", "f", "\u0000", "<m8"),
]
AXES: list[Any] = [
    *(0, 1, 2, 3, -1, -(2**63), 10**9, 10**12, 10**30, 2**63, 2**64, 10**4000),
    *(1.0, 0.5, float("nan"), float("inf"), True, False, None, "3", [], [2], {}),
]


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    words = {_message(rng) for _ in range(TIMES)}
    return "taken and refused" if len(words) > 1 else words.pop()


def _message(rng: Generator) -> str:
    data = pick(rng, WAYS)(rng)
    with about(f"a message of {len(data)} bytes: {data[:300]!r}"):
        refusal = ""
        try:
            found = _watched(data) if chance(rng, WATCHED) else wire.decode(data)
        except ValueError as error:
            refusal = f"{error}."
        if refusal:
            assert 15 < len(refusal) < 500, f"no sentence: {refusal[:200]}"
            return "refused"
        again = wire.decode(wire.encode(found))
        assert _same(found, again), "what was taken changes on a second way"
        return "taken"


def _watched(data: bytes) -> dict[str, Any]:
    """The payload, if it was worth the memory."""
    tracemalloc.start()
    try:
        return wire.decode(data)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < FIXED + EACH * len(data), f"it took {most:,} bytes of memory"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return type(a) is type(b) and bool(a == b)


# --- messages -----------------------------------------------------------------------------------


def payload(rng: Generator, depth: int = 0) -> dict[str, Any]:
    """One that may travel."""
    names = ["upload", "draft", "tally", "value", "next", "clients", "x", "\u00e9", ""]
    return {pick(rng, names): _thing(rng, depth + 1) for _ in range(whole(rng, 0, 4))}


def _thing(rng: Generator, depth: int) -> Any:
    plain: list[Any] = [None, True, 0, -7, 2**60, 1.5, float("nan"), float("inf"), "text", ""]
    if depth > 3 or chance(rng, 0.4):
        return pick(rng, plain)
    if chance(rng, 0.5):
        shape = tuple(whole(rng, 0, 3) for _ in range(whole(rng, 0, 3)))
        dtype = pick(rng, ["f8", "f4", "i8", "?", "c16", "u1"])
        return rng.integers(0, 2, shape).astype(dtype)
    if chance(rng, 0.5):
        return [_thing(rng, depth + 1) for _ in range(whole(rng, 0, 3))]
    return payload(rng, depth)


def _packed(text: str | bytes, arrays: bytes = b"", size: int | None = None) -> bytes:
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return (len(raw) if size is None else size).to_bytes(8, "little") + raw + arrays


def _valid(rng: Generator) -> bytes:
    return wire.encode(payload(rng))


def _mutated(rng: Generator) -> bytes:
    """A message of which some bytes are others, are missing or are there twice."""
    data = bytearray(_valid(rng))
    for _ in range(whole(rng, 1, 4)):
        at = whole(rng, 0, len(data))
        length = whole(rng, 0, 12)
        new = pick(
            rng, [rng.bytes(length), b"", bytes(data[at : at + length]) * 2, b"[", b"9", b'"']
        )
        data[at : at + length] = new
    return bytes(data)


def _changed_text(rng: Generator) -> bytes:
    """The length is right, and the text is another."""
    data = _valid(rng)
    size = int.from_bytes(data[:8], "little")
    text = bytearray(data[8 : 8 + size])
    at = whole(rng, 0, len(text))
    tokens = [b"null", b"NaN", b"1e999", b"-", b"{}", b"[]", b",", b"\\ud800", b"\xff", b"\x00"]
    text[at : at + whole(rng, 0, 5)] = pick(rng, tokens)
    return _packed(bytes(text), data[8 + size :])


def _array(rng: Generator) -> bytes:
    """An array whose dtype, shape and bytes do not belong together."""
    shape: Any = [pick(rng, AXES) for _ in range(whole(rng, 0, 4))]
    if chance(rng, 0.1):
        shape = pick(rng, [None, "33", 3, {}, [1] * 100, [[1], [2]]])
    said: Any = [pick(rng, CODES), shape]
    if chance(rng, 0.1):
        said = pick(rng, [None, [], said[:1], [*said, 1], "ab", {"a": 1, "b": 2}, 7])
    told: dict[str, Any] = {wire.ARRAY: said}
    if chance(rng, 0.1):
        told["more"] = 1
    return _packed(_json({"x": told}), rng.bytes(8 * whole(rng, 0, 9)))


def _json(value: Any) -> str:
    """JSON as Python writes it, whole numbers of any length too."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if type(value) is int and value == 10**4000:
        return "1" + "0" * 4000
    return json.dumps(value)


def _deep(rng: Generator) -> bytes:
    depth = 100_000 if chance(rng, 0.01) else pick(rng, [20, 40, 900, 5000])
    opening, closing = pick(rng, [("[", "]"), ('{"a":', "}")])
    inner = pick(rng, ["1", "", "[]", "{}"])
    return _packed('{"a":' + opening * depth + inner + closing * pick(rng, [depth, 0]) + "}")


def _huge(rng: Generator) -> bytes:
    """Numbers, keys and lists that are too long, or twice there."""
    digits = 200_000 if chance(rng, 0.01) else pick(rng, [10, 39, 41, 2000])
    texts = [
        '{"a":' + "9" * digits + "}",
        '{"a":-' + "9" * digits + ".5e5}",
        '{"a":1e' + "9" * digits + "}",
        '{"' + "k" * digits + '":1}',
        '{"a":1,"a":2}',
        '{"\\u0000array":["<f8",[]],"\\u0000array":["<f8",[]]}',
        '{"\\u0000other":1}',
        '{"a":[' + "[]," * digits + "[]]}",
        '{"a":"\\ud800"}',
        "[1,2]",
        "7",
        "null",
    ]
    return _packed(pick(rng, texts))


def _sizes(rng: Generator) -> bytes:
    """A length that is not that of the text."""
    sizes = [0, 1, 2**22, 2**22 + 1, 2**31, 2**63, 2**64 - 1]
    return _packed('{"a":1}', rng.bytes(whole(rng, 0, 20)), size=pick(rng, sizes))


def _noise(rng: Generator) -> bytes:
    return rng.bytes(whole(rng, 0, 60))


WAYS: list[Callable[[Generator], bytes]] = [
    *(_valid, _mutated, _mutated, _changed_text, _array, _array, _deep, _huge, _sizes, _noise),
]
