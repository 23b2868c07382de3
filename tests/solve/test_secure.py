"""``pdmm.solve(..., secure=True)``: a federation with secure sums, simulated in one process."""

import re
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.sites import FakeSites
from pdmm.engines import MPI, Sites

METHODS: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(rho=3.0, step_size=0.05, local_steps=3),
    "gpdmm": pdmm.GPDMM(rho=3.0, step_size=0.05, local_steps=3),
    "pdmm": pdmm.PDMM(rho=3.0),
    "anderson": pdmm.PDMM(rho=3.0, acceleration="anderson"),
    "rho that adapts": pdmm.AGPDMM(rho="auto"),
    "fedsplit": pdmm.FedSplit(3.0),
    "inexact fedsplit": pdmm.InexactFedSplit(0.3, 0.05, 3),
    "scaffold": pdmm.Scaffold(0.05, 3),
    "fedavg": pdmm.FedAvg(0.05, 3),
    "gradient descent": pdmm.GradientDescent(0.05),
    "lbfgs": pdmm.LBFGS(),
}
CURVED: dict[str, Any] = {
    "auto": None,
    "newton": pdmm.Newton(),
    "pdmm, own metric": pdmm.PDMM(rho="auto", metric="own"),
    "agpdmm, full metric": pdmm.AGPDMM(rho="auto", metric="full"),
    "lbfgs, diagonal metric": pdmm.LBFGS(metric="diagonal"),
}
DECADES = np.array([1e-6, 1e-2, 1.0, 1e6])


def softmax() -> pdmm.Problem:
    return cases.softmax(range(cases.M))


def glm(widths: Any) -> pdmm.Problem:
    rng = np.random.default_rng(3)
    X = [rng.standard_normal((60, 4)) for _ in range(4)]
    y = [(rng.random(60) < 1 / (1 + np.exp(-rows[:, 0] - 0.3))).astype(float) for rows in X]
    return pdmm.GLM([rows * widths for rows in X], y)


def apart(found: Any, plain: Any) -> float:
    return float(np.abs(found.x - plain.x).max() / np.abs(plain.x).max())


@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_that_without(name: str) -> None:
    how: dict[str, Any] = {
        "rounds": 12,
        "weights": np.linspace(1, 2, cases.M),
        "tolerance": 1e-30,
    }
    plain = pdmm.solve(softmax(), METHODS[name], **how)
    found = pdmm.solve(softmax(), METHODS[name], **how, secure=True)
    assert apart(found, plain) < 1e-10
    objectives = found.history["objective"]
    np.testing.assert_allclose(objectives, plain.history["objective"], rtol=1e-10)
    assert found.certificate.gap == pytest.approx(plain.certificate.gap, rel=1e-4)
    for column in ("value_calls", "exact_calls"):  # an exact step may take a try more, or less
        np.testing.assert_allclose(found.history[column], plain.history[column], rtol=0.2)
    assert any("sums are secure, as in a federation of 12" in text for text in found.choices)


@pytest.mark.slow
@pytest.mark.parametrize("widths", [np.ones(4), DECADES], ids=["equal", "of 12 decades"])
@pytest.mark.parametrize("name", CURVED)
def test_curvature_too(name: str, widths: Any) -> None:
    plain = pdmm.solve(glm(widths), CURVED[name], 40)
    found = pdmm.solve(glm(widths), CURVED[name], 40, secure=True)
    assert found.rounds == plain.rounds
    units = np.append(widths, 1.0)
    assert np.abs((found.x - plain.x) * units).max() < 1e-10 * np.abs(plain.x * units).max()


@pytest.mark.parametrize("h", [pdmm.L1(0.5), pdmm.SquaredL2(1.0), pdmm.Box(-0.1, 0.1)])
def test_with_a_regulariser(h: Any) -> None:
    plain = pdmm.solve(softmax(), METHODS["agpdmm"], 30, regulariser=h)
    found = pdmm.solve(softmax(), METHODS["agpdmm"], 30, regulariser=h, secure=True)
    assert apart(found, plain) < 1e-10


def test_in_single_precision() -> None:
    """Memories are float64, as where uploads are rounded: it ends no further from the optimum."""
    problem = cases.least_squares(range(6), dtype=np.float32)
    method = pdmm.AGPDMM(rho=300.0, step_size=1e-3, local_steps=3)
    plain = pdmm.solve(problem, method, 60)
    found = pdmm.solve(problem, method, 60, secure=True)
    assert found.x.dtype == np.float32
    assert apart(found, plain) < 1e-4


