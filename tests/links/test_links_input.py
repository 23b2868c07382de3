"""What is asked of the links: errors for people, and settings that work together."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.engine import stepped, watch
from builders.unreliable import case
from pdmm.common import trees
from pdmm.links.links import Contact, Links
from pdmm.links.participation import Participation
from pdmm.methods import Method


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("participation", 0.0, "participation must be a fraction above 0"),
        ("participation", 1.5, "participation must be a fraction above 0 and at most 1"),
        ("participation", -0.2, "participation must be a fraction"),
        ("participation", 0, "participation must be at least 1"),
        ("participation", 8, "participation is 8, but there are 7 clients"),
        ("participation", np.nan, "participation must be finite"),
        ("participation", True, "participation must be a number"),
        ("participation", "half", "participation must be a number"),
        ("participation", None, "participation must be a number"),
        ("participation", [], "participation is empty"),
        ("participation", [[]], "nobody would ever take part"),
        ("participation", [[], np.array([], int)], "nobody would ever take part"),
        ("participation", [0.5, 2.0], r"participation\[1\] must be a fraction"),
        ("participation", [0.5, [0, 7]], r"participation\[1\] must list clients from 0 to 6"),
        ("participation", [[-1]], r"participation\[0\] must list clients"),
        ("participation", [[0.5]], r"participation\[0\] must list clients"),
        ("participation", [3, 9], r"participation\[1\] is 9"),
        ("participation", lambda r: 2.5, r"participation\(1\) must be a fraction"),
        ("participation", lambda r: [99], r"participation\(1\) must list clients"),
        ("availability", [0.5] * 6, "availability must be 7 probabilities"),
        ("availability", [True] * 7, "availability must be 7 probabilities"),
        ("availability", [[True] * 6], "with 7 columns"),
        ("availability", np.zeros((0, 7), bool), "availability must be"),
        ("availability", ["often"] * 7, "availability must be 7 probabilities"),
        ("availability", [1.5] + [0.5] * 6, "from 0 to 1"),
        ("availability", [-0.1] + [0.5] * 6, "from 0 to 1"),
        ("availability", [np.nan] + [0.5] * 6, "from 0 to 1"),
        ("availability", [0.0] * 7, "nobody would ever take part"),
        ("availability", np.zeros((2, 7), bool), "nobody would ever take part"),
        ("availability", [[True] * 7, [True] * 3], "availability"),
        ("availability", [[]], "availability must be 7 probabilities"),
        ("loss", 1, "nothing would ever arrive"),
        ("loss", 1.0, "nothing would ever arrive"),
        ("loss", -0.1, "loss must be from 0 to 1"),
        ("loss", 1.1, "loss must be from 0 to 1"),
        ("loss", "some", "loss must be a number"),
        ("loss", [0.1] * 7, "loss must be a number"),
        ("loss", pdmm.Bursts(0.5, 0.0), "nothing would ever arrive"),
        ("bits", 1, "bits must be at least 2"),
        ("bits", 17, "bits must be from 2 to 16"),
        ("bits", 2.5, "bits must be a whole number"),
        ("bits", True, "bits must be a whole number"),
        ("local_steps", [3] * 6, "local_steps must be a number for each of the 7 clients"),
        ("local_steps", 5, "local_steps must be a number for each of the 7 clients"),
        ("local_steps", [3] * 6 + [0], r"local_steps\[6\] \(client 6\) must be at least 1"),
        ("local_steps", [1.5] * 7, r"local_steps\[0\] \(client 0\) must be a whole number"),
        ("local_steps", lambda r, i: 0, r"local_steps\(1, 0\) must be at least 1"),
        ("state", "cloud", "state must be 'clients' or 'server'"),
    ],
)
def test_what_makes_no_sense_is_refused(setting: str, value: Any, message: str) -> None:
    c = case()
    with pytest.raises(ValueError, match=message):
        pdmm.solve(c.problem, pdmm.AGPDMM(0.01, 3), 2, **{setting: value})


@pytest.mark.parametrize(
    ("make_links", "message"),
    [
        (lambda: pdmm.Bursts(0.0, 0.0), "start and end are both 0"),
        (lambda: pdmm.Bursts(1.2, 0.5), "start must be from 0 to 1"),
        (lambda: pdmm.Bursts(0.2, -0.5), "end must be from 0 to 1"),
        (lambda: pdmm.Bursts(0.2, 0.5, loss=2), "loss must be from 0 to 1"),
        (lambda: pdmm.Bursts(0.2, 0.5, otherwise=-1), "otherwise must be from 0 to 1"),
        (lambda: pdmm.Bursts(True, 0.5), "start must be a number"),
        (lambda: pdmm.OnOff(0.5, 0.0), "come must be above 0"),
        (lambda: pdmm.OnOff(1.5, 0.5), "leave must be from 0 to 1"),
        (lambda: pdmm.OnOff(0.5, np.inf), "come must be finite"),
    ],
)
def test_links_that_make_no_sense_are_refused(make_links: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_links()


def test_an_empty_round_of_a_schedule_or_a_callable_is_nobody_or_refused() -> None:
    """Either is fine, as long as it is not somebody."""
    empty: list[Any] = [[], np.array([], dtype=int)]
    for nobody in empty:
        try:
            found = Participation([0.5, nobody], 7).at(2)
        except ValueError as error:
            assert "must list clients" in str(error)  # noqa: PT017
        else:
            assert np.size(found) == 0


def test_a_callable_is_asked_once_a_round() -> None:
    """It may have a state of its own."""
    c = case()
    for bits in (None, 4):
        asked: list[int] = []

        def who(r: int, asked: list[int] = asked) -> float:
            asked.append(r)
            return 0.5

        pdmm.solve(c.problem, pdmm.AGPDMM(1 / c.L, 3), 5, participation=who, bits=bits)
        assert asked == [1, 2, 3, 4, 5], f"bits={bits}"


def test_a_number_in_an_array_is_a_number_or_refused() -> None:
    given_: Any = np.array(0.5)
    try:
        links = Links(6, given_, None, 0.0, 0)
    except ValueError as error:
        assert "participation" in str(error)  # noqa: PT017
    else:
        assert len(links.contact(1).chosen) == 3


@pytest.mark.parametrize("method", [pdmm.PDMM(1.0), pdmm.FedSplit(1.0), pdmm.GradientDescent(0.01)])
def test_methods_without_local_steps_refuse_them(method: Method) -> None:
    name = type(method).__name__
    with pytest.raises(ValueError, match=f"local_steps is for methods .* {name} takes none"):
        pdmm.solve(case().problem, method, 2, local_steps=[2] * 7)


@pytest.mark.parametrize(
    "links",
    [
        {"participation": 0.5},
        {"loss": 0.1},
        {"bits": 8},
        {"availability": [0.5] * 7},
        {"local_steps": [2] * 7},
    ],
)
def test_acceleration_is_refused_where_clients_may_be_missing(links: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="acceleration needs every client"):
        pdmm.solve(case().problem, pdmm.AGPDMM(0.01, 3, acceleration="anderson"), 2, **links)


def test_auto_settles_once_and_says_so() -> None:
    c = case()
    for method in (pdmm.PDMM("auto"), pdmm.AGPDMM(rho="auto"), pdmm.FedSplit("auto")):
        result = pdmm.solve(c.problem, method, 200, participation=0.5, record_every=200)
        assert any("x_s and the duals are equally slow" in why for why in result.choices)
        assert "rho" not in result.history
        assert 0.5 < result.method.penalty / c.rho < 5  # type: ignore[attr-defined]
        assert c.gap()(result.x) < 1e-10


@pytest.mark.parametrize(
    "links", [{"participation": 0.5}, {"loss": 0.3}, {"bits": 6}, {"participation": 1, "bits": 5}]
)
def test_nothing_chosen_but_the_links(links: dict[str, Any]) -> None:
    c = case()
    result = pdmm.solve(c.problem, **links)
    assert c.gap()(result.x) < 1e-10
    assert any("PDMM" in why for why in result.choices)
    assert "tolerance" in result.reason
    assert result.rounds < 400


def test_a_run_that_diverges_says_so_behind_links() -> None:
    c = case()
    every: list[dict[str, Any]] = [{"participation": 0.5}, {"bits": 4}, {"loss": 0.2, "bits": 16}]
    for links in every:
        result = pdmm.solve(
            c.problem,
            pdmm.FedAvg(30 / c.L, 5),
            2000,
            record_every=2000,
            **links,
        )
        assert result.diverged
        assert np.isfinite(result.x).all()


def test_other_methods_run_behind_links_too() -> None:
    """Gradient descent and Inexact FedSplit: nothing special, they just must not break."""
    c, gap = case(), case().gap()
    split = pdmm.InexactFedSplit(1 / c.rho, 1 / (c.L + c.rho), 8, start="server")
    result = pdmm.solve(c.problem, split, 600, participation=0.5, loss=0.2, bits=8)
    assert gap(result.x) < 1e-15
    descent = pdmm.solve(
        c.problem, pdmm.GradientDescent(0.01), 60, participation=0.5, loss=0.2, bits=8
    )
    assert gap(descent.x) < 0.5
    assert not descent.diverged


def test_a_lost_upload_that_is_not_finite_harms_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several clients in a block, one of which sends NaN that never arrives."""
    c = case()

    def all_but_one(contact: Contact, r: int) -> Contact:
        arrives = np.arange(c.m) != 2
        return Contact(np.arange(c.m), np.ones(c.m, bool), arrives, arrives)

    watch(monkeypatch, change=all_but_one)
    method = pdmm.AGPDMM(1 / c.L, 3, c.rho)
    with stepped(c.problem, method, rounds=5, links=Links(c.m, loss=0.5)) as run:
        memories = run.clients.here.memories
        bad = np.full((1, c.problem.dimension), np.nan)
        memories.write(np.array([2]), trees.build(memories.read(np.array([2])), [bad]))
        outcome = run.step()
    assert outcome.bad_client is None
    assert outcome.arrived == c.m - 1
    assert np.isfinite(outcome.mean.dz).all()


