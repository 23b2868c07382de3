"""Every method on models of PyTorch gives what its literal twin gives, to float32 rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pdmm
from builders.torch_models import LOSS, MODELS, SIZES, clients, no_lists, problem, seeded  # noqa: F401
from pdmm.problems.torch_model import ways
from twins import torch_methods as twins

ROUNDS, ETA, K, BATCH = 20, 0.1, 3, 5

METHODS: dict[str, tuple[pdmm.Method, Callable[..., Tensor]]] = {
    "fedavg": (pdmm.FedAvg(ETA, K), twins.fedavg),
    "scaffold": (pdmm.Scaffold(ETA, K), twins.scaffold),
    "gpdmm": (pdmm.GPDMM(ETA, K), twins.gpdmm),
    "gpdmm-last": (pdmm.GPDMM(ETA, K, iterate="last"), twins.gpdmm_last),
    "agpdmm": (pdmm.AGPDMM(ETA, K), twins.agpdmm),
    "inexact": (
        pdmm.InexactFedSplit(gamma=K * ETA, step_size=ETA, local_steps=K, start="server"),
        twins.inexact_fedsplit,
    ),
    "descent": (pdmm.GradientDescent(ETA), twins.gradient_descent),
}


def stored(name: str, weight_decay: float = 0.0) -> twins.Network:
    """The twins' network: batches in stored order, the last partial one left out."""
    data = clients(name)

    def batch(i: int, step: int) -> tuple[Tensor, Tensor]:
        first = step % (SIZES[i] // BATCH) * BATCH
        X, y = data[i]
        return X[first : first + BATCH], y[first : first + BATCH]

    return twins.Network(seeded(name), LOSS, batch, len(SIZES), weight_decay)


def apart(x: Any, twin: Tensor, x0: Tensor) -> float:
    """How far two results are from each other, relative to the way from the start."""
    moved = twin.numpy() - x0.numpy()
    return float(np.linalg.norm(x - twin.numpy()) / np.linalg.norm(moved))


@pytest.fixture(params=["together", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of computing gradients."""
    if request.param == "one by one":
        monkeypatch.setattr(ways, "MOST_FLOP", 1.0)
    return str(request.param)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_a_method_is_its_twin(name: str, method: str, way: str) -> None:
    ours, twin = METHODS[method]
    given = problem(name, sampling="stored")
    result = pdmm.solve(given, ours, rounds=ROUNDS, record_every=ROUNDS)
    assert result.choices[-1].startswith("the clients of a block") == (way == "together")
    net = stored(name)
    assert apart(result.x, twin(net, ROUNDS, ETA, K), net.x0) < 1e-4


def test_weight_decay_is_that_of_sgd(way: str) -> None:
    given = problem("mlp", sampling="stored", weight_decay=0.3)
    for method in ("fedavg", "agpdmm", "descent"):
        ours, twin = METHODS[method]
        result = pdmm.solve(given, ours, rounds=ROUNDS, record_every=ROUNDS)
        net = stored("mlp", weight_decay=0.3)
        assert apart(result.x, twin(net, ROUNDS, ETA, K), net.x0) < 1e-4


@pytest.mark.parametrize("sampling", ["shuffled", "replacement"])
def test_the_twin_with_drawn_batches(sampling: Any, way: str) -> None:
    given = problem("mlp", sampling=sampling)
    data = clients("mlp")

    def batch(i: int, step: int) -> tuple[Tensor, Tensor]:
        rows = given.batches.rows(i, SIZES[i], step, 1)
        assert rows is not None
        X, y = data[i]
        return X[rows[0]], y[rows[0]]

    result = pdmm.solve(given, pdmm.AGPDMM(ETA, K), rounds=ROUNDS, seed=7)
    net = twins.Network(seeded("mlp"), LOSS, batch, len(SIZES))
    assert apart(result.x, twins.agpdmm(net, ROUNDS, ETA, K), net.x0) < 1e-4


def test_a_linear_model_with_full_batches_is_softmax_regression(way: str) -> None:
    """Softmax regression has the bias in the last row of a (features + 1, classes) matrix."""
    data = clients("linear")
    model = seeded("linear")
    given = pdmm.TorchProblem(model, LOSS, data, batch_size="full", weight_decay=0.1)
    X, y = ([own[k].numpy() for own in data] for k in range(2))
    softmax = pdmm.SoftmaxRegression(X, y, classes=3, l2=0.1)
    W = torch.cat([model.weight.T, model.bias[None]]).detach().numpy().ravel()  # type: ignore
    for method in (pdmm.AGPDMM(0.1, 5), pdmm.Scaffold(0.1, 5), pdmm.GradientDescent(0.1)):
        ours = pdmm.solve(given, method, rounds=20, record_every=20)
        theirs = pdmm.solve(softmax, method, rounds=20, record_every=20, x0=W)
        found = np.concatenate([ours.x[:15].reshape(3, 5).T.ravel(), ours.x[15:]])
        assert np.abs(found - theirs.x).max() < 2e-6 * np.abs(theirs.x).max()
        assert np.allclose(ours.history["objective"], theirs.history["objective"], rtol=2e-6)
