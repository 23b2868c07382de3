"""Fig. 3 and Table 1: softmax regression on MNIST and Fashion-MNIST, one class per client."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.data import NAMES, Images, by_class, load
from pdmm.paper.jobs import METHODS as MAKE
from pdmm.paper.jobs import Job
from pdmm.paper.store import Columns

KS = (1, 5, 10, 30, 40)
METHODS = ("FedAvg", "GPDMM", "SCAFFOLD", "AGPDMM")
STEP = 0.05
BATCH = 300
ROUNDS = 1550
FIRST_LOSS = float(np.log(10))  # of x = 0, where all ten classes are as likely
EVERY = 10  # rounds between two evaluations
QUICK = 20  # rounds of the quick version, whose curves have five points

# Table 1 of the paper, in percent, with one column for each K.
TABLE = {
    "mnist": {
        "FedAvg": (90.80, 91.70, 91.67, 91.32, 91.16),
        "GPDMM": (90.25, 91.92, 92.20, 92.46, 92.52),
        "SCAFFOLD": (90.80, 92.10, 92.29, 92.53, 92.59),
        "AGPDMM": (90.80, 92.14, 92.37, 92.61, 92.64),
    },
    "fashion-mnist": {
        "FedAvg": (82.24, 83.08, 83.13, 83.09, 82.83),
        "GPDMM": (81.43, 83.64, 84.18, 84.58, 84.64),
        "SCAFFOLD": (82.24, 83.97, 84.49, 84.66, 84.65),
        "AGPDMM": (82.24, 84.08, 84.46, 84.67, 84.65),
    },
}


class Setting(NamedTuple):
    """A data set split over clients, and all of it in one piece for evaluation."""

    images: Images
    problem: pdmm.SoftmaxRegression
    pooled: pdmm.SoftmaxRegression


@cache
def setting(name: str) -> Setting:
    """The problem of Section VI-B on one data set."""
    images = load(name)
    X, y = by_class(images.X, images.y)
    return Setting(
        images,
        pdmm.SoftmaxRegression(X, y, classes=10, batch_size=BATCH),
        pdmm.SoftmaxRegression(*_parts(images), classes=10),
    )


def _parts(images: Images) -> tuple[list[Any], list[Any]]:
    """All samples in equal parts, whose mean loss is the mean loss: for threads to share."""
    return list(images.X.reshape(10, -1, 784)), list(images.y.reshape(10, -1))


def run(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """Training loss over all samples and validation accuracy, every few rounds."""
    every = min(EVERY, max(1, parameters["rounds"] // 5))
    images, problem, pooled = setting(parameters["data"])
    rounds: list[int] = []
    loss: list[float] = []
    accuracy: list[float] = []

    def evaluate(r: int, x: npt.NDArray[np.floating]) -> None:
        if r % every == 0 or r == parameters["rounds"]:
            rounds.append(r)
            loss.append(pooled.objective(x) / pooled.clients)
            accuracy.append(100 * problem.accuracy(x, images.X_test, images.y_test))
        if r:
            advance()

    evaluate(0, np.zeros(problem.dimension, np.float32))
    pdmm.solve(
        problem,
        MAKE[parameters["method"]](**parameters["settings"]),
        rounds=parameters["rounds"],
        record_every=parameters["rounds"],
        callback=evaluate,
    )
    return {"round": np.array(rounds), "loss": np.array(loss), "accuracy": np.array(accuracy)}


def jobs(quick: bool) -> list[Job]:
    """2 data sets x 5 K x 4 methods; the quick version is the same with fewer rounds."""
    rounds = QUICK if quick else ROUNDS
    return [
        Job(
            {
                "experiment": "fig3",
                "data": name,
                "method": method,
                "settings": {"step_size": STEP, "local_steps": K},
                "batch_size": BATCH,
                "rounds": rounds,
            },
            cost=rounds * (K + 1),
            run=run,
            apart=not quick,
        )
        for name in NAMES
        for K in KS
        for method in METHODS
    ]
