"""Tables at sites, as a fit asks them."""

from collections.abc import Sequence
from typing import Any

from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import SiteTableError
from pdmm.study.asked_model import AskedModel
from pdmm.study.connected import Connected
from pdmm.study.questions import Payload, packed
from pdmm.tables.agreement import Agreement
from pdmm.tables.client_table import Counts, Moments
from pdmm.tables.columns import Column
from pdmm.tables.encoding import Encoding
from pdmm.tables.expressions import Call
from pdmm.tables.silos import Options

KINDS = ("float", "int", "bool", "label", "text", "digits", "date", "mixed", "empty")


class AskedSilos:
    """The sites of a study.

    Args:
        sites: which have agreed to be asked.
        options: of the fit.
        label: the column that holds the names of the sites, if the formula uses it.
    """

    unlabelled = 0

    def __init__(self, sites: Connected, options: Options, label: str | None) -> None:
        self.sites = sites
        self.options = options
        self.label = label

    def describe(self, wanted: Sequence[str]) -> dict[str, dict[str, Column]]:
        self.sites.phase("asking the sites for the columns of the formula")
        payload = {"columns": list(wanted), "label": self.label, "family": self.options.name}
        found: dict[str, dict[str, Column]] = {}
        for name, reply in self.sites.told("kinds", payload).items():
            own = reply.within("columns")
            found[name] = {c: _column(own, c) for c in wanted if c in own.fields}
        for name, columns in found.items():
            _refuse_unfit(name, columns, wanted, found)
        return found

    def present(self, encoding: Encoding, names: Sequence[str]) -> dict[str, Moments]:
        payload = self._about(encoding) | {"names": list(names)}
        shapes = {f"{k}": (2,) for k in range(len(names))}
        sums = self.sites.sums("present", payload, **shapes)
        return {
            name: Moments(float(sums[f"{k}"][0]), float(sums[f"{k}"][1]), 0.0)
            for k, name in enumerate(names)
        }

    def count(
        self, encoding: Encoding, extra: Sequence[str], missing: str, weights: str | None
    ) -> Counts:
        self.sites.phase("counting rows")
        payload = self._about(encoding) | {"missing": missing, "weights": weights}
        sums = self.sites.sums("count", payload, rows=(), complete=())
        return Counts(round(float(sums["rows"])), round(float(sums["complete"])))

    def moments(self, encoding: Encoding, call: Call, mean: float | None) -> Moments:
        payload = self._about(encoding) | {"call": call.text, "mean": mean}
        size, total, squares = self.sites.sums("moments", payload, moments=(3,))["moments"]
        return Moments(float(size), float(total), float(squares))

    def levels(self, encoding: Encoding) -> dict[str, list[Any]]:
        self.sites.phase("agreeing on levels")
        union: dict[str, list[Any]] = {}
        for reply in self.sites.told("levels", self._about(encoding)).values():
            own = reply.within("levels")
            for factor in own.fields:
                union.setdefault(str(factor), []).extend(_labels(own, factor))
        return union

    def classes(self, encoding: Encoding, numbers: bool) -> list[Any] | None:
        payload = self._about(encoding) | {"numbers": numbers}
        replies = self.sites.told("classes", payload).values()
        each = [_labels(reply, "classes") for reply in replies if reply.has("classes")]
        return [label for classes in each for label in classes] if each else None

    def model(self, agreement: Agreement, options: Options) -> AskedModel:
        self.sites.phase("making the rows of the model matrix")
        return AskedModel(self.sites, agreement, options, self._about(agreement.encoding))

    def _about(self, encoding: Encoding) -> Payload:
        return {"encoding": packed(encoding, self.options.extra)}


def _refuse_unfit(
    site: str,
    columns: dict[str, Column],
    wanted: Sequence[str],
    every: dict[str, dict[str, Column]],
) -> None:
    """Name a site that lacks a column that others have, or holds something else in it."""
    for name in wanted:
        others = {other: own[name].kind for other, own in every.items() if name in own}
        if not others:
            return  # of no site, which is the formula's mistake
        if name not in columns:
            raise SiteTableError(site, f"its table has no column {name!r}, which the model needs")
        kind = columns[name].kind
        if kind in ("date", "mixed"):
            what = "dates" if kind == "date" else "entries of several kinds"
            raise SiteTableError(site, f"column {name!r} holds {what}: make it numbers or text")
        words = [other for other, k in others.items() if k in ("text", "label")]
        numbers = [other for other, k in others.items() if k in ("float", "int", "bool")]
        if not words or not numbers or "label" in others.values():
            continue
        odd, usual = (words, numbers) if len(words) <= len(numbers) else (numbers, words)
        if site in odd and len(odd) < len(usual):
            held = "words" if odd is words else "numbers"
            other = "numbers" if odd is words else "words"
            raise SiteTableError(
                site, f"column {name!r} holds {held}, and {other} at site {usual[0]}"
            )


def _column(own: Reply, name: str) -> Column:
    """What a site says of a column."""
    told = own.fields[name]
    if not isinstance(told, list) or len(told) != 3:
        own.refuse(name, "a kind, whether entries are missing, and an order")
    named = Reply(own.site, own.verb, dict(zip(("kind", "missing", "order"), told, strict=True)))
    order = tuple(_labels(named, "order")) if named.has("order") else None
    return Column(named.text("kind", KINDS), int(named.flag("missing")), order)


def _labels(reply: Reply, field: Any) -> list[Any]:
    """A list of levels: texts, numbers, true or false."""
    found = reply.fields.get(field)
    plain = str | int | float | bool
    if not isinstance(found, list) or not all(isinstance(label, plain) for label in found):
        reply.refuse(field, "a list of texts or numbers")
    return found
