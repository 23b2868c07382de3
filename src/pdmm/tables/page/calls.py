"""How to make a fit again: the call in Python, and the command."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdmm.tables.inference import SCALED
from pdmm.tables.page.between_sites import BetweenSites, between_sites
from pdmm.tables.page.words import reference_class

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

KIT = "ADMIN_KIT"
MOST_FILES = 4  # that a command names one by one


def python_call(fit: "Fit") -> str:
    """The call that makes this model."""
    settings = dict(_settings(fit))
    family = settings.pop("family")
    words = [f"family={_huber(fit) or repr(family)}"]
    words += [f"{name}={_plain(value)!r}" for name, value in settings.items()]
    client = fit.stored.client
    if client is not None:
        words.insert(0, f"client={client!r}")
    study = between_sites(fit.stored)
    if study is None:
        return _lines("import pdmm", "", *_call("pdmm.fit", [repr(fit.formula), "data", *words]))
    words += [f"{name}={value!r}" for name, value in _asking(study).items()]
    imports = ["import pdmm.federation"]
    if fit.stored.delta is not None:
        imports.insert(0, "import pdmm")
    return _lines(
        *imports,
        "",
        f'federation = pdmm.federation.connect("{KIT}")',
        *_call("federation.fit", [repr(fit.formula), *words]),
    )


def _call(function: str, words: list[str]) -> list[str]:
    return [f"fit = {function}(", *(f"    {word}," for word in words), ")"]


def _lines(*lines: str) -> str:
    return "\n".join([*lines, 'fit.report("report.html")'])


def _asking(study: BetweenSites) -> dict[str, Any]:
    """How the sites were asked, where that is not the usual way."""
    found: dict[str, Any] = {}
    if study.left_out:
        found["leave_out"] = True
    if study.as_asked:
        found["secure"] = False
    return found


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which is written without its type."""
    return value.item() if isinstance(value, np.generic) else value


def _huber(fit: "Fit") -> str | None:
    return None if fit.stored.delta is None else f"pdmm.Huber(delta={fit.stored.delta!r})"


def command(fit: "Fit") -> str | None:
    """The command that makes this model and this page; None where there is none."""
    stored = fit.stored
    study = between_sites(stored)
    options: dict[str, Any] = {"formula": fit.formula}
    if study is None:
        start = " ".join(["pdmm fit", *_files(fit)])
        if stored.client is not None:
            options = {"client": stored.client} | options
    else:
        if stored.client is not None:
            return None  # the command cannot say which column has the names of the sites
        start = f"pdmm federate fit --kit {KIT}"
    options |= dict(_settings(fit))
    if stored.delta is not None:
        options["delta"] = stored.delta
    if study is not None:
        if study.left_out:
            options["leave-out"] = True
        if study.as_asked:
            options["secure"] = "no"
    options |= {"out": "model.pdmm", "report": "report.html"}
    return " \\\n    ".join([start, *(_option(name, value) for name, value in options.items())])


def _option(name: str, value: Any) -> str:
    return f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}"


def _files(fit: "Fit") -> list[str]:
    """One file, or one for each site, whose name it has."""
    if fit.stored.client is not None:
        return ["data.csv"]
    names = [shlex.quote(f"{name}.csv") for name in fit.stored.sites]
    return names if len(names) <= MOST_FILES else [*names[: MOST_FILES - 1], "..."]


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
