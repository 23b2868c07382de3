"""Odd arguments: made from a right one, with what may become of them."""

import datetime
import importlib
import importlib.util
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from fuzz.draws import Array, Generator, pick, whole

Demand = Literal["refuse", "same", "any"]
"""It must be refused; or it may be, but if it is not, the result is that of the right argument;
or it may be refused, or accepted for whatever it is."""
PANDAS = importlib.util.find_spec("pandas") is not None


class Odd(NamedTuple):
    """An argument that is not as it should be."""

    words: str
    value: Any
    demand: Demand = "any"


def odd(rng: Generator, kind: str, right: Any) -> Odd:
    """Something odd in the place of an argument of a kind."""
    if rng.random() < 0.2:
        return pick(rng, universal())
    return pick(rng, PALETTES[kind](rng, right))


def universal() -> list[Odd]:
    """What can stand anywhere."""
    things: list[Any] = [None, "word", b"bytes", "", object(), {}, [], (), set(), [[]], [None]]
    things += [float("nan"), float("inf"), -1, 0, 1, True, False, 1j, ..., range(3), np.ma.masked]
    things += [np.array(None, dtype=object), np.array([]), np.float64(np.nan), Exception("no")]
    things += [lambda *_: None, datetime.date(2024, 1, 1), np.datetime64("2024-01-01")]
    made = [Odd(f"{type(thing).__name__} {thing!r}"[:60], thing) for thing in things]
    return [*made, Odd("a generator", (k for k in range(3)))]


def of_number(rng: Generator, right: float) -> list[Odd]:
    v = float(right)
    return [
        Odd("nan", float("nan"), "refuse"),
        Odd("a complex number", complex(v, 1), "refuse"),
        Odd("np.float64", np.float64(v), "same"),
        Odd("a 0-d array", np.array(v), "same"),
        Odd("a Fraction", Fraction(v), "same"),
        *(Odd(repr(w), w) for w in (0.0, -v, 1e308, 5e-324, 1e-300, True, str(v), Decimal(v))),
        *(Odd(repr(w), w) for w in ([v], np.array([v]), np.bool_(True), complex(v), np.float16(v))),
        Odd("10**400", 10**400),
        Odd("-10**400", -(10**400)),
    ]


def of_count(rng: Generator, right: int) -> list[Odd]:
    n = int(right)
    return [
        Odd("nan", float("nan"), "refuse"),
        Odd("between two", n + 0.5, "refuse"),
        Odd("np.int64", np.int64(n), "same"),
        Odd("np.uint8", np.uint8(n), "same"),
        Odd("a float", float(n), "same"),
        *(Odd(repr(w), w) for w in (0, -n, str(n), [n], np.array(n), np.array([n]), Fraction(n))),
        *(Odd(repr(w), w) for w in (-(2**63), complex(n), np.float64(n), np.bool_(True))),
    ]


def of_word(rng: Generator, right: str) -> list[Odd]:
    words = [right.upper(), right + " ", right[:-1], right.encode(), [right], np.str_(right), 3]
    return [Odd(repr(word), word) for word in words]


def of_array(rng: Generator, right: Any) -> list[Odd]:
    v = np.asarray(right, dtype=np.float64)
    where = tuple(whole(rng, 0, n - 1) for n in v.shape)
    mask = np.zeros(v.shape, dtype=bool)
    mask[where] = True
    strided = np.zeros((*v.shape[:-1], 2 * v.shape[-1]))[..., ::2]
    strided[...] = v
    frozen = v.copy()
    frozen.setflags(write=False)
    strings: Any = v.astype(str)
    holes: Any = v.astype(object)
    holes[where] = None
    found = [
        Odd("NaN in it", np.where(mask, np.nan, v), "refuse"),
        Odd("infinity in it", np.where(mask, np.inf, v), "refuse"),
        Odd("a masked entry", np.ma.masked_array(v, mask), "refuse"),
        Odd("complex numbers", v + 1j, "refuse"),
        Odd("words", np.full(v.shape, "word"), "refuse"),
        Odd("None in it", holes, "refuse"),
        Odd("nothing masked", np.ma.masked_array(v), "same"),
        Odd("lists", v.tolist(), "same"),
        Odd("a tuple", tuple(v.tolist()), "same"),
        Odd("columns first", np.asfortranarray(v), "same"),
        Odd("strided", strided, "same"),
        Odd("read-only", frozen, "same"),
        Odd("big-endian", v.astype(">f8"), "same"),
        Odd("objects", v.astype(object), "same"),
        Odd("long doubles", v.astype(np.longdouble), "same"),
        Odd("numbers as text", strings),
        Odd("float16", v.astype(np.float16)),
        Odd("float32", v.astype(np.float32)),
        Odd("bool", v > 0),
        Odd("bytes", np.abs(v).clip(0, 200).astype(np.uint8)),
        Odd("times 1e300", v * 1e300),
        Odd("times 1e160", v * 1e160),
        Odd("times 1e-160", v * 1e-160),
        Odd("times 1e-300", v * 1e-300),
        Odd("dates", np.full(v.shape, "2024-01-01", dtype="M8[D]")),
        Odd("transposed", v.T),
        Odd("one axis more", v[None]),
        Odd("one axis more, at the end", v[..., None]),
        Odd("flat", v.ravel()),
        Odd("a number of it", v[where]),
        Odd("shorter", v[:-1]),
        Odd("empty", v[:0]),
        Odd("of one field", np.zeros(v.shape, dtype=[("x", "f8")])),
        Odd("a generator of rows", iter(v)),
    ]
    if v.ndim == 2:
        found.append(Odd("sparse", sparse.csr_array(v), "same"))
        found.append(Odd("np.matrix-like sparse", sparse.coo_matrix(v), "same"))
        found.append(Odd("ragged lists", [[1.0], *v.tolist()], "refuse"))
    if PANDAS and v.ndim <= 2:
        pandas: Any = importlib.import_module("pandas")
        frame: Any = pandas.DataFrame(v) if v.ndim == 2 else pandas.Series(v)
        found.append(Odd("pandas", frame, "same"))
        found.append(Odd("pandas with pandas.NA", frame.astype("Float64").mask(mask), "refuse"))
    return found


