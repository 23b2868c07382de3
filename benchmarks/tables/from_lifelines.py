"""Tables of survival that come with lifelines; each client has its own risk sets."""

from collections.abc import Iterator
from pathlib import Path

import lifelines.datasets
import pandas as pd

from benchmarks.tables.table import Table, at_random, by, indicators, split

FOLDER = Path(lifelines.datasets.__file__).parent


def tables() -> Iterator[Table]:
    yield lung()
    yield rossi()
    yield gbsg2()
    yield actg175()
    yield rulers()


def _outcome(frame: pd.DataFrame, time: str, event: str) -> pd.DataFrame:
    return pd.DataFrame({"time": frame[time], "event": frame[event]})


def lung() -> Table:
    table = pd.read_csv(FOLDER / "lung.csv").drop(columns="meal.cal").dropna()
    return split(
        table.drop(columns=["inst", "time", "status"]),
        _outcome(table, "time", "status"),
        by(table["inst"]),
        name="lung",
        family="cox",
        what="Survival with lung cancer by age, sex, 3 scores and lost weight; 19 rows with "
        "missing values were dropped.",
        split="By the 18 institutions, 1 to 33 rows each.",
    )


def rossi() -> Table:
    table = pd.read_csv(FOLDER / "rossi.csv")
    return split(
        table.drop(columns=["week", "arrest"]),
        _outcome(table, "week", "arrest"),
        at_random(len(table), 6),
        name="rossi",
        family="cox",
        what="Weeks from a prisoner's release to the next arrest, by 7 columns.",
        split="At random into 6 clients of 72 rows.",
    )


def gbsg2() -> Table:
    table = pd.read_csv(FOLDER / "gbsg2.csv")
    X = table.drop(columns=["time", "cens", "tgrade"])
    return split(
        indicators(X),
        _outcome(table, "time", "cens"),
        by(table["tgrade"]),
        name="gbsg2",
        family="cox",
        what="Recurrence of breast cancer, by 7 columns, of which the receptors reach 2,380.",
        split="By the tumour's grade: 3 clients.",
        held_out=True,
    )


def actg175() -> Table:
    table = pd.read_csv(FOLDER / "ACTG175.csv")
    some = ["age", "wtkg", "hemo", "homo", "drugs", "karnof", "preanti", "race", "gender"]
    return split(
        table[[*some, "symptom", "treat", "cd40", "cd420", "cd80", "cd820"]],
        _outcome(table, "days", "cens"),
        by(table["strat"]),
        name="ACTG175",
        family="cox",
        what="Days until HIV got worse, by 15 columns of all scales.",
        split="By the trial's own strata, the history of treatment: 3 clients.",
        held_out=True,
    )


def rulers() -> Table:
    table = pd.read_csv(FOLDER / "dd.csv")
    return split(
        indicators(table[["regime", "start_year"]]),
        _outcome(table, "duration", "observed"),
        by(table["un_region_name"]),
        name="rulers",
        family="cox",
        what="Years in power of 1,808 rulers, by the kind of regime and the first year itself.",
        split="By the regions of the United Nations, which are very different.",
        held_out=True,
    )