def test_it_is_what_a_federation_does() -> None:
    """The same sums at the same scales, and the same bytes."""
    names = {str(i): range(i, i + 1) for i in range(5)}
    how: dict[str, Any] = {"rounds": 15, "tolerance": 1e-30}
    sites = Sites(FakeSites(cases.softmax, names), secure=True, absent="wait")
    there = pdmm.solve(sites, METHODS["agpdmm"], **how)
    here = pdmm.solve(cases.softmax(range(5)), METHODS["agpdmm"], **how, secure=True)
    assert apart(here, there) < 1e-14
    for column in ("bytes_up", "bytes_down", "vectors_up", "vectors_down"):
        np.testing.assert_array_equal(here.history[column], there.history[column], column)


def test_the_bytes_of_scales_and_counts() -> None:
    """Of a quadratic: 5 numbers, the value, 3 counts; in the first tries each has long levels."""
    problem = pdmm.Quadratic(np.arange(1.0, 16).reshape(3, 5), np.ones((3, 5)))
    found = pdmm.solve(problem, pdmm.GradientDescent(0.01), 10, secure=True)
    up, down = (np.diff(found.history[f"bytes_{way}"]) for way in ("up", "down"))
    size = 5 + 1 + 3
    lanes = 2 * size  # of eight levels in 16 bits each
    words = 1 + size + -(-lanes // 8)
    assert up[-1] == 3 * (8 * words + 8 + 88 + 66)
    assert down[-1] == 3 * (8 * 5 + 8 + 2 * size + 3 + 3 * 66)
    assert up[0] > up[-1]


def test_columns_of_200_decades() -> None:
    """Each number has a scale of its own, wherever it lies."""
    sizes = np.array([1e-98, 1.0, 1e98])
    curvature = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0], [1.0, 1.0, 2.0]]) / sizes
    problem = pdmm.Quadratic(curvature, np.ones((3, 3)))
    method = pdmm.FedAvg(1e-99, 2)
    plain = pdmm.solve(problem, method, 5, optimum=False)
    found = pdmm.solve(problem, method, 5, secure=True)
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-10)


def test_a_client_whose_gradient_is_no_number() -> None:
    """The run ends as it does without: with the name of the client."""

    def bad(x: Any) -> Any:
        return 2 * x - 1 if x[0] < 0.4 else np.full(2, np.nan)

    for secure in (False, True):
        functions = pdmm.Functions(
            value=[lambda x: float(x @ x - x.sum())] * 3,
            gradient=[lambda x: 2 * x - 1, bad, lambda x: 2 * x - 1],
            dimension=2,
        )
        found = pdmm.solve(functions, pdmm.GradientDescent(0.3), 5, secure=secure)
        assert found.diverged
        assert "client 1" in found.reason


def test_a_run_that_diverges_says_so() -> None:
    problem = pdmm.Quadratic(np.ones((3, 2)), np.ones((3, 2)))
    found = pdmm.solve(problem, pdmm.GradientDescent(1e9), 100, secure=True)
    assert found.diverged


def two() -> pdmm.Problem:
    return cases.softmax(range(2))


@pytest.mark.parametrize(
    ("problem", "more", "says"),
    [
        (two, {}, "secure=True is for 3 to 255 clients.* got 2: of two, each knows the other"),
        (softmax, {"secure": "auto"}, "secure must be True or False, got 'auto'"),
        (softmax, {"participation": 0.5}, "secure=True does not go together with participation"),
        (softmax, {"loss": 0.1}, "secure=True does not go together with .*loss"),
        (softmax, {"bits": 4}, "secure=True does not go together with .*bits"),
        (softmax, {"local_steps": [1] * 12}, "secure=True does not go together with .*local_steps"),
        (softmax, {"state": "server"}, "secure=True does not go together with .*state"),
        (softmax, {"checkpoint": "run"}, "secure=True and checkpoint do not go together"),
        (softmax, {"engine": MPI()}, "secure=True is simulated in one process: leave engine out"),
    ],
)
def test_what_it_cannot_do_is_said(problem: Any, more: Any, says: str, tmp_path: Any) -> None:
    if "checkpoint" in more:
        more = {"checkpoint": tmp_path / "run"}
    with pytest.raises(ValueError, match=says):
        pdmm.solve(problem(), METHODS["agpdmm"], 3, **{"secure": True, **more})


def test_sites_are_told_themselves() -> None:
    sites = Sites(FakeSites(cases.softmax, {"a": range(2), "b": range(2, 4), "c": range(4, 6)}))
    with pytest.raises(ValueError, match=re.escape("Sites(..., secure=True)")):
        pdmm.solve(sites, METHODS["agpdmm"], 3, secure=True)
