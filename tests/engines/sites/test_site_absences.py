"""Which sites were left out of which rounds, in words, and when that ends a run."""

import time

import pytest

from builders.bowls import bowls
from builders.sites import FakeSites
from pdmm.engines.sites.absences import Absences
from pdmm.engines.sites.roster import Roster, SiteLostError

ALL = ["ana", "ben", "cyd"]


def roster(patience: float = 600.0) -> Roster:
    sites = FakeSites(lambda share: bowls([[1.0]]), dict.fromkeys(ALL, range(1)))
    return Roster(sites, timeout=1.0, patience=patience)


def said(rounds: list[list[str]]) -> tuple[str, ...]:
    """What is said after rounds in which these sites answered."""
    absences = Absences(ALL)
    for r, answered in enumerate(rounds, start=1):
        absences.note(r, answered, roster())
    return absences.sentences()


def test_where_all_answer_there_is_nothing_to_say() -> None:
    assert said([ALL, ALL]) == ()
    assert Absences(ALL).sentences() == ()


def test_one_round_and_several() -> None:
    two = ["ana", "cyd"]
    assert said([ALL, two, ALL]) == (
        "site ben did not answer in round 2: the run went on without it",
    )
    assert said([ALL, two, two, two, ALL, ALL]) == (
        "site ben did not answer in rounds 2 to 4: the run went on without it",
    )


def test_who_is_still_away_is_named_last() -> None:
    assert said([["ana"], ["ana", "cyd"], ["ana", "cyd"]]) == (
        "site cyd did not answer in round 1: the run went on without it",
        "site ben did not answer in rounds 1 to 3: the run went on without it",
    )


def test_every_absence_has_a_sentence() -> None:
    found = said([ALL, ["ana", "ben"], ALL, ["ana", "ben"]])
    assert [sentence.split(" in ")[1].split(":")[0] for sentence in found] == ["round 2", "round 4"]


def test_a_checkpoint_goes_on_with_the_same_words() -> None:
    whole, first = Absences(ALL), Absences(ALL)
    two = ["ana", "cyd"]
    for r, answered in enumerate([ALL, two], start=1):
        whole.note(r, answered, roster())
        first.note(r, answered, roster())
    second = Absences(ALL)
    second.load(first.state())
    for r, answered in enumerate([two, ALL, ["ben"]], start=3):
        whole.note(r, answered, roster())
        second.note(r, answered, roster())
    assert second.sentences() == whole.sentences()
    assert second.state() == whole.state()
    assert first.done == 2  # what is loaded is a copy
    assert first.missing == {"ben": 2}


def test_a_site_that_is_silent_for_too_long_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    absences = Absences(ALL)
    patient = roster(patience=10.0)
    two = ["ana", "cyd"]
    clock[0] = 1010.0
    absences.note(1, two, patient)  # ten seconds are not too long
    clock[0] = 1011.0
    with pytest.raises(SiteLostError, match="site ben has not answered for 11 seconds"):
        absences.note(2, two, patient)
    absences.note(3, ALL, patient)  # an answer that counts starts the clock anew
    clock[0] = 1021.0
    absences.note(4, two, patient)
