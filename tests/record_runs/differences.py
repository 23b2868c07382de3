"""What is not the same in two outcomes of a run, bit for bit."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from record_runs.plain import Plain


class Difference(NamedTuple):
    """One field that is not the same."""

    field: str
    text: str

    @property
    def in_bytes(self) -> bool:
        """Whether it is only about how many bytes were counted."""
        *path, last = self.field.split("/")
        return "bytes" in last and bool(path) and path[-1] in ("history", "certificate")

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def differences(before: Plain, now: Plain) -> list[Difference]:
    """All fields that are not the same; NaN is the same as NaN, 0.0 is not -0.0."""
    found = [Difference(name, "is gone") for name in before if name not in now]
    found += [Difference(name, "is new") for name in now if name not in before]
    for name, old in before.items():
        if name in now and (text := _difference(old, now[name])):
            found.append(Difference(name, text))
    return found


def _difference(old: Any, new: Any) -> str:
    """What differs, in words; nothing if nothing does."""
    if type(old) is not type(new):
        return f"was a {type(old).__name__} {_short(old)}, is a {type(new).__name__} {_short(new)}"
    if not isinstance(old, np.ndarray | np.generic | float):
        return "" if old == new else f"was {_short(old)}, is {_short(new)}"
    a, b = np.asarray(old), np.asarray(new)
    if a.dtype != b.dtype:
        return f"was {a.dtype}, is {b.dtype}"
    if a.shape != b.shape:
        return f"had shape {a.shape}, has {b.shape}"
    other = np.atleast_1d(_other_bits(a, b))
    if not other.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(other)[0])
    was, now = np.atleast_1d(a)[at], np.atleast_1d(b)[at]
    where = f"first at {at[0] if len(at) == 1 else at} of {a.shape}, " if a.ndim else ""
    return f"{where}was {was!r}, is {now!r}; {_size(a, b)}, {int(other.sum())} of {a.size} differ"


def _other_bits(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where two arrays of a dtype and a shape have not the same bits, NaNs aside."""
    if a.dtype.kind != "f":
        return np.asarray(a != b)
    same = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(~(same | (np.isnan(a) & np.isnan(b))))


def _size(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> str:
    """How large the largest difference is, beside the largest entry."""
    if a.dtype.kind not in "iuf":
        return "no numbers"
    wide, other = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        finite = np.isfinite(wide) & np.isfinite(other)
        apart = np.abs(wide - other)[finite].max(initial=0.0)
        largest = np.abs(wide)[finite].max(initial=0.0)
        return f"relative size {apart / largest if largest else apart:.1e}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
