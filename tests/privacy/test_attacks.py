"""Attacks on a site's rows: they succeed where everything is allowed, and fail by default."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.sites import FakeSites
from privacy import attacks
from privacy.attacks import ATTACKS, Over, Server, claims_of
from privacy.tables import TABLES, Table, logistic, recovered, standardised
from sklearn.datasets import load_breast_cancer, load_diabetes

import pdmm
from pdmm.common.packing import pack
from pdmm.engines import Policy, Refused
from pdmm.engines.sites.site import Site
from pdmm.engines.sites.sites import Sites

CASES = [(name, table) for name, (_, tables) in ATTACKS.items() for table in tables]
HARDER = {("bounded sweep", "logistic"), ("solving", "few rows")}  # need gaps, or seconds
LBFGS = pack(pdmm.LBFGS(), {}, "method")


def rows_of(attack: str, table: str, policy: Any) -> int:
    victim = TABLES[table]()
    server = Server(victim, policy)
    return recovered(claims_of(ATTACKS[attack][0], server), victim)


@pytest.mark.parametrize(("attack", "table"), [case for case in CASES if case[1] != "robust"])
def test_no_row_is_found_out_by_default(attack: str, table: str) -> None:
    assert rows_of(attack, table, None) == 0


@pytest.mark.parametrize(("attack", "table"), [case for case in CASES if case not in HARDER])
def test_rows_are_found_out_where_everything_is_allowed(attack: str, table: str) -> None:
    assert rows_of(attack, table, Policy.open()) > 0


def test_a_table_is_solved_for_where_everything_is_allowed() -> None:
    assert rows_of("solving", "few rows", Policy.open()) == 50


def test_kinks_tell_rows_within_all_limits_so_that_their_family_must_be_allowed() -> None:
    assert rows_of("kinks", "robust", None) == 0
    assert rows_of("kinks", "robust", {"families": "all"}) > 5


def test_without_a_limit_on_losses_the_tails_tell_rows() -> None:
    limits = {"max_loss_ratio": float("inf"), "max_numbers_out_share": float("inf")}
    assert rows_of("fine sweep", "logistic", limits) > 0


def test_least_squares_tells_the_moments_alone() -> None:
    victim = TABLES["diabetes"]()
    server = Server(victim, None)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, server.dimension))
    seen = server.gradients(points)
    rows = np.column_stack([victim.X, np.ones(len(victim.X))])
    told = points @ (rows.T @ rows) - rows.T @ victim.y
    np.testing.assert_allclose(seen, told, rtol=1e-9, atol=1e-7)


# --- what a refusal tells -------------------------------------------------------------------------


def test_refusals_bracket_an_entry_where_they_are_not_counted() -> None:
    victim = logistic()
    server = Server(victim, dataclasses.replace(Policy.open(), max_eta=40.0), most=100)
    low, high = attacks.largest_entry(server, 0, 40.0)
    assert low <= np.abs(victim.X[:, 0]).max() <= high
    assert high - low < 1e-3


def test_three_refusals_end_the_day() -> None:
    server = Server(logistic(), None, most=100)
    with pytest.raises(Over):
        attacks.largest_entry(server, 0, 150.0)
    entries = server.site.audit.kept
    assert sum(entry.counts for entry in entries) == 3
    assert "max_refusals_per_day" in entries[-1].reason


def test_of_several_sites_each_gives_three_bits() -> None:
    for k in range(3):
        server = Server(whole().part(k, 3), None, most=100)
        with pytest.raises(Over):
            attacks.largest_entry(server, 0, 150.0)
        assert server.site.audit.refused_today() == 3


@pytest.mark.parametrize("x", [1e6, np.nan, np.inf])
def test_a_refusal_says_nothing_of_its_reason(x: float, tmp_path: Path) -> None:
    site = Site(logistic().problem, None, folder=tmp_path)
    server = Server(logistic(), site=site)
    with pytest.raises(Refused) as caught:
        server.gradient(np.full(9, x))
    error = caught.value
    assert type(error) is Refused
    assert error.args == ("refused by policy",)
    assert error.__cause__ is None
    assert error.__context__ is None
    last = json.loads((tmp_path / "audit.jsonl").read_text().splitlines()[-1])
    assert last["outcome"] == "refused"
    assert "max_eta" in last["reason"]
    assert last["counts"]


def test_an_answer_leaves_after_its_line_is_on_the_disk(tmp_path: Path) -> None:
    site = Site(logistic().problem, None, folder=tmp_path)
    server = Server(logistic(), site=site)
    add = site.audit.add
    lines = []

    def broken(entry: Any) -> None:
        add(entry)
        lines.append((tmp_path / "audit.jsonl").read_text().splitlines()[-1])
        if entry.verb == "round":
            raise OSError("the disk is full")

    site.audit.add = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk"):
        server.gradient(np.zeros(9))
    assert json.loads(lines[-1])["numbers"] == 10


# --- budgets --------------------------------------------------------------------------------------


def drain(server: Server) -> int:
    """Ask for as much as there is, at points that no fit would mind."""
    rng = np.random.default_rng(0)
    try:
        while True:
            server.gradient(0.01 * rng.standard_normal(server.dimension))
    except (Refused, Over):
        return server.numbers


def test_all_runs_share_one_budget_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    victim = logistic()
    limit = 0.5 * victim.X.size
    first = Server(victim, site=Site(victim.problem, None, folder=tmp_path))
    assert 0 < drain(first) <= limit
    again = Server(victim, site=Site(victim.problem, None, folder=tmp_path))
    assert again.numbers == first.numbers
    assert drain(again) == first.numbers


def test_the_same_question_counts_once() -> None:
    server = Server(logistic(), None)
    for _ in range(5):
        server.begin()
        server.gradient(np.zeros(9))
    assert server.numbers == 10


def test_a_start_at_which_every_verb_is_counted() -> None:
    server = Server(logistic(), None)
    server.begin()
    x = 0.1 * np.ones(9)
    asked: list[tuple[str, dict[str, Any], int]] = [
        ("gradient", {"x": x}, 12),
        ("value", {"x": x}, 1),
        ("fingerprint", {}, 1),
        ("constants", {"which": "L"}, 1),
        ("diagonal", {"x": np.zeros(9)}, 27),
        ("round", server.question(pdmm.LBFGS(), [x], round=2, evaluate=2 * x), 11),
    ]
    for verb, payload, numbers in asked:
        before = server.numbers
        server.ask(verb, payload)
        assert server.numbers - before == numbers, verb


# --- the protocol ---------------------------------------------------------------------------------


def refused(site: Site, verb: str, payload: dict[str, Any]) -> str:
    with pytest.raises(Refused):
        site.answer(verb, payload)
    return site.audit.kept[-1].reason


@pytest.fixture
def server() -> Server:
    begun = Server(logistic(), None)
    begun.begin()
    return begun


FAR = 1e4 * np.ones(9)
POINTS: list[tuple[str, Callable[[Server], dict[str, Any]]]] = [
    ("value", lambda s: {"x": FAR}),
    ("gradient", lambda s: {"x": FAR}),
    ("round", lambda s: s.question(pdmm.LBFGS(), [FAR], round=2)),
    ("round", lambda s: s.question(pdmm.LBFGS(), [0 * FAR], evaluate=FAR)),
    ("round", lambda s: s.question(pdmm.FedAvg(1e3, 5), [0 * FAR])),
    ("round", lambda s: s.question(pdmm.PDMM(1e8), [FAR], round=2, memory=[FAR[None]])),
    ("round", lambda s: s.question(pdmm.Scaffold(0.1, 9), [0 * FAR, FAR], memory=[FAR[None]])),
    ("round", lambda s: s.question(pdmm.AGPDMM(0.1, 9), [0 * FAR], round=2, memory=[-FAR[None]])),
]


@pytest.mark.parametrize(("verb", "payload"), POINTS)
def test_every_way_to_a_point_is_watched(verb: str, payload: Any, server: Server) -> None:
    assert "max_" in refused(server.site, verb, payload(server))


def test_points_in_other_dtypes_are_watched_too() -> None:
    victim = TABLES["batches"]()
    for dtype in (np.float32, np.float16):
        server = Server(victim, None)
        server.begin()
        point = np.full(server.dimension, 3e4) * (np.arange(server.dimension) % 2)
        assert "max_eta" in refused(server.site, "gradient", {"x": point.astype(dtype)})


@pytest.mark.parametrize("x", [np.zeros(9, object), np.zeros(9, complex), np.zeros(8), "x", None])
def test_what_is_no_point_is_not_answered(x: Any, server: Server) -> None:
    with pytest.raises(ValueError, match=r"numbers"):
        server.site.answer("value", {"x": x})
    assert refused(server.site, "value", {"x": np.zeros(9)}).endswith("refused before")


def test_other_variables_are_part_of_the_question(server: Server) -> None:
    def variables(scale: float) -> dict[str, Any]:
        zero = np.zeros(9)
        ones = np.full(9, scale)
        return {"kind": "Scaled", "centre": zero, "scale": ones, "means": zero, "intercepts": None}

    y = 0.1 * np.ones(9)
    server.ask("round", server.question(pdmm.LBFGS(), [y], round=2, variables=variables(1.0)))
    assert server.numbers == 10
    again = server.question(pdmm.LBFGS(), [y], round=3, variables=variables(2.0))
    assert "one change of variables" in refused(server.site, "round", again)
    server.begin()
    server.ask("round", server.question(pdmm.LBFGS(), [y], round=2, variables=variables(2.0)))
    assert server.numbers == 20


@pytest.mark.parametrize("centre", [1e3, 0.1])
def test_variables_are_centred_at_the_start(centre: float, server: Server) -> None:
    parts = dict.fromkeys(("centre", "scale", "means"), np.full(9, centre))
    payload = {"which": "L", "variables": {"kind": "Scaled", **parts, "intercepts": None}}
    assert "not the start" in refused(server.site, "constants", payload)


def test_mixed_variables_and_curvature_are_refused(server: Server) -> None:
    mixed = {"kind": "Mixed", "centre": np.zeros(9), "T": np.eye(9)}
    assert "hessians" in refused(server.site, "constants", {"which": "L", "variables": mixed})
    server.begin()
    question = {"x": np.zeros(9), "T": None}
    assert "hessians" in refused(server.site, "curvature", question)


def test_a_round_is_about_one_thing(server: Server) -> None:
    server.ask("round", server.question(pdmm.LBFGS(), [0.1 * np.ones(9)], round=2))
    again = server.question(pdmm.LBFGS(), [0.2 * np.ones(9)], round=2)
    assert "about something else" in refused(server.site, "round", again)


def test_rounds_go_forward_and_begin_at_the_start(server: Server) -> None:
    first = server.question(pdmm.LBFGS(), [0.1 * np.ones(9)])
    assert "not at the start" in refused(server.site, "round", first)
    server.begin()
    server.ask("round", server.question(pdmm.LBFGS(), [np.zeros(9)], round=7))
    back = server.question(pdmm.LBFGS(), [np.zeros(9)], round=6)
    assert "after round 7" in refused(server.site, "round", back)


def test_nothing_is_answered_before_a_run_or_after_a_refusal() -> None:
    server = Server(logistic(), None)
    x = np.zeros(9)
    assert server.site.answer("value", {"x": x}) == {"lacks": "study"}
    server.begin()
    refused(server.site, "value", {"x": FAR})
    assert "refused before" in refused(server.site, "value", {"x": x})
    assert server.numbers == 0


def test_an_opening_in_another_question_is_an_opening() -> None:
    server = Server(logistic(), None)
    bad = server.opening(parties=["ana"])
    assert "min_organisations" in refused(server.site, "value", {"x": FAR, "opening": bad})


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_are_positive_numbers(weight: float) -> None:
    server = Server(logistic(), None)
    opening = server.opening(weights=np.array([weight]))
    assert "positive" in refused(server.site, "open", opening)


def test_a_failure_ends_the_run_and_counts_where_rows_were_looked_at(server: Server) -> None:
    odd = {"round": 2, "memory": [np.ones((1, 4))]}
    with pytest.raises(ValueError, match="shapes"):
        server.ask("round", server.question(pdmm.AGPDMM(0.1, 2), [0 * FAR], **odd))
    assert server.site.audit.kept[-1].outcome == "failed"
    assert server.site.audit.refused_today() == 1
    assert "refused before" in refused(server.site, "value", {"x": np.zeros(9)})


@pytest.mark.parametrize("round_", [np.array(3), np.int64(3), 3.0])
def test_odd_round_numbers_are_audited(round_: Any, tmp_path: Path) -> None:
    site = Site(logistic().problem, None, folder=tmp_path)
    server = Server(logistic(), site=site)
    server.begin()
    with pytest.raises(Refused):
        site.answer("round", server.question(pdmm.LBFGS(), [FAR], round=round_))
    assert site.audit.refused_today() == 1


# --- honest servers -------------------------------------------------------------------------------


def federation(table: Table, parts: int = 3) -> FakeSites:
    names = attacks.PARTIES[:parts]
    shares = {name: k for k, name in enumerate(names)}
    return FakeSites(lambda k: table.part(k, parts).problem(), shares, policy=None)


def test_one_organisation_alone_is_no_study() -> None:
    with pytest.raises(Refused):
        pdmm.solve(Sites(federation(logistic(), 1)), pdmm.LBFGS(), rounds=5)


def test_a_box_does_not_choose_the_start() -> None:
    x = 0.3 * np.ones(9)
    sites = federation(whole())
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites), pdmm.AGPDMM(0.01, 2), regulariser=pdmm.Box(x, x), rounds=5)
    assert any("not at the start" in e.reason for e in sites.sites["ana"].audit.kept)


def whole() -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = rng.random(400) < 1 / (1 + np.exp(-X @ rng.standard_normal(8)))
    return Table(X, y.astype(float), "binomial")


# --- honest fits, under the default policy --------------------------------------------------------


def standard(name: str) -> Table:
    return {"logistic": whole, "cancer": cancer, "lines": lines, "softmax": classes}[name]()


def cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True)
    return Table(standardised(X), y.astype(float), "binomial")


def lines() -> Table:
    X, y = load_diabetes(return_X_y=True)
    return Table(standardised(X), standardised(y), "gaussian")


def classes() -> Table:
    table = whole()
    return table._replace(family="softmax", options={"classes": 2})


METHODS = {
    "AGPDMM": (pdmm.AGPDMM(), pdmm.SquaredL2(1.0)),
    "PDMM": (pdmm.PDMM(), pdmm.SquaredL2(1.0)),
    "LBFGS": (pdmm.LBFGS(), pdmm.SquaredL2(1.0)),
    "SCAFFOLD": (pdmm.Scaffold(), None),
}


@pytest.mark.parametrize("name", ["logistic", "cancer", "lines", "softmax"])
@pytest.mark.parametrize("method", METHODS)
def test_honest_fits_are_not_refused(name: str, method: str) -> None:
    sites = federation(standard(name))
    chosen, regulariser = METHODS[method]
    clients = Sites(sites, absent="wait")
    result = pdmm.solve(clients, chosen, regulariser=regulariser, rounds=30)
    assert result.rounds >= 10
    entries = [entry for site in sites.sites.values() for entry in site.audit.kept]
    assert {entry.outcome for entry in entries} <= {"answered", "spent"}
    assert max(entry.loss_ratio or 0.0 for entry in entries) < 2
