"""The model of a network that a federation trains: a state_dict, and a run of real processes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import pdmm
from builders import torch_models as models
from builders.sites import FakeSites
from pdmm.common.packing import unpack
from pdmm.flare import model_files, runs
from pdmm.flare import server_run as server

PLACES = {"ana": range(1), "ben": range(1, 2), "cyd": range(2, 3)}


def network(clients: Any) -> pdmm.TorchProblem:
    data = models.clients("cnn")
    chosen = [data[i] for i in clients]
    return pdmm.TorchProblem(models.seeded("cnn"), models.LOSS, chosen, batch_size=5)


def done(method: pdmm.Method | None, folder: Path, **more: Any) -> Path:
    """A job at a server whose sites are in this process: the file of its model."""
    settings = runs.settings(method, **{"rounds": 3, "run": "one", **more})
    sites = FakeSites(network, PLACES)
    server.run(json.loads(json.dumps(settings)), sites, folder / "kept", folder, lambda told: None)
    return folder / server.MODEL


def test_the_model_is_a_state_dict(tmp_path: Path) -> None:
    method = runs.named_method("agpdmm", step_size=0.1, local_steps=4)
    path = done(method, tmp_path)
    one = pdmm.solve(network(range(3)), pdmm.AGPDMM(step_size=0.1, local_steps=4), 3)
    trained = models.MODELS["cnn"]()
    trained.load_state_dict(load_file(path))
    expected = network(range(3)).model(one.x).state_dict()
    for name, found in trained.state_dict().items():
        torch.testing.assert_close(found, expected[name], atol=1e-5, rtol=0)
    model = model_files.read_model(path)
    assert np.abs(model.x - one.x).max() < 1e-5
    assert model.result["reason"] == "all 3 rounds done"
    assert (
        "rho 2.5, 1/(local_steps step_size): the loss need not be convex"
        in (model.result["choices"])
    )


def test_the_seed_is_that_of_the_job(tmp_path: Path) -> None:
    method = runs.named_method("fedavg", step_size=0.1, local_steps=4)
    found = model_files.read_model(done(method, tmp_path, seed=7))
    assert np.abs(found.x - pdmm.solve(network(range(3)), method, 3, seed=7).x).max() < 1e-5
    assert np.abs(found.x - pdmm.solve(network(range(3)), method, 3).x).max() > 1e-4


def test_a_rho_that_was_given_stays(tmp_path: Path) -> None:
    method = runs.named_method("gpdmm", step_size=0.1, local_steps=4, rho=1.0)
    model = model_files.read_model(done(method, tmp_path))
    assert unpack(model.result["method"], {}) == method
    assert not any("rho" in text for text in model.result["choices"])


@pytest.mark.parametrize("name", ["auto", "agpdmm", "pdmm"])
def test_what_cannot_be_chosen_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the loss of this problem need not be convex"):
        done(runs.named_method(name), tmp_path)


@pytest.mark.parametrize(
    ("name", "given"),
    [("fedprox", {"mu": 0.1}), ("feddyn", {"alpha": 0.1}), ("scaffold", {}), ("fedavg", {})],
)
def test_other_methods_by_their_names(name: str, given: dict[str, float], tmp_path: Path) -> None:
    method = runs.named_method(name, step_size=0.1, local_steps=4, **given)
    path = done(method, tmp_path)
    one = pdmm.solve(network(range(3)), method, 3)
    assert np.abs(model_files.read_model(path).x - one.x).max() < 1e-5
