"""Step sizes that are a callable of the round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.sites import FakeSites
from builders.unreliable import case, close, trace
from pdmm.engines import Sites
from twins import methods as twins

C = case()
K = 3


def eta(r: int) -> float:
    """Smaller from round to round."""
    return float(0.3 / (C.L * r**0.5))


Run = tuple[pdmm.Method, Callable[[Any, int], Any]]
RUNS: dict[str, Run] = {
    "AGPDMM": (pdmm.AGPDMM(eta, K), lambda net, R: twins.agpdmm(net, R, eta, K)),
    "AGPDMM, rho": (
        pdmm.AGPDMM(eta, K, C.rho),
        lambda net, R: twins.agpdmm(net, R, eta, K, C.rho),
    ),
    "GPDMM": (pdmm.GPDMM(eta, K), lambda net, R: twins.gpdmm(net, R, eta, K)),
    "SCAFFOLD": (pdmm.Scaffold(eta, K), lambda net, R: twins.scaffold(net, R, eta, K)),
    "FedAvg": (pdmm.FedAvg(eta, K), lambda net, R: twins.fedavg(net, R, eta, K)),
    "FedProx": (
        pdmm.FedProx(eta, K, C.rho),
        lambda net, R: twins.fedprox(net, R, eta, K, C.rho),
    ),
    "FedDyn": (pdmm.FedDyn(eta, K, C.rho), lambda net, R: twins.feddyn(net, R, eta, K, C.rho)),
    "gradient descent": (
        pdmm.GradientDescent(eta),
        lambda net, R: twins.gradient_descent(net, R, eta),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_each_round_has_its_own_step_size(name: str) -> None:
    method, twin = RUNS[name]
    result, xs = trace(C.problem, method, 20)
    close(xs, twin(C.network(), 20), 1e-11)
    assert getattr(result.method, "step_size", None) is eta  # rho is the number that it took


@pytest.mark.parametrize("name", RUNS)
def test_a_constant_schedule_is_a_step_size(name: str) -> None:
    method: Any = RUNS[name][0]
    links: dict[str, Any] = {"participation": 0.6, "loss": 0.2, "seed": 2}
    _, changing = trace(C.problem, method.with_parameters(step_size=lambda r: 0.01), 15, **links)
    same = method.with_parameters(step_size=0.01)
    if name == "SCAFFOLD":
        same = same.with_parameters(send_control=True)
    _, fixed = trace(C.problem, same, 15, **links)
    assert all((a == b).all() for a, b in zip(changing, fixed, strict=True))


def test_scaffold_sends_its_change_where_messages_are_lost() -> None:
    """A client that hears late of its upload would else take the new round's step size for it."""
    found = pdmm.solve(C.problem, RUNS["SCAFFOLD"][0], 3, loss=0.2)
    assert any("step sizes change" in why for why in found.choices)
    found = pdmm.solve(C.problem, RUNS["SCAFFOLD"][0], 3)
    assert not any("step sizes change" in why for why in found.choices)


@pytest.mark.parametrize("name", ["AGPDMM", "SCAFFOLD", "FedDyn"])
def test_a_run_goes_on_to_the_same_bits(name: str, place: Path) -> None:
    method = RUNS[name][0]
    whole = pdmm.solve(C.problem, method, 20)
    stopped = pdmm.solve(
        C.problem, method, 20, checkpoint=place, every=5, callback=lambda r, x: r == 8
    )
    assert stopped.rounds == 8
    with pytest.raises(ValueError, match="with a callable: give it to resume again"):
        pdmm.resume(place, C.problem)
    other = method.with_parameters(local_steps=K + 1)
    with pytest.raises(ValueError, match="method must be the same as then"):
        pdmm.resume(place, C.problem, method=other)
    found = pdmm.resume(place, C.problem, method=method)
    assert (found.x == whole.x).all()


def test_sites_are_told_each_rounds_step_size() -> None:
    names = {"a": range(2), "b": range(2, 5)}
    method = pdmm.AGPDMM(lambda r: 0.05 / r, 3, 2.0)
    there = pdmm.solve(Sites(FakeSites(cases.softmax, names)), method, 10)
    here = pdmm.solve(cases.softmax(range(5)), method, 10)
    np.testing.assert_allclose(there.x, here.x, rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (pdmm.AGPDMM(eta, 3, rho="auto"), "rho='auto' is chosen by one step size"),
        (pdmm.Scaffold(eta), "local_steps='auto' is chosen by one step size"),
        (pdmm.GPDMM(eta, 3, 1.0, acceleration="anderson"), "leave acceleration out"),
        (pdmm.FedAvg(lambda r: -1.0, 2), r"step_size\(1\) must be"),
        (pdmm.FedAvg(lambda r: "large", 2), r"step_size\(1\) must be"),  # type: ignore[arg-type, return-value]
        (pdmm.FedAvg(lambda r: 0.01 if r < 3 else 0.0, 2), r"step_size\(3\) must be"),
    ],
)
def test_what_is_no_schedule_is_refused(method: pdmm.Method, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        pdmm.solve(C.problem, method, 5)


def test_sites_that_compute_x_take_one_step_size() -> None:
    names = {"a": range(2), "b": range(2, 5)}
    sites = Sites(FakeSites(cases.softmax, names))
    sites.computes_x = True
    with pytest.raises(ValueError, match="have agreed to one step size"):
        pdmm.solve(sites, pdmm.FedAvg(eta, 2), 3)
