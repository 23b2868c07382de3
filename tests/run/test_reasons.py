"""Why a run stopped and what to do about it, in words."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.run import reasons
from pdmm.run.reasons import Ended


class Known:
    """What is known of the clients' functions."""

    def __init__(self, L: Any = 4.0, kind: str = "exact", bent: Any = None) -> None:
        self.L, self.kind, self.bent = np.atleast_1d(L), kind, bent

    def smoothness(self) -> Any:
        if self.kind == "nothing":
            raise ValueError("the smoothness L is not known")
        kind: Any = self.kind
        return pdmm.Constants(self.L, float(self.L.sum()), kind, kind, 0.0)

    def negative_curvature(self) -> Any:
        return self.bent


def known(*arguments: Any, **more: Any) -> Any:
    return Known(*arguments, **more)


def certificate(gap: float | None, stationarity: float = 1e-5, rounding: float = 0.0) -> Any:
    return pdmm.solve(pdmm.Quadratic(1.0, np.ones((2, 2))), rounds=3).certificate.__class__(
        gap, 0.25, stationarity, None, None, 1.0, "exact", 7, 16, rounding
    )


@pytest.mark.parametrize(
    ("objective", "where"),
    [
        ([1.0, 2.0, 11.0], Ended.FAR_ABOVE),
        ([-1.0, 2.0, 11.0], Ended.FAR_ABOVE),  # whatever the sign
        ([1.0, 20.0, 11.0], Ended.FAR_ABOVE),  # it was higher still, but that is no comfort
        ([1.0, 11.0], Ended.FAR_ABOVE),
        ([1.0, 2.0, 9.0], Ended.ABOVE),
        ([0.0, -5.0, 1.0], Ended.ABOVE),  # it had come down by more than it rose
        ([1.0, 1.0, 1.0 + 1e-12], Ended.BELOW),  # rounding
        ([1.0, 0.0, 1.0001], Ended.BELOW),
        ([1.0, 0.5, 0.1], Ended.BELOW),
    ],
)
def test_where_an_objective_ended(objective: list[float], where: Ended) -> None:
    assert reasons.ended(np.array(objective)) is where


def test_a_run_stands_still_where_one_safe_step_would_do_more_than_its_last_third() -> None:
    falling = 0.8 ** np.arange(12)
    stuck = np.r_[falling[:6], np.full(6, falling[5])]
    swinging = np.r_[falling[:6], falling[5] + np.array([0.1, 0.0] * 3)]
    for objective, still in ((falling, False), (stuck, True), (swinging, True)):
        assert reasons.stands_still(objective, slope=0.5, L=4.0) is still, objective
    assert not reasons.stands_still(stuck, slope=1e-9, L=4.0)  # it has arrived
    assert not reasons.stands_still(stuck[-5:], slope=0.5, L=4.0)  # of five rows nobody knows


@pytest.mark.parametrize(("step", "long"), [(0.2, False), (0.25, False), (0.3, True)])
def test_steps_are_too_long_above_1_over_L(step: float, long: bool) -> None:
    assert reasons.steps_too_long(pdmm.FedAvg(step, 2), known([1.0, 4.0])) is long


def test_nobody_knows_whether_steps_are_too_long_without_L() -> None:
    assert not reasons.steps_too_long(pdmm.FedAvg(9.0, 2), known(kind="nothing"))
    assert not reasons.steps_too_long(pdmm.FedAvg(9.0, 2), known(0.0))
    assert not reasons.steps_too_long(pdmm.PDMM(1.0), known())


def test_why_a_run_diverged() -> None:
    said = reasons.why_diverged(3, 1.234e9, None, pdmm.FedAvg(1.0, 2), known(4.0))
    assert said.startswith("diverged in round 3: ‖x_s‖ = 1.23e+09. step_size=1 is too large")
    said = reasons.why_diverged(3, np.inf, 5, pdmm.PDMM(1.0), known())
    assert "‖x_s‖ = inf, the upload of client 5 is not finite. " in said


