"""A site's part of a round under masks: what it adds, and what its clients will remember."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pdmm.engines.client_round import Done, Made
from pdmm.engines.secure.layout import UPLOAD, Layout, Vector
from pdmm.engines.secure.part import (
    committed_part,
    encoded_numbers,
    encoded_uploads,
    numbers_beside,
)
from pdmm.engines.secure.words import Read
from pdmm.engines.sites.limits import LARGEST
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.seal import Payload, Seal
from pdmm.methods.base import Method
from pdmm.problems.block import Tally

DIGITS = 2  # of what is told in the clear


def sealed_round(
    method: Method,
    made: Made,
    value: float | None,
    weights: Vector,
    layout: Layout,
    seal: Seal,
    clear: Mapping[str, Any],
) -> tuple[Payload, Done]:
    """The masked answer of a round, and what the clients remember if it counts.

    Args:
        method: of the run.
        made: what the site's clients made of the message.
        value: F of them, where it is wanted.
        weights: theirs.
        layout: what the sum of the round is of.
        seal: what masks the answer.
        clear: what it tells beside.
    """
    check_finite(made.upload, layout)
    seal.check_layout(layout)
    k = seal.mask.scales
    room = seal.room
    uploads = encoded_uploads(made, weights, layout, k, room, seal.mask.long)
    numbers = numbers_beside(method, made, weights, value)
    beside = encoded_numbers(numbers, layout, k, room, seal.mask.long)
    done = committed_part(method, made, weights, uploads, k)
    tally = {"error": ten_above(made.tally.error), "missed": ten_above(made.tally.missed)}
    part = Read.joined([uploads.part, beside.part])
    return seal.sealed(part, {**clear, **tally, "next": seal.name}), done


def in_the_clear(shown: Any) -> Payload:
    """What a site tells of L and mu beside its masked part: what gradients have shown of them."""
    if shown is None:
        return {}
    steepest, least, bent = shown
    rounded = [two_digits(steepest, up=True), two_digits(least, up=False)]
    return {"shown": [*rounded, two_digits(bent, up=True)]}


def check_finite(upload: Any, layout: Layout) -> None:
    """Refuse an upload that no sum could be read of."""
    for part, field in zip(layout.parts, upload, strict=False):
        if part.precise or not np.asarray(field).size:
            continue  # of such a field what is too large is told as that
        if not (np.abs(np.asarray(field, dtype=np.float64)) <= LARGEST).all():
            raise SiteError(
                f"{part.name.removeprefix(UPLOAD)} of its upload is not finite, or larger than "
                f"{LARGEST:g}: something is wrong with its data or its functions, or the step "
                "size is too large"
            )


def ten_above(number: float) -> float:
    """The power of ten at or above a number, which is all that is told of it.

    >>> ten_above(0.0), ten_above(2e-9), ten_above(1.0)
    (0.0, 1e-08, 1.0)
    """
    if not 0 < number < math.inf:
        return float(number)
    return float(f"1e{math.ceil(math.log10(number))}")


def two_digits(numbers: Vector, up: bool) -> Vector:
    """Numbers of two digits, none of them below what it stands for, or none above.

    >>> two_digits(np.array([1.234, 56.7, 0.0, np.inf]), up=True).tolist()
    [1.3, 57.0, 0.0, inf]
    >>> two_digits(np.array([1.234, 1.2, -1.234]), up=False).tolist()
    [1.2, 1.2, -1.3]
    """
    found = np.array(numbers, dtype=np.float64)
    for place, number in np.ndenumerate(found):
        if number == 0 or not np.isfinite(number):
            continue
        power = math.floor(math.log10(abs(number))) - DIGITS + 1
        whole = math.ceil if up else math.floor
        steps = number / 10.0**power
        near = round(steps)
        if abs(steps - near) > 1e-9 * abs(steps):  # else it has two digits already
            near = whole(steps)
        found[place] = float(f"{near}e{power}")
    return found


def tally_of(numbers: dict[str, Any], error: float, missed: float) -> Tally:
    """What all clients were asked for, from the sums of their counts."""
    return Tally(
        gradients=round(float(numbers["gradients"])),
        values=round(float(numbers["values"])),
        exact=round(float(numbers["exact"])),
        error=error,
        missed=missed,
    )
