"""Questions that no honest server asks: each is watched, counted or refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.engines import Refused
from pdmm.engines.sites.site import Site
from pdmm.methods.patient import NO_LOOK, Patient
from privacy.server import Server
from privacy.tables import TABLES, logistic

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


@pytest.mark.parametrize(("look", "numbers"), [(NO_LOOK, 11), (1.0, 20)])
def test_a_look_beside_a_step_counts(look: float, numbers: int, server: Server) -> None:
    method = Patient(pdmm.PDMM(1.0), 1e-16)
    x = np.zeros(9)
    row = x[None]
    control = np.array([1.0, 1.0, look])
    memory = [row, row[:, :0], row, row, row, row, np.full(1, NO_LOOK)]
    server.ask("round", server.question(method, [x, x[:0], control], round=2, memory=memory))
    assert server.numbers == numbers


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
