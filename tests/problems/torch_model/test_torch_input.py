"""What TorchProblem refuses, in words that name the argument and the client."""

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pdmm
from builders.torch_models import LOSS, clients, mlp, no_lists, problem  # noqa: F401

DATA = clients("mlp")


def with_client_1(pair: Any) -> Any:
    return [DATA[0], pair, DATA[2]]


class Untrainable(nn.Module):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X


def broken(module: nn.Module, value: float) -> nn.Module:
    with torch.no_grad():
        next(module.parameters())[0] = value
    return module


X, Y = DATA[1]
ROWS: Any = X.numpy()
NAN = torch.full_like(X, float("nan"))

ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": "mlp"}, "model must be a torch.nn.Module, got str"),
    "no parameters": ({"model": Untrainable()}, "model has no parameter that needs a gradient"),
    "a model in float64": ({"model": mlp().double()}, "'0.weight' is torch.float64"),
    "a model with NaN": ({"model": broken(mlp(), float("nan"))}, "'0.weight' has a NaN"),
    "batch norm": (
        {"model": nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))},
        "the module '1', a BatchNorm1d, .* nn.GroupNorm or nn.LayerNorm .* track_running_stats",
    ),
    "another input": ({"model": nn.Linear(4, 3)}, "model cannot be called with 5 samples"),
    "no loss": ({"loss": None}, "loss must be callable as loss"),
    "a class": ({"loss": nn.CrossEntropyLoss}, "loss must be callable as loss"),
    "a loss for each row": (
        {"loss": nn.CrossEntropyLoss(reduction="none")},
        r"loss must return one number, the mean over the batch, got shape \(5,\)",
    ),
    "a float": ({"loss": lambda out, y: 1.0}, "loss must return one number, .* got 1.0"),
    "a constant": ({"loss": lambda out, y: out.detach().sum()}, "does not depend on any param"),
    "a loss that fails": ({"loss": nn.MSELoss()}, "loss cannot be called as loss"),
    "one dataset": ({"datasets": DATA[0][0]}, "datasets must be a list with one dataset"),
    "no clients": ({"datasets": []}, "datasets is empty"),
    "no pair": ({"datasets": with_client_1(X)}, r"datasets\[1\] \(client 1\) must be a dataset"),
    "no tensors": ({"datasets": with_client_1((X.numpy(), Y))}, r"client 1\) must be a dataset"),
    "lengths": (
        {"datasets": with_client_1((X, Y[:-1]))},
        r"datasets\[1\] \(client 1\): X has 30 rows and y has 29",
    ),
    "no samples": ({"datasets": with_client_1((X[:0], Y[:0]))}, r"client 1\) is empty"),
    "numbers": ({"datasets": with_client_1((X[0, 0], Y[0]))}, "must have a row for each sample"),
    "X in float64": (
        {"datasets": with_client_1((X.double(), Y))},
        r"client 1\): X is torch.float64, and the model computes in torch.float32: take .float()",
    ),
    "y in float64": ({"datasets": with_client_1((X, Y.double()))}, r"1\): y is torch.float64"),
    "NaN in X": ({"datasets": with_client_1((NAN, Y))}, r"client 1\): X has a NaN"),
    "other columns": (
        {"datasets": with_client_1((X[:, :4], Y))},
        r"client 1\): a row of X has shape \(4,\), but one of client 0 has \(5,\)",
    ),
    "another kind": (
        {"datasets": with_client_1((X, Y.float()))},
        r"client 1\): y is torch.float32, but that of client 0 is torch.int64",
    ),
    "batches of none": ({"batch_size": 0}, "batch_size"),
    "half a batch": ({"batch_size": 2.5}, "batch_size"),
    "another sampling": ({"sampling": "random"}, "sampling"),
    "too few for a stored batch": (
        {"batch_size": 20, "sampling": "stored"},
        r"batch_size is 20, but datasets\[2\] \(client 2\) has only 17 samples",
    ),
    "weight decay below 0": ({"weight_decay": -1.0}, "weight_decay"),
    "no evaluation": ({"evaluate": 3}, "evaluate must be callable as evaluate"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_what_is_refused(case: str) -> None:
    given, message = ARGUMENTS[case]
    arguments = {"model": mlp(), "loss": LOSS, "datasets": DATA, "batch_size": 5, **given}
    with pytest.raises(ValueError, match=message):
        pdmm.TorchProblem(**arguments)


CALLS: dict[str, tuple[Callable[[pdmm.TorchProblem], Any], str]] = {
    "no method": (lambda p: pdmm.solve(p), "method must be given, because the loss"),
    "auto step": (lambda p: pdmm.solve(p, pdmm.AGPDMM(local_steps=3)), "step_size cannot be 'au"),
    "auto rho": (lambda p: pdmm.solve(p, pdmm.AGPDMM(0.1, 3, rho="auto")), "rho cannot be 'auto'"),
    "tolerance": (
        lambda p: pdmm.solve(p, pdmm.AGPDMM(0.1, 3), tolerance=1e-3),
        "tolerance needs certificates, and there are none",
    ),
    "exact steps": (lambda p: pdmm.solve(p, pdmm.PDMM(rho=1.0)), "PDMM has clients minimise exac"),
    "acceleration": (
        lambda p: pdmm.solve(p, pdmm.AGPDMM(0.1, 3, acceleration="anderson")),
        "acceleration is for convex functions",
    ),
    "L-BFGS": (lambda p: pdmm.solve(p, pdmm.LBFGS()), "L-BFGS and other methods that compare val"),
    "Newton": (lambda p: pdmm.solve(p, pdmm.Newton()), "Newton"),
    "certify": (lambda p: pdmm.certify(p, p.x0), "certify proves something of convex functions"),
    "smoothness": (lambda p: p.smoothness(), "the smoothness L of a TorchProblem is not known"),
    "strong convexity": (lambda p: p.strong_convexity(), "the strong convexity mu of a Torch"),
    "exact steps of one client": (
        lambda p: p.client(0).prox(p.x0, 1.0, p.x0),
        "cannot minimise exactly",
    ),
    "x of another length": (lambda p: p.model(p.x0[1:]), "x must have"),
    "rows without classes": (lambda p: p.accuracy(p.x0, X, Y[1:]), "each row needs its class"),
    "rows that are no tensors": (lambda p: p.accuracy(p.x0, ROWS, Y), "must be tensors"),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_makes_no_sense_says_so(case: str) -> None:
    call, message = CALLS[case]
    with pytest.raises(ValueError, match=message):
        call(problem("mlp"))


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pdmm.problems.torch_model")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("pdmm.problems.torch_model")
    load = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return load(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'pdmm\[torch\]'"):
        pdmm.TorchProblem  # noqa: B018


def test_a_client_whose_samples_fail_is_named() -> None:
    X, y = DATA[2]
    wrong = y.clone()
    wrong[-1] = 7  # of classes 0, 1, 2
    own = pdmm.TorchProblem(mlp(), LOSS, [*DATA[:2], (X, wrong)], batch_size=5)
    with pytest.raises(pdmm.ClientError, match="the loss of client 2 raised IndexError: Target 7"):
        pdmm.solve(own, pdmm.AGPDMM(0.1, 3), rounds=20)
    steps = own.at(slice(0, 3), np.zeros(3, np.int64)).steps
    with pytest.raises(pdmm.ClientError, match="the loss of client 2 raised IndexError"):
        steps(own.x0.astype(np.float32), step=0.1, count=4)
