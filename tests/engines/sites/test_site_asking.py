"""The questions of one round: who is asked, who is asked again, and what it costs."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.sites import FakeSites, Fault, Payload
from pdmm.engines.clients import Terms
from pdmm.engines.exchange import Evaluation, Question
from pdmm.engines.sites.asking import ask_round
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.sites import Sites
from pdmm.engines.traffic import Sent
from pdmm.methods.family import Message

HALF = pdmm.AGPDMM(step_size=1.0, local_steps=1, rho=1.0)
CENTRES = np.array([[2.0], [4.0], [8.0]])
SHARES = {"ana": [0, 1], "ben": [2]}
VECTOR, HEADER = 8, 8


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two questions."""
    monkeypatch.setattr("pdmm.engines.sites.roster.PAUSE", 0.001)
    monkeypatch.setattr("pdmm.engines.sites.asking.PAUSE", 0.001)


def sites(fault: Fault | None = None, **given: Any) -> tuple[Sites, FakeSites]:
    fake = FakeSites(lambda share: bowls(CENTRES[share]), SHARES, fault)
    clients = Sites(fake, **given)
    clients.open(Terms(np.zeros(1), np.ones(3), 9, None))
    clients.prepare(HALF, np.zeros(1), np.ones(3), 5)
    fake.asked.clear()
    return clients, fake


def question(r: int, evaluate: bool = False) -> Question:
    wanted = Evaluation(np.zeros(1)) if evaluate else None
    return Question(r, HALF, Message(np.zeros(1)), wanted)


def payloads(fake: FakeSites, site: str) -> list[Payload]:
    return [payload for name, _, payload in fake.asked if name == site]


def test_a_question_has_all_that_its_answer_depends_on() -> None:
    clients, fake = sites()
    ask_round(clients, question(3), Message(np.zeros(1)))
    (payload,) = payloads(fake, "ana")
    assert (payload["round"], payload["rounds"], payload["evaluate"]) == (3, 5, False)
    np.testing.assert_array_equal(payload["memory"][0], [[0.0], [0.0]])
    assert payload["have"] != payload["next"]


def test_answers_by_hand() -> None:
    """From zeros, z_i moves to c_i; F(0) is 0."""
    clients, _ = sites()
    asked = ask_round(clients, question(1, evaluate=True), Message(np.zeros(1)))
    np.testing.assert_array_equal(asked.answers["ana"].upload.dz, [[2.0], [4.0]])
    np.testing.assert_array_equal(asked.answers["ben"].upload.dz, [[8.0]])
    assert asked.answers["ben"].value == 0.0
    outcome = clients.round(question(2))
    assert outcome.arrived == 3


def test_the_cost_of_a_round() -> None:
    """A message for each site, in the first round with the memory of each client."""
    clients, _ = sites()
    first = clients.round(question(1)).sent
    assert first == Sent(
        contacts=3,
        uploads=3,
        vectors_down=2 + 3,
        vectors_up=3,
        bytes_down=2 * (VECTOR + HEADER) + 3 * VECTOR,
        bytes_up=3 * (VECTOR + HEADER),
    )
    second = clients.round(question(2)).sent
    assert second == first._replace(vectors_down=2, bytes_down=2 * (VECTOR + HEADER))


def test_a_site_that_forgot_is_asked_again_with_its_memory() -> None:
    clients, fake = sites()
    clients.round(question(1))
    fake.restart("ben")
    fake.asked.clear()
    outcome = clients.round(question(2))
    without, opening, with_memory = payloads(fake, "ben")
    assert without["memory"] is None
    assert opening["memory"] is None
    assert opening["opening"]["rounds"] == 9
    np.testing.assert_array_equal(with_memory["memory"][0], [[8.0]])
    assert len(payloads(fake, "ana")) == 1
    assert outcome.arrived == 3
    # Both of its messages were sent, and the second had one vector of memory.
    assert outcome.sent.contacts == 4
    assert outcome.sent.bytes_down == 3 * (VECTOR + HEADER) + VECTOR


