"""What a server asks about tables: the verbs, and encodings as they travel."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pdmm.tables.columns import Agreed
from pdmm.tables.encoding import Encoding, from_json, to_json
from pdmm.tables.expressions import Call
from pdmm.tables.formulas import Formula, read_formula

Payload = dict[str, Any]

SUMS = (
    *("rows", "present", "count", "moments", "columns_total", "columns_squares", "statistics"),
    *("fold_weights", "fold_constants", "fold_start", "fold_ask", "fold_grams"),
    *("evaluation", "evaluation_more", "calibration"),
)
"""Questions whose answers are only ever added up."""

TOLD = ("describe", "kinds", "levels", "classes", "encode", "alone", "evaluation_alone")
"""Questions that each site answers for itself: kinds, unions, and what policies call per site."""


def packed(encoding: Encoding, extra: Sequence[str] = ()) -> Payload:
    """An encoding for a message, with the expressions that rows need beside its formula."""
    return {**to_json(encoding), "extra": list(extra)}


def unpacked(given: Any) -> Encoding:
    """The encoding of a message. Its formula is read again, so that it can run no code."""
    extra = tuple(str(one) for one in given["extra"])
    return from_json(given, formula_of(str(given["formula"]), str(given["right"]), extra))


@lru_cache(maxsize=16)
def formula_of(text: str, right: str, extra: tuple[str, ...]) -> Formula:
    """A formula that was read before: its dot, if it had one, is resolved."""
    left = text.split("~")[0]
    found = read_formula(f"{left}~ {right}", None, extra)
    return Formula(**(vars(found) | {"text": text}))


def call_of(encoding: Encoding, text: str) -> Call:
    """A call of center or scale, by its text."""
    return next(call for call in encoding.formula.calls if call.text == text)


def agreed_of(given: Any) -> dict[str, Agreed]:
    """Kinds of columns, as they travel."""
    return {
        str(name): Agreed(kind, None if order is None else tuple(order))
        for name, (kind, order) in given.items()
    }
