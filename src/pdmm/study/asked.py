"""A study at the server: a fit, a description or an evaluation, over sites that hold tables."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from pdmm.engines.sites.roster import Connection, SiteRefusedError, SiteTableError
from pdmm.engines.sites.seal import LEAST_SITES
from pdmm.study import description
from pdmm.study.asked_silos import AskedSilos
from pdmm.study.connected import Connected, Way, Without
from pdmm.study.description import Description
from pdmm.study.evaluation import (
    Evaluation,
    auc,
    bin_edges,
    calibration_table,
    group_edges,
    measures_of,
)
from pdmm.study.evaluation_questions import LARGEST
from pdmm.study.questions import Payload
from pdmm.tables.evaluation import ALL
from pdmm.tables.fitted import Fit
from pdmm.tables.formulas import Formula, columns_in, read_formula
from pdmm.tables.joint import check, fit_jointly
from pdmm.tables.silos import Options
from pdmm.tables.stored import Stored, body_of

T = TypeVar("T")

LEAST = 2  # sites of a study that may still leave one out
STEPS = 30  # of Newton's method, for the calibration
CLOSE = 1e-9


def fit(
    connection: Connection,
    formula: str,
    options: Options | None = None,
    way: Way | None = None,
    label: str | None = None,
) -> Fit:
    """Fit a model to the tables of all sites, as :func:`pdmm.fit` does in one process.

    Args:
        connection: to the sites.
        formula: of the model.
        options: of the fit.
        way: how the sites are asked.
        label: a column that holds the name of the site, if the formula uses one.
    """
    options = options or Options()
    check(options)

    def one(sites: Connected) -> Fit:
        read = _formula(formula, sites, options, label)
        found = fit_jointly(AskedSilos(sites, options, label), read, options)
        return _noted(found, [sites.why])

    return _tolerant(connection, way or Way(), one, _noted)


def _noted(found: Fit, notes: list[str]) -> Fit:
    """The fit, with what is to be known of how the sites were asked."""
    said = [note for note in notes if note not in found.notes]
    stored = replace(found.stored, notes=(*found.notes, *said))
    return Fit(stored, result=found.result)


def _formula(text: str, sites: Connected, options: Options, label: str | None) -> Formula:
    """The formula, whose dot stands for all columns that the sites share."""
    bare = re.sub(r"\bnp\.|\d+\.\d*|\.\d+|`[^`]*`|'[^']*'|\"[^\"]*\"", "", str(text))
    if "." not in bare:
        return read_formula(text, None, options.extra)
    each = _kinds(sites)
    if not all(each.values()):
        raise ValueError("the formula has a dot, and some site's policy does not tell its columns")
    taken = {label, *(name for extra in options.extra for name in columns_in(extra))}
    common = [name for name in description.common_columns(each) if name not in taken]
    return read_formula(text, common, options.extra)


def _kinds(sites: Connected) -> dict[str, dict[str, str]]:
    found = {}
    for name, reply in sites.told("describe", {}).items():
        own = reply.within("columns")
        found[name] = {str(column): own.text(column) for column in own.fields}
    return found


def _tolerant(
    connection: Connection,
    way: Way,
    work: Callable[[Connected], T],
    noted: Callable[[T, list[str]], T],
) -> T:
    """Do a study; with the researcher's leave, without sites whose tables do not fit."""
    names = list(connection.names)
    least = LEAST_SITES if way.secure is True else LEAST
    notes: list[str] = []
    while True:
        sites = None
        try:
            sites = Connected(Without(connection, names), way)
            return noted(work(sites), notes)
        except (SiteTableError, SiteRefusedError) as error:
            late = sites is not None and sites.begun  # the difference would be this site's part
            if late or not way.leave_out or len(names) <= least:
                raise
            names = [name for name in names if name != error.site]
            why = str(error).removeprefix(f"site {error.site}: ")
            why = why.removeprefix(f"site {error.site} ").split(":")[0]
            notes.append(f"site {error.site} was left out: {why}")


# --- descriptions -------------------------------------------------------------------------------


def describe(connection: Connection, way: Way | None = None) -> Description:
    """What the tables of all sites have in common, as far as their policies tell."""
    sites = Connected(connection, way or Way())
    sites.phase("asking the sites for their columns")
    replies = sites.told("describe", {})
    kinds = {}
    levels: dict[str, dict[str, list[Any]]] = {}
    rare: dict[str, list[str]] = {}
    tells = {}
    for name, reply in replies.items():
        own = reply.within("columns")
        kinds[name] = {str(column): own.text(column) for column in own.fields}
        tells[name] = list(reply.fields.get("tells") or ())
        told = reply.within("levels")
        for column, found in told.fields.items():
            levels.setdefault(column, {})[name] = list(found)
        for column in reply.fields.get("rare") or ():
            rare.setdefault(column, []).append(name)
    common = description.common_columns(kinds)
    rows, missing = _row_sums(sites, tells, common)
    table = pd.DataFrame(index=pd.Index(common, name="column"))
    each = {c: {site: own[c] for site, own in kinds.items()} for c in common}
    table["kind"] = [description.kind_in_words(c, each[c]) for c in common]
    table["levels"] = [
        description.united_levels(levels.get(c, {}), rare.get(c, [])) for c in common
    ]
    if missing is not None and rows:
        table["missing"] = np.asarray(missing) / rows
    return Description(
        sites=tuple(sites.names),
        rows=rows,
        columns=table,
        elsewhere=description.columns_elsewhere(kinds),
        choices=(sites.why,),
    )


