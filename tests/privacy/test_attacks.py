"""Attacks on a site's rows: they succeed where everything is allowed, and fail by default."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.engines import Policy, Refused
from pdmm.engines.sites.site import Site
from privacy import attacks
from privacy.attacks import ATTACKS
from privacy.server import OverError, Server, claims_of
from privacy.tables import TABLES, logistic, recovered, whole

CASES = [(name, table) for name, (_, tables) in ATTACKS.items() for table in tables]


def rows_of(attack: str, table: str, policy: Any) -> int:
    victim = TABLES[table]()
    server = Server(victim, policy)
    return recovered(claims_of(ATTACKS[attack][0], server), victim)


@pytest.mark.parametrize(("attack", "table"), [case for case in CASES if case[1] != "robust"])
def test_no_row_is_found_out_by_default(attack: str, table: str) -> None:
    assert rows_of(attack, table, None) == 0


@pytest.mark.parametrize(("attack", "table"), CASES)
def test_rows_are_found_out_where_everything_is_allowed(attack: str, table: str) -> None:
    assert rows_of(attack, table, Policy.open()) > 0


def test_kinks_tell_rows_within_all_limits_so_that_their_family_must_be_allowed() -> None:
    assert rows_of("kinks", "robust", None) == 0
    assert rows_of("kinks", "robust", {"families": "all"}) > 5


def test_without_limits_on_losses_and_curvatures_the_tails_tell_rows() -> None:
    uncounted = {"max_numbers_out_share": float("inf"), "min_curvature": 0.0}
    assert rows_of("fine sweep", "logistic", {**uncounted, "max_loss_ratio": float("inf")}) > 0
    assert rows_of("fine sweep", "rare", uncounted) > 0


@pytest.mark.parametrize("table", ["logistic", "cancer", "rare"])
def test_points_within_the_limits_tell_no_row_however_many_are_asked_for(table: str) -> None:
    assert rows_of("fine sweep", table, {"max_numbers_out_share": float("inf")}) == 0


def test_least_squares_tells_the_moments_alone() -> None:
    victim = TABLES["diabetes"]()
    server = Server(victim, None)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, server.dimension))
    seen = server.gradients(points)
    rows = np.column_stack([victim.X, np.ones(len(victim.X))])
    told = points @ (rows.T @ rows) - rows.T @ victim.y
    np.testing.assert_allclose(seen, told, rtol=1e-9, atol=1e-7)


def test_what_remains_is_a_row_in_hundreds_of_questions() -> None:
    # No bound on points rules this out: only a bound on numbers, or sites that compute x.
    victim = TABLES["diabetes in two"]()
    server = Server(victim, {"max_numbers_out_share": float("inf")})
    claims = claims_of(ATTACKS["finer sweep"][0], server)
    assert recovered(claims, victim) <= 2
    assert server.numbers > 4 * victim.X.size * 0.5


# --- what a refusal tells -------------------------------------------------------------------------


def test_refusals_bracket_an_entry_where_they_are_not_counted() -> None:
    victim = logistic()
    server = Server(victim, dataclasses.replace(Policy.open(), max_eta=40.0), most=100)
    low, high = attacks.largest_entry(server, 0, 40.0)
    assert low <= np.abs(victim.X[:, 0]).max() <= high
    assert high - low < 1e-3


def test_three_refusals_end_the_day() -> None:
    server = Server(logistic(), None, most=100)
    with pytest.raises(OverError):
        attacks.largest_entry(server, 0, 150.0)
    entries = server.site.audit.kept
    assert sum(entry.counts for entry in entries) == 3
    assert "max_refusals_per_day" in entries[-1].reason


def test_of_several_sites_each_gives_three_bits() -> None:
    for k in range(3):
        server = Server(whole().part(k, 3), None, most=100)
        with pytest.raises(OverError):
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
    assert 10 in [json.loads(line)["numbers"] for line in lines]


# --- budgets --------------------------------------------------------------------------------------


def drain(server: Server) -> int:
    """Ask for as much as there is, at points that no fit would mind."""
    rng = np.random.default_rng(0)
    try:
        while True:
            server.gradient(0.01 * rng.standard_normal(server.dimension))
    except (Refused, OverError):
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