def test_a_site_that_says_it_lacks_what_it_was_sent_is_refused() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        if site == "ben" and verb == "round":
            return lambda answer: {"lacks": "memory"}
        return None

    clients, _ = sites(fault)
    with pytest.raises(SiteError, match="site ben was sent its memory, and says that it lacks it"):
        clients.round(question(1))


def test_an_answer_to_another_question_does_not_count() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        if site == "ben" and verb == "round" and payload["round"] == 2:
            return lambda answer: {**answer, "next": "of another question"}
        return None

    clients, _ = sites(fault)
    clients.round(question(1))
    names = dict(clients.copies.names)
    outcome = clients.round(question(2))
    assert outcome.arrived == 2
    assert outcome.share == pytest.approx(2 / 3)
    assert clients.answered == ["ana"]
    assert clients.copies.names["ben"] == names["ben"]  # what it had it still has
    assert clients.copies.names["ana"] != names["ana"]


@pytest.mark.parametrize("absent", ["skip", "wait"])
def test_a_site_that_answers_other_questions_ends_the_run(absent: str) -> None:
    """It is asked three times, and no more, be it in one round or in several."""

    def fault(site: str, verb: str, payload: Payload) -> Any:
        if site == "ben" and verb == "round":
            return lambda answer: {**answer, "next": "of another question"}
        return None

    clients, fake = sites(fault, absent=absent)

    def all_rounds() -> None:
        for r in range(1, 10):
            clients.round(question(r))

    with pytest.raises(SiteError, match="site ben answered 3 questions in a row with the answer"):
        all_rounds()
    assert len(payloads(fake, "ben")) == 3


def test_where_no_answer_belongs_to_the_question_nobody_asks_for_ever() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        if verb == "round":
            return lambda answer: {**answer, "next": "of another question"}
        return None

    clients, fake = sites(fault)
    with pytest.raises(SiteError, match="answered 3 questions in a row"):
        clients.round(question(1))
    assert len(fake.asked) == 6


def test_a_good_answer_forgives_those_before() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        if site == "ben" and verb == "round" and payload["round"] % 3:
            return lambda answer: {**answer, "next": "of another question"}
        return None

    clients, _ = sites(fault)
    arrived = [clients.round(question(r)).arrived for r in range(1, 10)]
    assert arrived == [2, 2, 3] * 3


@pytest.mark.parametrize("lacks", [True, "sleep", 3, ["memory"]])
def test_a_site_can_lack_nothing_but_its_memory(lacks: Any) -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        return (lambda answer: {"lacks": lacks}) if site == "ben" and verb == "round" else None

    clients, _ = sites(fault)
    with pytest.raises(SiteError, match=r"site ben .* its 'lacks' is .*, not one of 'memory'"):
        clients.round(question(1))


def test_a_run_that_needs_all_asks_until_all_have_answered() -> None:
    failures = iter(["no answer within 1 seconds"] * 2)

    def fault(site: str, verb: str, payload: Payload) -> str | None:
        if site == "ben" and verb == "round":
            return next(failures, None)
        return None

    clients, fake = sites(fault, absent="wait")
    outcome = clients.round(question(1))
    assert outcome.arrived == 3
    assert len([verb for name, verb, _ in fake.asked if (name, verb) == ("ben", "round")]) == 3
    assert len([verb for name, verb, _ in fake.asked if (name, verb) == ("ana", "round")]) == 1
    assert outcome.sent.contacts == 2 + 3


def test_a_bad_answer_names_the_site_and_the_round() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        if site == "ana" and verb == "round":
            return lambda answer: {**answer, "upload": [np.full((2, 1), np.nan)]}
        return None

    clients, _ = sites(fault)
    with pytest.raises(SiteError, match="site ana returned, in round 4, dz that is not finite"):
        clients.round(question(4))
