"""Tables that come with statsmodels."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.datasets

from benchmarks.tables.table import Table, at_random, by, sorted_into, split

FOLDER = Path(statsmodels.datasets.__file__).parent


def tables() -> Iterator[Table]:
    yield rand()
    yield from fair()
    yield star98()
    yield from anes96()
    yield spector()
    yield executions()
    yield grunfeld()
    yield credit_cards()
    yield longley()
    yield smoking()
    yield scotland()
    yield cancer_deaths()
    yield travel()


def _read(path: str, separator: str = ",") -> pd.DataFrame:
    frame = pd.read_csv(FOLDER / path, sep=separator)
    return frame.rename(columns=lambda name: name.strip("'"))


def rand() -> Table:
    table = _read("randhie/src/randhie.csv")
    some = ["logc", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
    return split(
        table[some],
        table["mdvis"],
        by(table["site"]),
        name="RAND",
        family="poisson",
        what="Visits to a physician in a year, by the insurance plan and by health: 9 columns.",
        split="By the 6 sites of the experiment, 2,436 to 4,462 rows each.",
    )


def fair() -> Iterator[Table]:
    table = _read("fair/fair.csv")
    X = table.drop(columns="affairs")
    yield split(
        X,
        table["affairs"],
        by(table["occupation_husb"]),
        name="fair",
        family="poisson",
        what="Affairs a year, which are not whole numbers, by 8 columns on a marriage.",
        split="By the husband's occupation, 6 kinds, so that this column is constant in each.",
    )
    yield split(
        X,
        (table["affairs"] > 0).astype(float),
        by(table["rate_marriage"]),
        name="fair, any",
        family="binomial",
        what="Whether there was any affair, by the same 8 columns.",
        split="By how the marriage was rated, 1 to 5.",
    )


def star98() -> Table:
    table = _read("star98/star98.csv")
    tested = table["MATHTOT"]
    X = table.drop(columns=["MATHTOT", "PR50M"])
    return split(
        X,
        table["PR50M"] / tested,
        sorted_into(X["LOWINC"], 6),
        sample_weight=tested,
        name="star98",
        family="binomial",
        what="Shares of pupils above the median in 303 districts, by 20 columns with products.",
        split="Sorted by the share of low incomes into 6 clients.",
    )


def anes96() -> Iterator[Table]:
    table = _read("anes96/anes96.csv", r"\s+")
    some = ["popul", "selfLR", "age", "educ", "income"]
    yield split(
        table[some],
        table["PID"],
        sorted_into(table["popul"], 6),
        name="anes96",
        family="multinomial",
        what="Which of 7 steps between two parties a voter is on, by 5 columns.",
        split="Sorted by the population of the voter's place into 6 clients.",
    )
    yield split(
        table[["popul", "TVnews", "selfLR", "ClinLR", "DoleLR", "age", "educ", "income"]],
        table["vote"],
        by(table["PID"]),
        name="anes96, vote",
        family="binomial",
        what="Which of two candidates a voter expects to vote for, by 8 columns.",
        split="By the 7 steps between the parties, so that outcomes in each are nearly equal.",
    )


def spector() -> Table:
    table = _read("spector/spector.csv", r"\s+")
    return split(
        table[["GPA", "TUCE", "PSI"]],
        table["GRADE"],
        at_random(len(table), 16),
        name="spector",
        family="binomial",
        what="Whether a student's grade rose, by 3 columns: 32 rows in all.",
        split="At random into 16 clients of 2 rows.",
    )


def executions() -> Table:
    table = _read("cpunish/cpunish.csv")
    return split(
        table.drop(columns=["STATE", "EXECUTIONS"]),
        table["EXECUTIONS"],
        by(table["STATE"]),
        name="executions",
        family="poisson",
        what="Executions in 17 states in 1997, by 6 columns, of which the income is in dollars.",
        split="By state: 17 clients of 1 row.",
    )


def grunfeld() -> Table:
    table = _read("grunfeld/grunfeld.csv")
    return split(
        table[["value", "capital", "year"]],
        table["invest"],
        by(table["firm"]),
        name="grunfeld",
        family="gaussian",
        what="Investment of firms from 1935 to 1954, by value, capital and the year itself.",
        split="By the 11 firms, 20 years each, which are of very different sizes.",
    )


def credit_cards() -> Table:
    table = _read("ccard/ccard.csv")
    return split(
        table.drop(columns="AVGEXP"),
        table["AVGEXP"],
        sorted_into(table["AGE"], 6),
        name="credit cards",
        family="gamma",
        what="Mean monthly expenses by card, by age, income, its square and owning a home.",
        split="Sorted by age into 6 clients of 12 rows.",
    )


def longley() -> Table:
    table = _read("longley/longley.csv")
    return split(
        table.drop(columns=["Obs", "TOTEMP"]),
        table["TOTEMP"],
        sorted_into(table["YEAR"], 4),
        name="longley",
        family="gaussian",
        what="Employment from 1947 to 1962, by 6 columns that are known to be nearly collinear.",
        split="Sorted by year into 4 clients of 4 rows, fewer than there are columns.",
    )


def smoking() -> Table:
    table = _read("china_smoking/china_smoking.csv")
    smokers = table["smoking_yes_cancer_yes"] + table["smoking_yes_cancer_no"]
    others = table["smoking_no_cancer_yes"] + table["smoking_no_cancer_no"]
    cases = pd.concat([table["smoking_yes_cancer_yes"], table["smoking_no_cancer_yes"]])
    people = pd.concat([smokers, others])
    X = pd.DataFrame({"smokes": np.repeat([1.0, 0.0], len(table))})
    return split(
        X,
        cases / people,
        by(np.tile(table["Location"], 2)),
        sample_weight=people,
        name="smoking",
        family="binomial",
        what="Shares of people with lung cancer among smokers and others, of 8,419 in all.",
        split="By the 8 cities of the study: 2 rows each.",
        held_out=True,
    )


def scotland() -> Table:
    table = _read("scotland/scotvote.csv")
    return split(
        table.drop(columns=["COUNCILDIST", "YES"]),
        table["YES"],
        by(table["COUNCILDIST"]),
        name="scotland",
        family="gamma",
        what="Per cent of votes for a parliament with taxes, by 7 columns and a product.",
        split="By the 32 council districts: 32 clients of 1 row.",
        held_out=True,
    )


def cancer_deaths() -> Table:
    table = _read("cancer/cancer.csv")
    return split(
        table[["population"]],
        table["cancer"],
        sorted_into(table["population"], 7),
        offset=np.log(table["population"]),
        name="cancer deaths",
        family="poisson",
        what="Deaths by breast cancer in 301 counties, by the population, whose log is the offset.",
        split="Sorted by population into 7 clients of 43 rows.",
        held_out=True,
    )


def travel() -> Table:
    table = _read("modechoice/modechoice.csv", ";")
    chosen = table[table["choice"] == 1].reset_index(drop=True)
    return split(
        chosen[["hinc", "psize"]],
        chosen["mode"],
        sorted_into(chosen["hinc"], 5),
        name="travel",
        family="multinomial",
        what="Which of 4 ways to travel was chosen, by income and the size of the party.",
        split="Sorted by household income into 5 clients of 42 rows.",
        held_out=True,
    )
