"""Tables that come with scikit-learn."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks.tables.table import (
    Table,
    at_random,
    by,
    by_label,
    sorted_into,
    split,
)


def tables() -> Iterator[Table]:
    yield from breast_cancer()
    yield from wine()
    yield from diabetes()
    yield digits()
    yield from iris()


def _loaded(name: str, **options: bool) -> tuple[pd.DataFrame, pd.Series]:
    loaded = getattr(datasets, f"load_{name}")(as_frame=True, **options)
    return loaded.data, loaded.target


def breast_cancer() -> Iterator[Table]:
    X, y = _loaded("breast_cancer")
    what = "Whether a breast mass is benign, by 30 measurements of its cells; they separate."
    first = X.columns[0]
    yield split(
        X,
        y,
        sorted_into(X[first], 5),
        name="breast cancer, sorted",
        family="binomial",
        what=what,
        split="Sorted by the first column, the mean radius, into 5 clients of equal size.",
        l2=(1.0, 0.05),
    )
    yield split(
        X,
        y,
        at_random(len(X), 5),
        name="breast cancer, random",
        family="binomial",
        what=what,
        split="At random into 5 clients of equal size.",
        l2=(1.0,),
    )
    yield split(
        X,
        y,
        by_label(y, 3),
        name="breast cancer, by label",
        family="binomial",
        what=what,
        split="6 clients: 3 have benign masses only, 3 malignant ones only.",
        l2=(1.0,),
    )
    yield split(
        X.iloc[:, :10],
        y,
        sorted_into(X[first], 5),
        name="breast cancer, 10 columns",
        family="binomial",
        what="The same by the 10 means alone, of which radius, perimeter and area are nearly one.",
        split="Sorted by the first column, the mean radius, into 5 clients of equal size.",
    )


def wine() -> Iterator[Table]:
    X, y = _loaded("wine")
    yield split(
        X,
        y,
        by_label(y, 2),
        name="wine",
        family="multinomial",
        what="Which of 3 growers a wine is from, by 13 chemical measurements; they separate.",
        split="6 clients: 2 for each grower.",
        l2=(1.0,),
    )
    yield split(
        X,
        (y == 1).astype(float),
        sorted_into(X["proline"], 6),
        name="wine, binary",
        family="binomial",
        what="Whether a wine is from the second grower, by the same 13; they separate.",
        split="Sorted by proline, the column of the largest numbers, into 6 clients.",
        l2=(1.0,),
    )


def diabetes() -> Iterator[Table]:
    X, y = _loaded("diabetes", scaled=False)
    what = "Progression of diabetes after a year, by 10 measurements, four of blood nearly one."
    yield split(
        X,
        y,
        sorted_into(X["bmi"], 6),
        name="diabetes",
        family="gaussian",
        what=what,
        split="Sorted by body mass index into 6 clients of equal size.",
    )
    yield split(
        X,
        y,
        sorted_into(X["age"], 6),
        name="diabetes, gamma",
        family="gamma",
        what=what,
        split="Sorted by age into 6 clients of equal size.",
    )


def digits() -> Table:
    X, y = _loaded("digits")
    some = [f"pixel_{row}_{column}" for row in (1, 3, 5, 7) for column in (1, 3, 5, 7)]
    return split(
        X[some],
        y,
        by_label(y),
        name="digits",
        family="multinomial",
        what="Which digit was written, by 16 of the 64 pixels, every other row and column.",
        split="10 clients: one for each digit.",
        l2=(1.0,),
    )


def iris() -> Iterator[Table]:
    X, y = _loaded("iris")
    later = y.to_numpy() > 0
    yield split(
        X[later],
        (y[later] == 2).astype(float),
        at_random(int(later.sum()), 10, seed=1),
        name="iris, two species",
        family="binomial",
        what="Whether an iris is virginica or versicolor, by 4 lengths; they overlap a little.",
        split="At random into 10 clients of 10 rows.",
        held_out=True,
    )
    yield split(
        X,
        y,
        by(np.floor(X["sepal width (cm)"].to_numpy())),
        name="iris",
        family="multinomial",
        what="Which of 3 species an iris is, by 4 lengths; one species is separate.",
        split="By the sepal's width in whole centimetres: 3 clients, one of 4 rows.",
        l2=(1.0,),
        held_out=True,
    )