def _row_sums(
    sites: Connected, tells: dict[str, list[str]], common: list[str]
) -> tuple[int | None, Any]:
    """How many rows there are, and missing entries of each column, where all sites tell it."""
    if not all("rows" in each for each in tells.values()):
        return None, None
    wanted = common if all("missing" in each for each in tells.values()) else []
    sites.phase("counting rows and missing entries")
    found = sites.sums("rows", {"columns": wanted}, rows=(), missing=(len(wanted),))
    return round(float(found["rows"])), np.rint(found["missing"]) if wanted else None


# --- evaluations --------------------------------------------------------------------------------


def evaluate(connection: Connection, model: Fit, way: Way | None = None) -> Evaluation:
    """How well a model predicts the rows that sites have set aside.

    Args:
        connection: to the sites.
        model: as ``fit`` returns it, or ``pdmm.load`` reads it.
        way: how the sites are asked.
    """

    def one(sites: Connected) -> Evaluation:
        return _evaluated(sites, model.stored)

    def noted(found: Evaluation, notes: list[str]) -> Evaluation:
        return replace(found, choices=(*found.choices, *notes))

    return _tolerant(connection, way or Way(), one, noted)


FIRST = {
    "binomial": ("observed", "expected", "squares", "losses", "eta", "eta_squares"),
    "multinomial": ("right", "squares", "losses"),
    "cox": ("events", "agreed", "known"),
}
NUMBERS = ("observed", "expected", "squares", "absolute")


def _evaluated(sites: Connected, stored: Stored) -> Evaluation:
    sites.phase("evaluating the model")
    family = stored.family
    body = body_of(replace(stored, sites={}, path=None))
    names = ("aside", "rows", "weight", *FIRST.get(family, NUMBERS))
    sums = sites.sums("evaluation", {"model": body}, **dict.fromkeys(names, ()))
    aside, rows = (round(float(sums[name])) for name in ("aside", "rows"))
    sums["rows"] = rows
    more: Payload = {}
    calibration = None
    if family == "binomial":
        edges = bin_edges(sums, len(sites.names))
        bins = _in_bins(sites, edges, "rows", "observed")
        groups = group_edges(edges, bins["rows"])
        calibration = calibration_table(_in_bins(sites, groups, "rows", "expected", "observed"))
    elif family not in ("multinomial", "cox"):
        mean = float(sums["observed"]) / float(sums["weight"])
        shapes = {"spread": ()}
        if family in ("poisson", "gamma"):
            shapes |= {"deviance": (), "null": ()}
        more = sites.sums("evaluation_more", {"mean": mean}, **shapes)
    measures = measures_of(family, sums, more)
    if family == "binomial":
        found, width = auc(bins["observed"], bins["rows"] - bins["observed"])
        slope, shift = _calibrated(sites, sums)
        measures |= {"AUC": found, "AUC width": width}
        measures |= {"calibration slope": slope, "calibration in the large": shift}
    return Evaluation(
        family=family,
        measures=measures,
        calibration=calibration,
        sites=_each(sites, body) if sites.per_site else None,
        choices=(sites.why, *_not_judged(aside, rows)),
    )


def _in_bins(sites: Connected, edges: Any, *names: str) -> dict[str, Any]:
    """Sums over bins of linear predictors."""
    payload = {"edges": edges, "expected": "expected" in names}
    shape = (len(edges) + 1,)
    found = sites.sums("evaluation_more", payload, **dict.fromkeys(names, shape))
    # what secure sums have rounded away of an empty bin
    return {name: np.where(np.abs(own) < 1e-9, 0.0, own) for name, own in found.items()}


def _not_judged(aside: int, rows: int) -> Iterator[str]:
    """How many of the rows that are set aside do not count, and why."""
    if rows < aside:
        yield (
            f"{aside - rows:,} of {aside:,} rows that are set aside were left out: an entry is "
            "missing, or a value is unknown to the model or rarer at its site than the site's "
            "policy allows"
        )


def _calibrated(sites: Connected, sums: Payload) -> tuple[float, float]:
    """The slope of a logistic model of outcomes by predictions, and its shift where that is 1."""
    if not 0 < float(sums["observed"]) < float(sums["weight"]):
        return np.nan, np.nan
    sites.phase("calibration")
    slope, shift = 1.0, 0.0
    alone = 0.0
    known = True
    for _ in range(STEPS):
        found = sites.sums(
            "calibration",
            {"at": np.array([slope, shift, alone])},
            gradient=(2,),
            hessian=(2, 2),
            alone=(2,),
        )
        apart = float(found["alone"][0] / found["alone"][1])
        alone -= apart
        step = _newton_step(found["gradient"], found["hessian"])
        known = known and bool(np.abs([slope - step[0], shift - step[1], alone]).max() <= LARGEST)
        if not known:  # predictions that are nearly the same: no slope is better than another
            slope, shift = 1.0, 0.0
            step = np.zeros(2)
        slope, shift = slope - float(step[0]), shift - float(step[1])
        if max(float(np.abs(step).max()), abs(apart)) < CLOSE:
            break
        if not abs(alone) <= LARGEST:
            return np.nan, np.nan
    return slope if known else np.nan, alone


def _newton_step(g: Any, H: Any) -> Any:
    """(2,): NaN where all predictions are the same."""
    if not np.linalg.det(H) > 1e-12 * H[0, 0] * H[1, 1]:
        return np.full(2, np.nan)
    return np.linalg.solve(H, g)


def _each(sites: Connected, body: Payload) -> pd.DataFrame:
    """The measures of each site."""
    rows = {}
    for name, reply in sites.told("evaluation_alone", {"model": body}).items():
        own = reply.within("measures")
        rows[name] = {str(measure): own.number_or_nan(measure) for measure in own.fields}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "site"
    return table[table.index != ALL]