@pytest.mark.parametrize(
    ("method", "clients", "says"),
    [
        (pdmm.PDMM(1.0), known(), "Are all f_i convex?"),
        (
            pdmm.FedAvg(0.5, 2),
            known([1.0, 4.0]),
            "step_size=0.5 is too large: at most 1/L = 0.25 is safe",
        ),
        (pdmm.FedAvg(0.2, 2), known(4.0), "step_size=0.2 is within 1/L = 0.25: are all f_i convex"),
        (pdmm.FedAvg(0.2, 2), known(4.0, "given"), "convex and the given smoothness right?"),
        (
            pdmm.FedAvg(0.5, 2),
            known(4.0, "estimate"),
            "step_size=0.5 may be too large: at most 1/L, about 0.25, is safe",
        ),
        (pdmm.FedAvg(0.5, 2), known(kind="nothing"), "may be too large: it should be at most 1/L"),
        (
            pdmm.Scaffold(0.2, 2, server_step=2.0),
            known(4.0),
            "too large: at most 1/(L server_step) = 0.125 is safe",
        ),
        (
            pdmm.InexactFedSplit(0.25, 0.2, 2),
            known(4.0),
            "too large: at most 1/(L + 1/gamma) = 0.125 is safe",
        ),
    ],
)
def test_advice(method: pdmm.Method, clients: Any, says: str) -> None:
    assert says in reasons.advice(method, clients)


def test_advice_about_functions_that_are_constant() -> None:
    said = reasons.advice(pdmm.FedAvg(0.5, 2), known(0.0))
    assert said == "step_size=0.5 may be too large: it should be at most 1/L"


def test_what_a_certificate_says() -> None:
    bound, none = certificate(1.5e-7), certificate(None)
    known_of_both = "F(x) - F* is proven to be at most 1.5e-07, and ‖x - x*‖ at most 0.25"
    assert reasons.what_is_known(bound) == known_of_both
    assert reasons.what_is_known(none) == "‖grad F(x)‖ is 1e-05"
    said = reasons.certified(bound, 7, 1e-6)
    assert said.startswith("certified after round 7: F(x) - F* is proven to be at most 1.5e-07")
    assert said.endswith("the gap below tolerance=1e-06 times its first value")
    assert reasons.certified(none, 7, 1e-6).startswith("certified stationary after round 7: ‖grad")
    of_likelihood = reasons.certified(none, 7, 1e-6, likelihood=True)
    assert of_likelihood.startswith("stopped after round 7: ‖grad F(x)‖ is 1e-05, below tolerance")
    assert "proves no optimum" in of_likelihood
    rounded = certificate(1e-20, rounding=1e-19)
    assert reasons.certified(rounded, 7, 1e-6).endswith("at most 0.25, which is rounding")


def test_what_is_proven_of_other_peoples_data_assumes_that_they_are_honest() -> None:
    for gap in (1.5e-7, None):
        told = dataclasses.replace(certificate(gap), proviso="if all sites are honest")
        said = reasons.what_is_known(told)
        assert said == f"if all sites are honest, {reasons.what_is_known(certificate(gap))}"
        assert said in reasons.certified(told, 7, 1e-6)
        assert repr(told).endswith(", if all sites are honest)")
        start = reasons.start_is_optimal(told)
        assert start == "the start is optimal, to rounding, if all sites are honest"
    assert reasons.start_is_optimal(certificate(None)) == "the start is optimal, to rounding"


@pytest.mark.parametrize("size", [np.inf, np.nan])
def test_what_is_not_finite_is_never_at_rounding(size: float) -> None:
    assert not dataclasses.replace(certificate(None), stationarity=size, rounding=size).at_rounding
    assert not certificate(size, rounding=np.inf).at_rounding
    assert certificate(1e-20, rounding=1e-20).at_rounding


def test_an_exact_step_that_was_none_is_all_that_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning) as heard:
        reasons.warn(known(bent=(1, -2.0)), pdmm.PDMM(1.0), 1e-3)
    (text,) = [str(warning.message) for warning in heard]
    assert text.startswith("an exact step of PDMM stopped at a relative residual of 1.0e-03, above")
    assert "history['exact_error']" in text


def test_a_function_that_is_not_convex_is_named() -> None:
    with pytest.warns(RuntimeWarning, match=r"f_1 \(client 1\) is not convex: .* was -2\. What"):
        reasons.warn(known(bent=(1, -2.0)), pdmm.PDMM(1.0), 0.0)


def test_one_member_of_a_team_warns_for_all() -> None:
    reasons.warn(known(bent=(1, -2.0)), pdmm.PDMM(1.0), 0.0, quiet=True)
