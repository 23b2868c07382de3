"""The server's side: what all clients agree on before a model is fitted, from sums and unions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pdmm.tables.client_table import ClientTable, Counts, Moments
from pdmm.tables.columns import NUMBERS, Agreed, agree, sorted_levels
from pdmm.tables.encoding import Encoding
from pdmm.tables.formulas import Formula, columns_in

T = TypeVar("T")


@dataclass(frozen=True)
class Agreement:
    """An encoding, and how many rows each client has for it."""

    encoding: Encoding
    counts: dict[str, Counts]
    notes: tuple[str, ...]
    """What a user should know of how columns were read."""


def reach_agreement(
    clients: Sequence[ClientTable],
    formula: Formula,
    extra: Sequence[str],
    missing: str,
    family: str,
    weights: str | None = None,
) -> Agreement:
    """Ask all clients about their columns, and settle how each is read.

    Args:
        clients: to be asked.
        formula: the model's.
        extra: the expressions of offset and weights.
        missing: "error", "drop" or "mean".
        family: what the outcome is.
        weights: the expression of the weights, if there are any.
    """
    described = ask(clients, lambda client: client.describe(formula.columns))
    for name in formula.columns:
        _refuse_absent(name, described)
    columns = {
        name: agree(name, {client: own[name] for client, own in described.items()})
        for name in formula.columns
    }
    encoding = Encoding(formula, columns)
    notes = _notes(columns, described)
    if missing == "mean":
        encoding = replace(encoding, means=_means(clients, encoding, described, extra))
    counts = ask(clients, lambda client: client.count(encoding, extra, missing, weights))
    taking_part = [client for client in clients if counts[client.name].complete]
    if not taking_part:
        raise ValueError("no client has a row without a missing entry")
    for call in formula.calls:
        encoding = replace(
            encoding, state=encoding.state | {call.text: _state(taking_part, encoding, call)}
        )
    encoding = replace(encoding, levels=_levels(taking_part, encoding))
    encoding = replace(encoding, classes=_classes(taking_part, encoding, family))
    return Agreement(encoding, counts, notes)


def ask(clients: Sequence[ClientTable], question: Callable[[ClientTable], T]) -> dict[str, T]:
    """What each client answers, by name."""
    return {client.name: question(client) for client in clients}


def _refuse_absent(name: str, described: dict[str, Any]) -> None:
    without = [client for client, own in described.items() if name not in own]
    if not without:
        return
    if len(without) == len(described):
        raise ValueError(f"no client has a column {name!r}, which the model needs")
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
    clients: Sequence[ClientTable],
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
    answers = [client.present(encoding, wanted) for client in clients]
    return {name: _mean([answer[name] for answer in answers]) for name in wanted}


def _mean(parts: Sequence[Moments]) -> float:
    return sum(part.total for part in parts) / sum(part.size for part in parts)


def _state(clients: Sequence[ClientTable], encoding: Encoding, call: Any) -> dict[str, Any]:
    """What formulaic keeps of a call of center, scale or standardize."""
    options = {"center": True, "scale": call.function != "center", "ddof": 1}
    if call.function == "standardize":
        options["ddof"] = 0
    given = dict(call.options)
    if "rescale" in given:
        given["scale"] = given.pop("rescale")
    options |= given
    mean = _mean([client.moments(encoding, call, None) for client in clients])
    middle = _option(options["center"], mean)
    spread = None
    if options["scale"] is True:
        about = 0.0 if middle is None else middle
        parts = [client.moments(encoding, call, about) for client in clients]
        count = sum(part.size for part in parts)
        spread = float(np.sqrt(sum(part.squares for part in parts) / (count - options["ddof"])))
        if not spread > 0:
            raise ValueError(f"{call.text!r} cannot be computed: {call.argument!r} is constant")
    elif options["scale"] is not False:
        spread = float(options["scale"])
    return {"ddof": options["ddof"], "center": middle, "scale": spread}


def _option(given: Any, found: float) -> float | None:
    if given is True:
        return found
    return None if given is False else float(given)


def _levels(clients: Sequence[ClientTable], encoding: Encoding) -> dict[str, tuple[Any, ...]]:
    """The union of the levels of each category, the reference first."""
    union: dict[str, list[Any]] = {}
    for client in clients:
        for factor, levels in client.levels(encoding).items():
            union.setdefault(factor, []).extend(levels)
    found = {}
    for factor, levels in union.items():
        inside = factor.removeprefix("C(").removesuffix(")")
        column = encoding.columns.get(factor) or encoding.columns.get(inside)
        found[factor] = tuple(sorted_levels(levels, column.order if column else None))
        if len(found[factor]) == 1:
            raise ValueError(
                f"{factor!r} has only the level {found[factor][0]!r} in all complete rows: leave "
                "it out of the formula"
            )
    return found


def _classes(
    clients: Sequence[ClientTable], encoding: Encoding, family: str
) -> tuple[Any, ...] | None:
    """The classes of the outcome, where these are no numbers or the model has several."""
    if family not in ("binomial", "multinomial"):
        return None
    each = [client.classes(encoding, family == "multinomial") for client in clients]
    if all(classes is None for classes in each):
        return None
    union = [label for classes in each for label in classes or ()]
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