def of_arrays(rng: Generator, right: list[Array]) -> list[Odd]:
    """Of one array for each client: something odd about one of them, or about the list."""
    i = whole(rng, 0, len(right) - 1)
    spoilt = [
        Odd(f"client {i}: {o.words}", [*right[:i], o.value, *right[i + 1 :]], o.demand)
        for o in of_array(rng, right[i])
    ]
    return [*spoilt, *_of_lists(right, spoilt)]


def of_labels(rng: Generator, right: list[Array]) -> list[Odd]:
    i = whole(rng, 0, len(right) - 1)
    y = right[i]
    mask = np.arange(len(y)) == whole(rng, 0, len(y) - 1)
    one: list[tuple[str, Any, Demand]] = [
        ("masked", np.ma.masked_array(y, mask), "refuse"),
        ("negative", np.where(mask, -1, y), "refuse"),
        ("too large", np.where(mask, 99, y), "refuse"),
        ("NaN", np.where(mask, np.nan, y.astype(float)), "refuse"),
        ("between two", y + 0.5, "refuse"),
        ("too few", y[:-1], "refuse"),
        ("none", y[:0], "refuse"),
        ("complex", y + 1j, "refuse"),
        ("a list", y.tolist(), "same"),
        ("uint8", y.astype(np.uint8), "same"),
        ("floats", y.astype(float), "same"),
        ("objects", y.astype(object), "same"),
        ("bool", y > 0, "any"),
        ("text", y.astype(str), "any"),
        ("a column", y[:, None], "any"),
        ("one-hot", np.eye(5)[y], "any"),
        ("a set", set(y.tolist()), "any"),
    ]
    spoilt = [
        Odd(f"client {i}: {words}", [*right[:i], value, *right[i + 1 :]], demand)
        for words, value, demand in one
    ]
    return [*spoilt, *_of_lists(right, spoilt)]


def _of_lists(right: list[Any], spoilt: list[Odd]) -> list[Odd]:
    """Something odd about the list itself, as often as about what is in it."""
    objects = np.empty(len(right), dtype=object)
    objects[:] = right
    found = [
        Odd("a tuple", tuple(right), "same"),
        Odd("an array of objects", objects, "same"),
        Odd("a dict of sites", {f"site {i}": part for i, part in enumerate(right)}),
        Odd("a generator", (part for part in right)),
        Odd("one client less", right[:-1]),
        Odd("one client more", [*right, right[0]]),
        Odd("None for a client", [None, *right[1:]], "refuse"),
        Odd("a list deeper", [right]),
        Odd("only the first", right[0]),
        Odd("all in one", np.concatenate(right)),
    ]
    return found * max(1, len(spoilt) // (3 * len(found)))


def of_functions(rng: Generator, right: list[Callable[..., Any]]) -> list[Odd]:
    """Of one function for each client: they raise, or return what they should not."""
    i = whole(rng, 0, len(right) - 1)

    def raises(*_: Any) -> Any:
        raise RuntimeError("no data today")

    def spoils(x: Array, *rest: Any) -> Any:
        found = right[i](x.copy(), *rest)
        x[...] = np.nan
        return found

    returns: list[Any] = [
        None,
        "word",
        [],
        {},
        np.nan,
        np.inf,
        1j,
        np.zeros(7),
        np.zeros((2, 2)),
        True,
    ]
    bad = [Odd(f"client {i} returns {value!r}"[:60], lambda *_, v=value: v) for value in returns]
    bad += [Odd(f"client {i} raises", raises), Odd("not callable", 3, "refuse")]
    bad += [Odd("it changes its argument", spoils, "same")]
    lists = [Odd(o.words, [*right[:i], o.value, *right[i + 1 :]], o.demand) for o in bad]
    return [
        *lists,
        Odd("one function, no list", right[0]),
        Odd("one less", right[:-1]),
        Odd("none", []),
    ]


def of_bounds(rng: Generator, right: Any) -> list[Odd]:
    """Of an array in which infinity is a number like any other."""
    return [o for o in of_array(rng, right) if o.words != "infinity in it"]


def of_answers(rng: Generator, right: list[Array]) -> list[Odd]:
    """Of labels that are only compared: those of no class are wrong answers, and no more."""
    unknown = ("negative", "too large")
    return [o for o in of_labels(rng, right) if not o.words.endswith(unknown)]


PALETTES: dict[str, Callable[[Generator, Any], list[Odd]]] = {
    "number": of_number,
    "count": of_count,
    "word": of_word,
    "array": of_array,
    "bounds": of_bounds,
    "arrays": of_arrays,
    "answers": of_answers,
    "labels": of_labels,
    "functions": of_functions,
    "thing": lambda rng, right: universal(),
}
