"""What came of a study, in text for a terminal."""

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pdmm.cli.federate.policy_words import lines_of

if TYPE_CHECKING:
    import pandas as pd

    from pdmm.flare.studies import Found
    from pdmm.study import Description, Evaluation
    from pdmm.tables import Fit

WIDTH = 80
LEVELS = 40  # characters of the levels of a column, in a line
SHORT = {"calibration slope": "slope", "calibration in the large": "in the large"}


def words_of(found: "Found") -> list[str]:
    """What came of a study, line by line."""
    words: dict[str, Callable[[Any], list[str]]] = {
        "fit": fit_words,
        "describe": description_words,
        "evaluate": evaluation_words,
    }
    return words[found.kind](found.value)


def table_of(found: "Found") -> "pd.DataFrame":
    """The table of a description or an evaluation."""
    if found.kind == "describe":
        return cast("pd.DataFrame", found.value.columns)
    return evaluation_table(found.value)


def fit_words(fitted: "Fit") -> list[str]:
    """The summary of a fit, and its sites where they may be told apart."""
    from pdmm.cli.tables import sites_table

    lines = [str(fitted.summary())]
    if fitted.stored.sites and len(fitted.sites.columns):
        lines += ["", sites_table(fitted)]
    return lines


def description_words(found: "Description") -> list[str]:
    """Common columns, and those that only some sites have."""
    rows = "" if found.rows is None else f" with {found.rows:,} rows together"
    lines = [f"{len(found.sites)} sites{rows}: {', '.join(found.sites)}", ""]
    lines += _columns(found) or ["The sites tell of no column that all of them have."]
    for name, sites in found.elsewhere.items():
        lines.append(f"Only at {', '.join(sites)}: {name}")
    return [*lines, "", *_notes(found.choices)]


def _columns(found: "Description") -> list[str]:
    """A line for each column, below a heading; nothing where there is none."""
    rows = []
    for name, row in found.columns.iterrows():
        missing = f"{row['missing']:.1%}" if "missing" in row else "not told"
        rows.append((str(name), str(row["kind"]), missing, _short(str(row["levels"]))))
    if not rows:
        return []
    return lines_of([("column", "kind", "missing", "levels"), *rows])


def _short(text: str) -> str:
    return text if len(text) <= LEVELS else f"{text[: LEVELS - 4]} ..."


def evaluation_words(found: "Evaluation") -> list[str]:
    """Measures, the calibration table, and each site where it may be told."""
    width = max(map(len, found.measures))
    lines = [f"{name:{width}}  {_number(value)}" for name, value in found.measures.items()]
    if found.calibration is not None:
        lines += ["", "Calibration: groups of rows by the prediction", ""]
        lines += found.calibration.to_string(float_format=_number).splitlines()
    if found.sites is not None:
        short = found.sites.rename(columns=SHORT).rename_axis(None)
        lines += ["", *short.to_string(float_format=_number).splitlines()]
    return [*lines, "", *_notes(found.choices)]


def evaluation_table(found: "Evaluation") -> "pd.DataFrame":
    """The measures of all sites together, and of each one where it may be told."""
    import pandas as pd

    table = pd.DataFrame([found.measures], index=pd.Index(["all"], name="site"))
    return table if found.sites is None else pd.concat([table, found.sites])


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _notes(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(f"Note: {text}.", WIDTH)]
