"""One run of a network over clients, told by its parameters alone."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.data import load, split
from pdmm.paper.store import Columns

if TYPE_CHECKING:
    from torch import Tensor, nn

VALIDATION = 0.1  # of the training data
AT_ONCE = 1000  # images whose classes are found at once
POINTS = 20  # of a curve, besides its start
COLUMNS = ("round", "accuracy", "objective", "bytes_up", "bytes_down")

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Make = Callable[[float, int, float | None], pdmm.Method]


def _own(value: float | None) -> float:
    assert value is not None
    return value


def _rho(step: float, steps: int, c: float | None) -> float:
    return _own(c) / (steps * step)


# Each is made of a step size, of K, and of its own parameter, where it has one.
METHODS: dict[str, Make] = {
    "FedAvg": lambda step, K, own: pdmm.FedAvg(step, K),
    "FedProx": lambda step, K, own: pdmm.FedProx(step, K, mu=_own(own)),
    "SCAFFOLD": lambda step, K, own: pdmm.Scaffold(step, K),
    "FedDyn": lambda step, K, own: pdmm.FedDyn(step, K, alpha=_own(own)),
    "GPDMM": lambda step, K, own: pdmm.GPDMM(step, K, rho=_rho(step, K, own)),
    "GPDMM, last": lambda step, K, own: pdmm.GPDMM(step, K, rho=_rho(step, K, own), iterate="last"),
    "AGPDMM": lambda step, K, own: pdmm.AGPDMM(step, K, rho=_rho(step, K, own)),
}


class Parts(NamedTuple):
    """Images to train on, and others on which the accuracy is measured."""

    X: Floats
    y: Labels
    X_judged: Floats
    y_judged: Labels


def parts(data: str, stage: str, seed: int, images: int | None) -> Parts:
    """The two sets of images: the test set is not looked at before all is chosen.

    Args:
        data: "mnist" or "fashion-mnist".
        stage: "validation" or "test".
        seed: of the draw of the validation split.
        images: how many of the training images there are; None for all.
    """
    whole = load(data)
    X = whole.X[:images]
    y = whole.y[:images]
    if stage == "test":
        return Parts(X, y, whole.X_test[:images], whole.y_test[:images])
    order = np.random.default_rng(seed).permutation(len(y))
    aside = order[: round(VALIDATION * len(y))]
    rest = np.sort(order[len(aside) :])
    return Parts(X[rest], y[rest], X[aside], y[aside])


def network(model: str, seed: int) -> "nn.Module":
    """A network with its first parameters, which the seed gives."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if model == "mlp":
            return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        return nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 8, 5),  # 24 x 24
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5),  # 8 x 8
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 4 * 4, 10),
        )


class Setting(NamedTuple):
    """A problem, and the weights that make its objective the mean loss over all samples."""

    problem: Any
    weights: npt.NDArray[np.float64]


@lru_cache(maxsize=1)  # runs on the same problem follow each other
def setting(
    data: str,
    model: str,
    stage: str,
    seed: int,
    images: int | None,
    clients: int,
    by: str,
    alpha: float,
    batch_size: int,
) -> Setting:
    """A data set dealt out to clients: the seed says how, and where the network starts."""
    import torch

    known = parts(data, stage, seed, images)
    rows = split(known.y, clients=clients, by=by, alpha=alpha, seed=seed)  # type: ignore[arg-type]
    X = torch.from_numpy(known.X)
    y = torch.from_numpy(known.y)
    X_judged = torch.from_numpy(known.X_judged)
    y_judged = torch.from_numpy(known.y_judged)
    problem = pdmm.TorchProblem(
        network(model, seed),
        torch.nn.CrossEntropyLoss(),
        [(X[own], y[own]) for own in rows],
        batch_size=batch_size,
        evaluate=lambda made: {"accuracy": _accuracy(made, X_judged, y_judged)},
    )
    samples = np.array([len(own) for own in rows])
    return Setting(problem, samples / samples.mean())


def _accuracy(model: "nn.Module", X: "Tensor", y: "Tensor") -> float:
    """In percent."""
    right = 0
    for first in range(0, len(y), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        right += int(model(X[some]).argmax(1).eq(y[some]).sum())
    return 100 * right / len(y)


def run(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """Accuracy, training loss and bytes, every few rounds."""

    def after_round(r: int, x: object) -> None:
        advance()

    where = dict(parameters["problem"])
    participation = where.pop("participation")
    chosen = parameters["settings"]
    make = METHODS[parameters["method"]]
    given = setting(**where)
    result = pdmm.solve(
        given.problem,
        make(chosen["step_size"], chosen["local_steps"], chosen["own"]),
        rounds=parameters["rounds"],
        weights=given.weights,
        participation=participation,
        seed=where["seed"],
        bits=chosen["bits"],
        record_every=max(1, parameters["rounds"] // POINTS),
        callback=after_round,
        threads=1,
    )
    return {name: np.asarray(result.history[name]) for name in COLUMNS}
