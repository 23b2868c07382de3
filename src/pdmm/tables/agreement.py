"""The server's side: what all clients agree on before a model is fitted, from sums and unions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdmm.tables.client_table import Counts
from pdmm.tables.columns import NUMBERS, Agreed, agree, sorted_levels
from pdmm.tables.encoding import Encoding
from pdmm.tables.formulas import Formula, columns_in
from pdmm.tables.silos import Silos


@dataclass(frozen=True)
class Agreement:
    """An encoding, and how many rows all clients have for it."""

    encoding: Encoding
    counts: Counts
    notes: tuple[str, ...]
    """What a user should know of how columns were read."""


def reach_agreement(
    silos: Silos,
    formula: Formula,
    extra: Sequence[str],
    missing: str,
    family: str,
    weights: str | None = None,
) -> Agreement:
    """Ask all clients about their columns, and settle how each is read.

    Args:
        silos: the clients to be asked.
        formula: the model's.
        extra: the expressions of offset and weights.
        missing: "error", "drop" or "mean".
        family: what the outcome is.
        weights: the expression of the weights, if there are any.
    """
    described = silos.describe(formula.columns)
    for name in formula.columns:
        _refuse_absent(name, described)
    columns = {
        name: agree(name, {client: own[name] for client, own in described.items()})
        for name in formula.columns
    }
    encoding = Encoding(formula, columns)
    notes = _notes(columns, described)
    if missing == "mean":
        encoding = replace(encoding, means=_means(silos, encoding, described, extra))
    counts = silos.count(encoding, extra, missing, weights)
    if not counts.complete:
        raise ValueError("no table has a row without a missing entry")
    for call in formula.calls:
        encoding = replace(
            encoding, state=encoding.state | {call.text: _state(silos, encoding, call)}
        )
    encoding = replace(encoding, levels=_levels(silos, encoding))
    encoding = replace(encoding, classes=_classes(silos, encoding, family))
    return Agreement(encoding, counts, notes)


def _refuse_absent(name: str, described: dict[str, Any]) -> None:
    without = [client for client, own in described.items() if name not in own]
    if not without:
        return
    if len(without) == len(described):
        raise ValueError(f"no table has a column {name!r}, which the model needs")
    if len(without) == 1:
        raise ValueError(f"client {without[0]!r} has no column {name!r}, which the model needs")
    words = " and ".join(repr(client) for client in without[:3])
    more = f" and {len(without) - 3} more" if len(without) > 3 else ""
    raise ValueError(f"clients {words}{more} have no column {name!r}, which the model needs")


def _notes(columns: dict[str, Agreed], described: dict[str, Any]) -> tuple[str, ...]:
    found = []
    for name, agreed in columns.items():
        digits = [client for client, own in described.items() if own[name].kind == "digits"]
        if digits and agreed.kind in NUMBERS:
            found.append(
                f"column {name!r} is text at client {digits[0]!r}, and was read as numbers"
            )
    return tuple(found)


def _means(
    silos: Silos,
    encoding: Encoding,
    described: dict[str, Any],
    extra: Sequence[str],
) -> dict[str, float]:
    """The mean over all clients of each column of numbers with a missing entry.

    Outcomes, weights, offsets and categories are never invented: rows without one are left out.
    """
    categories = [factor for factor in encoding.formula.factors if factor.startswith("C(")]
    texts = (*encoding.formula.outcome, *categories, *extra)
    kept = {name for text in texts for name in columns_in(text)}
    wanted = [
        name
        for name, agreed in encoding.columns.items()
        if agreed.kind in NUMBERS
        and name not in kept
        and any(own[name].missing for own in described.values())
    ]
    if not wanted:
        return {}
    found = silos.present(encoding, wanted)
    return {name: found[name].mean for name in wanted}


def _state(silos: Silos, encoding: Encoding, call: Any) -> dict[str, Any]:
    """What formulaic keeps of a call of center, scale or standardize."""
    options = {"center": True, "scale": call.function != "center", "ddof": 1}
    if call.function == "standardize":
        options["ddof"] = 0
    given = dict(call.options)
    if "rescale" in given:
        given["scale"] = given.pop("rescale")
    options |= given
    mean = silos.moments(encoding, call, None).mean
    middle = _option(options["center"], mean)
    spread = None
    if options["scale"] is True:
        about = 0.0 if middle is None else middle
        found = silos.moments(encoding, call, about)
        spread = float(np.sqrt(found.squares / (found.size - options["ddof"])))
        if not spread > 0:
            raise ValueError(f"{call.text!r} cannot be computed: {call.argument!r} is constant")
    elif options["scale"] is not False:
        spread = float(options["scale"])
    return {"ddof": options["ddof"], "center": middle, "scale": spread}


def _option(given: Any, found: float) -> float | None:
    if given is True:
        return found
    return None if given is False else float(given)


def _levels(silos: Silos, encoding: Encoding) -> dict[str, tuple[Any, ...]]:
    """The union of the levels of each category, the reference first."""
    found = {}
    for factor, levels in silos.levels(encoding).items():
        inside = factor.removeprefix("C(").removesuffix(")")
        column = encoding.columns.get(factor) or encoding.columns.get(inside)
        found[factor] = tuple(sorted_levels(levels, column.order if column else None))
        if len(found[factor]) == 1:
            raise ValueError(
                f"{factor!r} has only the level {found[factor][0]!r} in all complete rows: leave "
                "it out of the formula"
            )
    return found


def _classes(silos: Silos, encoding: Encoding, family: str) -> tuple[Any, ...] | None:
    """The classes of the outcome, where these are no numbers or the model has several."""
    if family not in ("binomial", "multinomial"):
        return None
    union = silos.classes(encoding, family == "multinomial")
    if union is None:
        return None
    column = encoding.columns.get(encoding.formula.outcome[0])
    found = tuple(sorted_levels(union, column.order if column else None))
    if family == "binomial" and len(found) != 2:
        words = ", ".join(repr(label) for label in found[:6])
        raise ValueError(
            f"the outcome {encoding.formula.outcome[0]!r} of a binomial model must have two "
            f"classes, and there are {len(found)}: {words}"
        )
    if len(found) < 2:
        raise ValueError(f"the outcome {encoding.formula.outcome[0]!r} has only one class")
    return found