@pytest.mark.parametrize("participation", [lambda r: [] if r == 2 else [0, 1], [[], [1]]])
def test_a_round_of_nobody_changes_nothing(participation: Any) -> None:
    c = case()
    result = pdmm.solve(
        c.problem, pdmm.AGPDMM(1 / c.L, 3, c.rho), 6, participation=participation, record_every=1
    )
    up = np.diff(result.history["vectors_up"])
    assert (up == 0).any()
    assert (np.diff(result.history["objective"])[up == 0] == 0).all()


NEVER = [[True, False, True, True, True, True, True], [False, True, True, True, True, True, True]]


@pytest.mark.parametrize(
    ("participation", "availability", "somebody"),
    [
        ([[0], [3]], [0, 1, 1, 0, 1, 1, 1], False),
        ([[0], [3]], [0, 1, 1, 0.1, 1, 1, 1], True),
        ([[1], [0]], NEVER, False),
        ([[1], [0], [1], [0]], NEVER, False),
        ([[0], [1]], NEVER, True),
        ([[1], [0], [1]], NEVER, True),  # in round 4 it is client 1's turn, who is there
        ([[1], 2], NEVER, True),
        ([[1], [0]], pdmm.OnOff(0.5, 0.5), True),
    ],
)
def test_clients_that_are_never_there_when_they_are_asked(
    participation: Any, availability: Any, somebody: bool
) -> None:
    if somebody:
        assert Links(7, participation=participation, availability=availability).clients == 7
        return
    with pytest.raises(ValueError, match=r"never there when it lists them.*nobody would ever"):
        Links(7, participation=participation, availability=availability)
