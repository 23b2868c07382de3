"""The types of each method's states fit together, and a method with a name is found again.

The first half is checked by mypy: each line holds only if the five types of a method are the
same in all of its functions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pytest

import pdmm
from pdmm.common.packing import _KEEPABLE
from pdmm.methods import fedavg, gradient_descent, scaffold
from pdmm.methods.base import Array, Nothing, Oracle, Prox
from pdmm.methods.registry import METHODS, register

Server = TypeVar("Server")
Memory = TypeVar("Memory")
Message = TypeVar("Message")
Upload = TypeVar("Upload")
Draft = TypeVar("Draft")


class States(Protocol[Server, Memory, Message, Upload, Draft]):
    """A method whose five types are these."""

    def server_start(self, x0: Array, prox: Prox) -> Server: ...
    def client_start(self, x0: Array) -> Memory: ...
    def broadcast(self, server: Server) -> Message: ...
    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]: ...
    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory: ...
    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server: ...


def test_types_of_states_fit_together() -> None:
    average: States[fedavg.Server, Nothing, fedavg.Server, fedavg.Upload, Nothing]
    average = pdmm.FedAvg(0.1, 2)
    descent: States[
        gradient_descent.Server, Nothing, gradient_descent.Server, gradient_descent.Upload, Nothing
    ]
    descent = pdmm.GradientDescent(0.1)
    control: States[
        scaffold.Server,
        scaffold.Memory,
        scaffold.Server,
        scaffold.Upload | scaffold.BothUploads,
        scaffold.Draft,
    ]
    control = pdmm.Scaffold(0.1, 2)
    assert all((average, descent, control))


def test_methods_of_all_kinds_have_a_common_type() -> None:
    methods = [pdmm.AGPDMM(0.1, 2), pdmm.Scaffold(0.1, 2), pdmm.FedAvg(0.1, 2), pdmm.PDMM(1.0)]
    problem = pdmm.LeastSquares.random(clients=3, samples=20, features=2, seed=0)
    for method in methods:
        assert pdmm.solve(problem, method, 2).method == method  # mypy: no list of objects


def test_a_method_with_a_name_is_found_again_in_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdmm.methods.registry.METHODS", dict(METHODS))
    monkeypatch.setattr("pdmm.common.packing._KEEPABLE", dict(_KEEPABLE))

    @register("named-fedavg")
    @dataclass(frozen=True)
    class NamedFedAvg(pdmm.FedAvg):
        mixing: float = 0.5

        def server(self, server: Any, mean: Any, share: float, prox: Prox) -> Any:
            return fedavg.Server(x=server.x + self.mixing * mean.dx)

    problem = pdmm.LeastSquares.random(clients=3, samples=20, features=2, seed=0)
    path = tmp_path / "run"
    method = NamedFedAvg(0.01, 2, mixing=0.25)
    pdmm.solve(problem, method, 9, checkpoint=path, callback=lambda r, x: r == 4)
    resumed = pdmm.resume(path, problem)
    assert resumed.method == method
    np.testing.assert_array_equal(resumed.x, pdmm.solve(problem, method, 9).x)
