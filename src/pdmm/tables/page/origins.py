"""How to cite the page, how to make it again, and what left the sites."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdmm.tables.inference import SCALED
from pdmm.tables.page.elements import Html, joined, paragraph, section, tag, terms
from pdmm.tables.page.numbers import counted, whole
from pdmm.tables.page.words import reference_class

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

PAPER = (
    "G. Zhang, K. Niwa and W. B. Kleijn. ",
    "Revisiting the Primal-Dual Method of Multipliers for Optimisation over Centralised Networks.",
)


def origins(fit: "Fit") -> Html:
    """The section."""
    how = fit.stored.how
    versions = terms(
        [
            ("Made", f"{how['made'].replace('T', ' ').replace('+00:00', ' UTC')}"),
            ("pdmm", how["pdmm"]),
            ("NumPy", how["numpy"]),
            ("Python", how["python"]),
        ],
        kind="facts figures",
    )
    return section(
        "origins",
        "To reproduce and to cite",
        tag("h3", "Reproduce"),
        paragraph("In Python, where data are the tables of the sites:"),
        tag("pre", tag("code", python_call(fit))),
        paragraph("On a command line:"),
        tag("pre", tag("code", command(fit))),
        versions,
        tag("h3", "Cite"),
        paragraph(PAPER[0], tag("cite", PAPER[1])),
        paragraph(
            "The pdmm developers. ",
            tag(
                "cite",
                "pdmm: federated and distributed optimisation with the primal-dual method "
                "of multipliers.",
            ),
            f" Version {how['pdmm']}.",
        ),
    )


def privacy(fit: "Fit") -> Html:
    """What left the sites, as it is."""
    fewest = min((int(own["rows"]) for own in fit.stored.sites.values() if own["rows"]), default=0)
    numbers = len(fit.stored.x)
    return section(
        "privacy",
        "What left the sites",
        paragraph(
            "The fit is made of what sites can say in sums: which columns and levels they have, "
            "how many rows and missing entries, and in each round sums over rows of gradients "
            f"({counted(numbers, 'number')}) and, where the method or the standard errors need "
            f"them, of Hessians (a table of {numbers} × {numbers}). No row is among them. A server "
            "that adds these up sees the sums of each site unless secure sums are used, and sums "
            f"over few rows can tell much of them: the smallest site here has "
            f"{counted(fewest, 'row')}. {_on_this_page(fit)}"
        ),
    )


def _on_this_page(fit: "Fit") -> str:
    own = "" if fit.stored.penalised else " and own estimates"
    return (
        f"This page itself shows counts{own} of each site: make sure that its readers may see them."
    )


# --- the call ---------------------------------------------------------------------------------


def python_call(fit: "Fit") -> str:
    """The call of pdmm.fit that makes this model."""
    settings = dict(_settings(fit))
    family = settings.pop("family")
    words = [repr(fit.formula), "data"]
    if fit.stored.client is not None:
        words.append(f"client={fit.stored.client!r}")
    words.append(f"family={_huber(fit) or repr(family)}")
    words += [f"{name}={_plain(value)!r}" for name, value in settings.items()]
    inside = "".join(f"    {word},\n" for word in words)
    return f'import pdmm\n\nfit = pdmm.fit(\n{inside})\nfit.report("report.html")'


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which is written without its type."""
    return value.item() if isinstance(value, np.generic) else value


def _huber(fit: "Fit") -> str | None:
    return None if fit.stored.delta is None else f"pdmm.Huber(delta={fit.stored.delta!r})"


def command(fit: "Fit") -> str:
    """The command that makes this model and this page."""
    stored = fit.stored
    words = ["pdmm fit", *_files(fit)]
    options: dict[str, Any] = {"formula": fit.formula}
    if stored.client is not None:
        options = {"client": stored.client} | options
    options |= dict(_settings(fit))
    if stored.delta is not None:
        options["delta"] = stored.delta
    options |= {"out": "model.pdmm", "report": "report.html"}
    for name, value in options.items():
        words.append(f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}")
    return " \\\n    ".join(
        [" ".join(words[: 1 + len(_files(fit))]), *words[1 + len(_files(fit)) :]]
    )


def _files(fit: "Fit") -> list[str]:
    """One file, or one for each site, whose name it has."""
    if fit.stored.client is not None:
        return ["data.csv"]
    names = [shlex.quote(f"{name}.csv") for name in fit.stored.sites]
    return names if len(names) <= 4 else [*names[:3], "..."]


def _settings(fit: "Fit") -> Iterator[tuple[str, Any]]:
    """The arguments that are not what they are if nobody gives them."""
    stored = fit.stored
    yield "family", stored.family
    for name, usual in (
        ("l1", 0.0),
        ("l2", 0.0),
        ("standardise", False),
        ("missing", "error"),
        ("covariance", "model"),
        ("offset", None),
        ("weights", None),
    ):
        value = getattr(stored, name)
        if value != usual:
            yield name, value
    scale = _scale(fit)
    if scale is not None:
        yield "scale", scale
    if stored.family == "cox" and stored.ties != "efron":
        yield "ties", stored.ties
    reference = reference_class(fit)
    if reference is not None and fit.classes and reference != str(fit.classes[0]):
        yield "reference", next(label for label in fit.classes if str(label) == reference)


def _scale(fit: "Fit") -> Any:
    """What was asked of the scale, which a model file knows by its value alone."""
    pearson = fit.pearson_chi2 / fit.df_resid if fit.df_resid > 0 else np.nan
    by_pearson = bool(np.isclose(fit.scale, pearson, rtol=1e-12))
    if fit.family in SCALED:
        return None if by_pearson or not np.isfinite(fit.scale) else fit.scale
    if fit.scale == 1:
        return None
    return "pearson" if by_pearson else fit.scale


def key_figures(fit: "Fit") -> Html:
    """A line of numbers for the top of the page."""
    stored = fit.stored
    taking_part = stored.counts.clients
    dropped = stored.counts.dropped
    pairs = [
        ("sites" if taking_part != 1 else "site", whole(taking_part)),
        ("rows" if stored.weights is None else "rows, weighted", whole(fit.nobs)),
    ]
    if fit.family in ("binomial", "cox"):
        pairs.append(("events", whole(stored.counts.events)))
    pairs.append(("rows left out", whole(dropped)))
    pairs.append(("rounds", whole(stored.how["rounds"])))
    each = [joined([tag("div", tag("dt", name), tag("dd", value))]) for name, value in pairs]
    return tag("dl", *each, class_="key")
