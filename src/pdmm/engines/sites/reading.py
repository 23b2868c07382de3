"""A site's reply, read field by field: whatever is not as it must be is an error of that site."""

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.limits import LONGEST_NAME
from pdmm.engines.sites.roster import SiteError

Vector = npt.NDArray[np.float64]

SHOWN = 40  # characters of a value that an error shows


class Reply:
    """A site's reply to one question; each method reads a field, or refuses it.

    Args:
        site: its name.
        verb: of the question.
        fields: the reply as it came.
        inside: the field that these fields are in, where they are not the whole reply.
    """

    def __init__(self, site: str, verb: str, fields: Any, inside: str = "") -> None:
        self.site = site
        self.verb = verb
        self.inside = inside
        if not isinstance(fields, dict):
            what = inside or "the reply"
            raise SiteError(f"{self._unread}: {what} is {told(fields)}, and must be a dictionary")
        self.fields: dict[Any, Any] = fields

    @property
    def _unread(self) -> str:
        return f"site {self.site} gave an answer to {self.verb!r} that cannot be read"

    def refuse(self, field: str | int, must: str) -> NoReturn:
        """Say what a field was, and what it must be."""
        name = f"{self.inside}[{field!r}]" if self.inside else repr(field)
        if field not in self.fields:
            raise SiteError(f"{self._unread}: it has no {name}, which must be {must}")
        raise SiteError(f"{self._unread}: its {name} is {told(self.fields[field])}, not {must}")

    def within(self, field: str) -> "Reply":
        """The dictionary in a field."""
        if field not in self.fields:
            self.refuse(field, "a dictionary")
        return Reply(self.site, self.verb, self.fields[field], field)

    def has(self, field: str) -> bool:
        """Whether a field has something in it."""
        return self.fields.get(field) is not None

    def flag(self, field: str) -> bool:
        """True or False."""
        value = self.fields.get(field)
        if not isinstance(value, bool | np.bool_):
            self.refuse(field, "True or False")
        return bool(value)

    def text(self, field: str, choices: Sequence[str] = ()) -> str:
        """A text of a line at most, or one of a few."""
        value = self.fields.get(field)
        must = f"a text of at most {LONGEST_NAME} characters"
        if choices:
            must = "one of " + ", ".join(map(repr, choices))
        if not isinstance(value, str) or not is_name(value) or (choices and value not in choices):
            self.refuse(field, must)
        return value

    def whole(self, field: str, low: int, high: int) -> int:
        """A whole number between two limits, both included."""
        value = self.fields.get(field)
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            self.refuse(field, f"a whole number from {low:,} to {high:,}")
        if not low <= value <= high:
            self.refuse(field, f"a whole number from {low:,} to {high:,}")
        return int(value)

    def number(self, field: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A number between two limits, both included; never NaN."""
        value = self.fields.get(field)
        must = _between(low, high)
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            self.refuse(field, must)
        try:
            found = float(value)
        except OverflowError:  # a whole number beyond all floats
            self.refuse(field, must)
        if not low <= found <= high:
            self.refuse(field, must)
        return found

    def number_or_nan(self, field: str) -> float:
        """A number, which may be infinite, or NaN where none is known."""
        value = self.fields.get(field)
        if isinstance(value, float | np.floating) and math.isnan(value):
            return math.nan
        return self.number(field)

    def array(self, field: str | int, shape: tuple[int, ...]) -> Vector:
        """An array of real numbers of this shape, in float64."""
        value = self.fields.get(field)
        must = f"an array of numbers of shape {shape}"
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
            self.refuse(field, must)
        if value.shape != shape:
            self.refuse(field, must)
        return value.astype(np.float64, copy=False)

    def bounded(self, field: str, shape: tuple[int, ...], most: float) -> Vector:
        """Such an array, of finite numbers of at most this size."""
        found = self.array(field, shape)
        if not np.isfinite(found).all():
            raise SiteError(
                f"{self._unread}: its {field!r} is not finite: something is wrong with its data "
                "or its functions"
            )
        if found.size and float(np.abs(found).max()) > most:
            raise SiteError(
                f"{self._unread}: its {field!r} has numbers as large as "
                f"{float(np.abs(found).max()):.3g}, and at most {most:g} is taken"
            )
        return found


def is_name(value: str, longest: int = LONGEST_NAME) -> bool:
    """Whether it is a text that can stand in a line."""
    return len(value) <= longest and value.isprintable()


def told(value: Any) -> str:
    """What a value is, in a few words, however large it may be."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"[: 2 * SHOWN]
    if isinstance(value, int | float | np.number):
        return _number_told(value)
    if isinstance(value, str):
        if len(value) > SHOWN:
            return f"a text of {len(value):,} characters"
        return f"the text {value!r}"
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} of {len(value):,}"
    return f"a {type(value).__name__}"


def _number_told(value: Any) -> str:
    """A number; a whole one may have more digits than Python is willing to print."""
    if not isinstance(value, int):
        return str(value)
    if value.bit_length() > 100:
        return f"a whole number of {value.bit_length():,} bits"
    return f"{value:,}"


def _between(low: float, high: float) -> str:
    if low == -math.inf and high == math.inf:
        return "a number"
    if high == math.inf:
        return f"a number of at least {low:g}"
    if low == -high:
        return f"a finite number of at most {high:g} in size"
    return f"a number from {low:g} to {high:g}"
