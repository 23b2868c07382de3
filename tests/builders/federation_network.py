"""A network for the sites of a test federation: some hundred thousand parameters."""

import os
from pathlib import Path

import torch
from torch import nn

import pdmm

SAMPLES, BATCH, CLIENTS = 120, 60, 3
ARGUMENTS = ["--method", "agpdmm", "--step-size", "0.1", "--local-steps", "4", "--rounds", "2"]
METHOD = pdmm.AGPDMM(step_size=0.1, local_steps=4)
ROUNDS = 2
POLICY = pdmm.engines.Policy.of_keys(
    {
        "problems": ["TorchProblem"],
        "max_parameters_per_row": float("inf"),
        "max_numbers_out_share": float("inf"),
    }
)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def network(clients: range) -> pdmm.TorchProblem:
    data = []
    for k in clients:
        random = torch.Generator().manual_seed(k)
        X = torch.randn(SAMPLES, 784, generator=random)
        data.append((X, X[:, :10].argmax(1)))
    return pdmm.TorchProblem(model(), nn.CrossEntropyLoss(), data, batch_size=BATCH)


def write(folder: Path, site: int) -> str:
    """The file of a site."""
    path, here = folder / f"network{site}.py", os.path.dirname(os.path.abspath(__file__))
    path.write_text(
        f"import sys\nsys.path.insert(0, {here!r})\nimport federation_network\n\n"
        f"def problem():\n"
        f"    return federation_network.network(range({site}, {site + 1}))\n"
    )
    return f"{path}:problem"
