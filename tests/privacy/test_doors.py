"""What a site with a policy answers and what it refuses, in whole runs and question by question."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.sites import FakeSites
from pdmm.common.packing import pack
from pdmm.engines import Refused, Site, Sites, Spent
from pdmm.engines.sites.roster import SiteRefusedError
from pdmm.privacy.audit import FILE, entries_of
from pdmm.privacy.refusals import SAID

RNG = np.random.default_rng(3)
TRUTH = RNG.standard_normal(4)
NAMES = {"ana": 0, "ben": 1, "cyd": 2}


def table(k: int, n: int = 120) -> tuple[Any, Any]:
    rng = np.random.default_rng([7, k])
    X = rng.standard_normal((n, 4))
    return X, (X @ TRUTH + rng.logistic(size=n) > 0).astype(int)


def glm(k: Any, n: int = 120) -> pdmm.GLM:
    X, y = table(k, n)
    return pdmm.GLM([X], [y])


def federation(policy: Any = None, make: Any = glm, names: Any = NAMES) -> FakeSites:
    return FakeSites(make, names, policy=policy)


def opening(**more: Any) -> dict[str, Any]:
    return {
        "run": "run/1",
        "rounds": 10,
        "x0": np.zeros(5),
        "weights": np.ones(1),
        "verified": False,
        "parties": list(NAMES),
        "everyone": dict.fromkeys(NAMES, np.ones(1)),
        "regulariser": [None, {}],
        **more,
    }


def site(policy: Any = None, open_it: bool = True, **more: Any) -> Site:
    made = Site(lambda: glm(0), policy, **more)
    if open_it:
        made.answer("open", opening())
    return made


def reasons(made: Site) -> list[str]:
    return [entry.reason for entry in made.audit.kept if entry.outcome != "answered"]


# --- runs ---------------------------------------------------------------------------------


METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "chosen": (None, {}),
    "agpdmm": (pdmm.AGPDMM(rho="auto"), {"rounds": 60}),
    "pdmm": (pdmm.PDMM(rho="auto"), {"rounds": 40}),
    "gpdmm": (pdmm.GPDMM(rho="auto"), {"rounds": 30}),
    "scaffold": (pdmm.Scaffold(step_size="auto", local_steps=3), {"rounds": 40}),
    "gradient descent": (pdmm.GradientDescent("auto"), {"rounds": 40}),
    "lbfgs": (pdmm.LBFGS(metric="diagonal"), {"rounds": 20, "absent": "wait"}),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_default_policy_lets_ordinary_fits_run(name: str) -> None:
    """They are those of sites that allow everything, to the bit."""
    method, more = METHODS[name]
    how = dict(more)
    absent = how.pop("absent", "skip")
    found = []
    for policy in (None, pdmm.engines.Policy.open()):
        sites = federation(policy, small(1200))
        curvature: Any = {"curvature": "diagonal"} if method is None else {}
        found.append(pdmm.solve(Sites(sites, absent=absent), method, **how, **curvature))
    assert (found[0].x == found[1].x).all()
    assert found[0].rounds == found[1].rounds


def test_least_squares_may_be_asked_for_ever() -> None:
    """After d (d + 3)/2 numbers, its answers tell nothing that was not told."""

    def make(k: Any) -> pdmm.Problem:
        X, _ = table(k)
        return pdmm.LeastSquares([X], [X @ TRUTH])

    sites = federation(make=make)
    result = pdmm.solve(Sites(sites), pdmm.PDMM(rho="auto"), 90)
    assert result.reason == "all 90 rounds done"
    assert sum(e.numbers for e in sites.sites["ana"].audit.kept) > 0.5 * 120 * 4


def test_a_run_ends_well_where_no_more_may_leave() -> None:
    sites = federation({"max_numbers_out_share": 0.2})
    result = pdmm.solve(Sites(sites), pdmm.AGPDMM(rho="auto"), 60)
    assert "allows no more answers" in result.reason
    assert 5 < result.rounds < 30
    assert not result.diverged
    left = sites.sites["ana"].audit.numbers
    assert left <= 0.2 * 120 * 4
    assert len(result.history["round"]) == result.rounds + 1


def test_a_run_has_so_many_rounds_and_no_more() -> None:
    result = pdmm.solve(Sites(federation({"max_rounds": 7})), pdmm.AGPDMM(rho="auto"), 60)
    assert result.rounds == 7
    assert result.reason.startswith("stopped after round 7: the policy of site")


def test_the_same_run_again_tells_nothing_and_counts_nothing() -> None:
    sites = federation()
    method = pdmm.AGPDMM(step_size=0.01, local_steps=3)
    pdmm.solve(Sites(sites), method, 20)
    once = sites.sites["ana"].audit.numbers
    assert once > 100
    pdmm.solve(Sites(sites), method, 20)
    assert sites.sites["ana"].audit.numbers <= once + 3  # joining in counts nothing


def test_what_left_is_remembered_over_runs_and_restarts(tmp_path: Path) -> None:
    def made() -> FakeSites:
        found = federation()
        for name in NAMES:
            found.sites[name] = Site(partial(glm, NAMES[name]), folder=tmp_path / name)
        return found

    for step in (0.01, 0.02):  # other questions, each with an answer of its own
        pdmm.solve(Sites(made()), pdmm.AGPDMM(step_size=step, local_steps=3), 12)
    assert made().sites["ben"].audit.numbers > 2 * 12 * 5
    result = pdmm.solve(Sites(made()), pdmm.AGPDMM(step_size=0.04, local_steps=3), 40)
    assert "allows no more answers" in result.reason
    with pytest.raises(Spent):
        pdmm.solve(Sites(made()), pdmm.AGPDMM(step_size=0.05, local_steps=3), 12)


def test_hessians_stay_and_the_run_says_so() -> None:
    result = pdmm.solve(Sites(federation(), absent="wait"))
    assert any("keep whole Hessians there" in text for text in result.choices)
    with pytest.raises(ValueError, match="whole Hessians, which the policies of the sites keep"):
        pdmm.solve(Sites(federation()), pdmm.Newton())
    allowed = federation({"hessians": "allowed", "max_numbers_out_share": 2})
    result = pdmm.solve(Sites(allowed, absent="wait"), pdmm.Newton())
    assert result.certificate.gap is not None


# --- what a run may not be ------------------------------------------------------------------


def small(n: int) -> Any:
    return lambda k: glm(k, n)


def alone(k: Any) -> pdmm.Problem:
    return pdmm.LeastSquares([np.array([[3.0, 4.0]])], [np.array([5.0])])


def wide(k: Any) -> pdmm.Problem:
    rng = np.random.default_rng(k)
    return pdmm.LeastSquares([rng.standard_normal((60, 25))], [rng.standard_normal(60)])


def rare(k: Any) -> pdmm.Problem:
    X, y = table(k)
    X[:, 0] = np.arange(len(X)) < 4
    return pdmm.GLM([X], [y])


def lonely(k: Any) -> pdmm.Problem:
    X, y = table(k)
    X[:, 0] = np.arange(len(X)) < 60
    X[:, 1] = np.arange(len(X)) < 59
    X[-20:, 1] = 1
    return pdmm.GLM([X], [y])


def named(k: Any) -> pdmm.Problem:
    pandas = pytest.importorskip("pandas")
    X, y = table(k)
    return pdmm.GLM([pandas.DataFrame(X, columns=["age", "bmi", "dose", "hiv"])], [y])


def own(k: Any) -> pdmm.Problem:
    return pdmm.Functions([lambda x: float(x @ x) / 2], [lambda x: x], 3)


def batched(k: Any) -> pdmm.Problem:
    X, y = table(k)
    return pdmm.SoftmaxRegression(X[None], y[None], 2, batch_size=10)


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "few rows": (small(49), None, "49 rows, and min_rows is 50"),
    "one row": (alone, None, "1 rows, and min_rows is 50"),
    "small batches": (batched, None, "10 rows, and min_rows is 50"),
    "many parameters": (wide, None, "max_parameters_per_row is 0.33"),
    "a rare value": (rare, None, "stands in 4 rows, and min_rows_per_level"),
    "a rare combination": (lonely, None, "stands in 1 rows, and min_rows_per_cell"),
    "own functions": (own, None, "the problem is a Functions"),
    "own functions of few rows": (own, {"problems": "all"}, "0 rows, and min_rows is 50"),
    "a family": (glm, {"families": ["poisson"]}, "the family is binomial"),
    "a column": (named, {"columns": ["age", "bmi", "dose"]}, "columns does not allow hiv"),
    "columns without names": (glm, {"columns": ["age"]}, "the columns have no names"),
    "unverified": (glm, {"require_verified": True}, "require_verified is true"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_that_may_not_be_asked_about(what: str) -> None:
    make, policy, reason = REFUSED[what]
    sites = federation(policy, make)
    with pytest.raises(Refused) as caught:
        pdmm.solve(Sites(sites), pdmm.GradientDescent(0.1), 3)
    assert isinstance(caught.value, SiteRefusedError)
    refusing = [made for made in sites.sites.values() if reasons(made)]
    assert any(reason in text for made in refusing for text in reasons(made))
    assert reason not in str(caught.value)
    # It does not change from try to try, so that trying tells nothing more, and counts nothing.
    assert all(made.audit.refused_today() == 0 for made in refusing)


def test_functions_are_allowed_by_word_of_the_site() -> None:
    policy = {"problems": ["Functions"], "stated_rows": 500, "stated_columns": 3}
    result = pdmm.solve(Sites(federation(policy, own)), pdmm.GradientDescent(0.5), 20)
    assert np.abs(result.x).max() < 1e-5


def test_fewer_than_three_organisations_are_refused() -> None:
    for names in ({"ana": 0}, {"ana": 0, "ben": 1}):
        sites = federation(names=names)
        with pytest.raises(Refused):
            pdmm.solve(Sites(sites), pdmm.GradientDescent(0.1), 1)
    assert "2 organisations take part" in reasons(sites.sites["ana"])[0]


def test_a_start_or_a_box_of_ones_own_asks_at_a_point_of_ones_own() -> None:
    at = np.full(5, 0.3)
    sites = federation()
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.GradientDescent(0.1), 1, x0=at)
    assert 'x0 is "zero"' in reasons(sites.sites["ana"])[0]
    sites = federation()
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.GradientDescent(0.1), 1, regulariser=pdmm.Box(at, at))
    assert "the regulariser is Box" in reasons(sites.sites["ana"])[0]
    sites = federation({"regularisers": "all"})
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.PDMM(1.0), 1, regulariser=pdmm.Box(at, at))
    assert any("the first round is not at the start" in t for t in reasons(sites.sites["ana"]))


METHODS_REFUSED: dict[str, tuple[Any, Any, str]] = {
    "another": (pdmm.FedAvg(0.1, 2), {"methods": ["AGPDMM"]}, "the method is FedAvg"),
    "steps": (pdmm.FedAvg(0.1, 50), {"max_local_steps": 49}, "max_local_steps is 49"),
}


@pytest.mark.parametrize("what", METHODS_REFUSED)
def test_a_method_that_may_not_run(what: str) -> None:
    method, policy, reason = METHODS_REFUSED[what]
    sites = federation(policy)
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), method, 2)
    assert reason in reasons(sites.sites["ana"])[0]


def test_weights_far_apart_pick_out_a_client() -> None:
    two = {name: (2 * k, 2 * k + 1) for name, k in NAMES.items()}

    def make(share: Any) -> pdmm.Problem:
        tables = [table(k) for k in share]
        return pdmm.GLM([X for X, _ in tables], [y for _, y in tables])

    sites = federation(make=make, names=two)
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.GradientDescent(1e-4), 1, weights=[1, 1e-9, 1, 1, 1, 1])
    assert any("weights differ by a factor" in t for t in reasons(sites.sites["ana"]))


# --- question by question ---------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["gradient", "value", "round", "prepare", "constants", "diagonal"])
def test_nothing_is_answered_before_a_run_is_agreed_upon(verb: str) -> None:
    made = site(open_it=False)
    assert made.answer(verb, {"x": np.zeros(5)}) == {"lacks": "study"}
    with pytest.raises(Refused):
        made.answer(verb, {"x": np.zeros(5), "opening": opening(parties=["ana"])})


def test_a_refusal_tells_nothing_and_ends_the_run() -> None:
    made = site()
    made.answer("gradient", {"x": np.zeros(5)})
    with pytest.raises(Refused) as caught:
        made.answer("gradient", {"x": np.full(5, 1e4)})
    assert str(caught.value) == SAID
    assert caught.value.args == (SAID,)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "max_eta" in reasons(made)[0]
    with pytest.raises(Refused):
        made.answer("gradient", {"x": np.zeros(5)})
    assert "refused before" in reasons(made)[1]
    assert made.audit.refused_today() == 1


def test_after_three_refusals_the_site_is_silent_for_a_day(tmp_path: Path) -> None:
    for k in range(3):
        made = site(folder=tmp_path)
        with pytest.raises(Refused):
            made.answer("gradient", {"x": np.full(5, 1e4 + k)})
    with pytest.raises(Refused):
        site(folder=tmp_path)
    last = list(entries_of(tmp_path / FILE))[-1]
    assert "max_refusals_per_day is 3" in last.reason


def test_so_many_runs_a_day_begin_and_no_more(tmp_path: Path) -> None:
    policy = {"runs_per_day": 2}
    site(policy, folder=tmp_path)
    site(policy, folder=tmp_path)
    with pytest.raises(Refused):
        site(policy, folder=tmp_path)


def test_hessians_are_refused_by_question() -> None:
    made = site()
    assert made.answer("hello", {})["reveals"] == "diagonal"
    with pytest.raises(Refused):
        made.answer("curvature", {"x": np.zeros(5), "T": None})
    assert 'hessians is "secure"' in reasons(made)[0]


def test_an_answer_that_took_too_long_is_withheld() -> None:
    made = site({"seconds_per_answer": 0.0})
    with pytest.raises(Refused):
        made.answer("gradient", {"x": np.zeros(5)})
    assert "seconds_per_answer is 0" in reasons(made)[0]


def test_the_audit_has_every_question(tmp_path: Path) -> None:
    made = site(folder=tmp_path, by="researcher@university")
    made.answer("gradient", {"x": np.full(5, 0.5)})
    opened, asked = entries_of(tmp_path / FILE)
    assert (opened.verb, asked.verb, asked.run) == ("open", "gradient", "run/1")
    assert asked.by == "researcher@university"
    assert asked.numbers == 5 + 3  # the gradient, and what rounding may have made of it
    X, _ = table(0)
    eta = X @ np.full(4, 0.5) + 0.5
    assert asked.max_eta == pytest.approx(np.abs(eta).max())
    p = 1 / (1 + np.exp(-eta))
    w = p * (1 - p)
    assert asked.effective_rows == pytest.approx(w.sum() ** 2 / (w**2).sum())
    A = np.column_stack([X, np.ones(len(X))]) * np.sqrt(w)[:, None]
    leverages = np.diag(A @ np.linalg.solve(A.T @ A, A.T))
    assert asked.leverage == pytest.approx(leverages.max(), rel=1e-6)


def test_an_answer_does_not_leave_if_it_cannot_be_written_down(tmp_path: Path) -> None:
    made = site(folder=tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(OSError, match=FILE):
        made.answer("gradient", {"x": np.zeros(5)})


def test_runs_at_the_same_time_share_one_budget_and_one_day(tmp_path: Path) -> None:
    """A site's jobs are processes of their own; each counts what the others let out."""
    made = [site(folder=tmp_path) for _ in range(4)]
    left = 0
    for k in range(60):
        for i, one in enumerate(made):
            try:
                one.answer("gradient", {"x": np.full(5, 1e-3 * (4 * k + i + 1))})
                left += 8
            except Spent:
                continue
    assert 200 < left <= 0.5 * 120 * 4
    several = [site({"max_numbers_out_share": 9}, folder=tmp_path / "b") for _ in range(6)]
    for one in several:
        with pytest.raises(Refused):
            one.answer("gradient", {"x": np.full(5, 1e4)})
    counted = [entry for entry in entries_of(tmp_path / "b" / FILE) if entry.counts]
    assert len(counted) == 3


def test_a_run_that_is_nearly_all_one_sites_is_refused() -> None:
    sites = federation()
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.GradientDescent(1e-6), 2, weights=[1e9, 1, 1])
    assert any("max_weight_share is 0.9" in text for text in reasons(sites.sites["ana"]))


def test_the_same_preparation_again_is_no_second_one() -> None:
    """An answer to it may have been lost."""
    sites = federation()
    lost: list[Any] = []

    def fault(name: str, verb: str, payload: Any) -> Any:
        if verb == "prepare" and name == "ben" and not lost:
            lost.append(sites.sites[name].answer(verb, payload))
            return "no answer within 1 seconds"
        return None

    sites.fault = fault
    assert pdmm.solve(Sites(sites), pdmm.GradientDescent(0.001), 5).rounds == 5
    assert lost == [{}]


def test_a_run_has_no_more_rounds_than_were_agreed_upon() -> None:
    made = site()
    method = pack(pdmm.GradientDescent(0.1), {}, "method")
    with pytest.raises(Refused):
        made.answer("round", {"round": 11, "method": method})
    assert "round 11 is asked for, of a run of 10" in reasons(made)[0]
