"""Attacks on secure sums, by a server that asks what it likes and by whoever is between."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.hostile import METHOD, SITES, THREE, Attack, D, bowls, scaled, tables
from builders.sites import FakeSites, Payload
from pdmm.engines import Refused, Sites
from pdmm.engines.secure.words import capacity
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.seal import MOST_SCALES

ADDENDS = 6  # of three sites with one client each
GRADIENT = slice(3, 3 + D)  # words of the answer to "gradient": a count, calls, doubt, and then it
Change = Callable[[Payload], Any]

# --- one stream for each question ---------------------------------------------------------------


def test_a_counter_has_one_answer_and_never_goes_back() -> None:
    attack = Attack()
    payload = attack.again()["ana"]
    first = attack.answer("ana", payload)
    second = attack.answer("ana", payload)
    assert (first["words"] == second["words"]).all()
    assert first["signature"] == second["signature"]
    other = copy.deepcopy(payload)
    other["evaluate"] = False
    with pytest.raises(Refused):
        attack.answer("ana", other)
    assert "is asked twice, about different things" in attack.reasons()[-1]
    earlier = Attack()
    with pytest.raises(Refused):
        earlier.answer("ana", earlier.asked(nth=0)["ana"])
    assert "comes after question" in earlier.reasons()[-1]


def test_the_same_question_under_another_number_has_another_mask() -> None:
    attack = Attack()
    first = attack.words("ana", attack.again()["ana"])
    second = attack.words("ana", attack.again()["ana"])
    assert (first != second).all()


# --- keys serve one run -------------------------------------------------------------------------


def test_a_run_cannot_be_opened_twice_with_the_same_keys() -> None:
    """Its counters would begin again, and its sites would have forgotten."""
    attack = Attack()
    own = next(p for name, verb, p in attack.fake.asked if (name, verb) == ("ana", "open"))
    with pytest.raises(Refused):
        attack.answer("ana", own, "open")
    assert attack.reasons() == ["these keys have begun a run already, and serve no other"]
    with pytest.raises(Refused):
        attack.answer("ana", attack.asked(nth=0)["ana"])


def test_old_keys_answer_nothing_once_new_ones_are_made() -> None:
    attack = Attack()
    payload = attack.again()["ana"]
    attack.answer("ana", {"run": "run/2", "name": "ana"}, "join")
    assert attack.fake.sites["ana"].consent.sums is None
    with pytest.raises(Refused):
        attack.answer("ana", payload)


def test_two_runs_of_the_same_sites_share_no_mask() -> None:
    """Not even where everything in them is the same."""
    fake = FakeSites(bowls, THREE)
    kept: list[Any] = []

    def keep(site: str, verb: str, payload: Payload) -> Any:
        if verb != "round" or site != "ana" or payload["mask"]["counter"] != 1:
            return None

        def keeping(answer: Payload) -> Payload:
            kept.append(answer["words"])
            return answer

        return keeping

    fake.fault = keep
    clients = Sites(fake, secure=True, absent="wait")
    for _ in range(2):
        for _ in range(2):
            pdmm.solve(clients, METHOD, 3, optimum=False)
    first = kept[0]
    assert len(kept) == 4
    assert all((first != other).all() for other in kept[1:])


# --- sites that are asked different things ------------------------------------------------------


DIFFERENT: dict[str, Change] = {
    "x": lambda payload: payload["message"][0].__setitem__(1, 7.0),
    "evaluate": lambda payload: payload.update(evaluate=np.full(D, 3.0)),
    "scales": lambda payload: payload["mask"].update(scales=payload["mask"]["scales"] - 1),
    "levels": lambda payload: payload["mask"].update(long=not payload["mask"]["long"]),
    "counter": lambda payload: payload["mask"].update(counter=payload["mask"]["counter"] + 1),
    "set": lambda payload: payload["mask"].update(set=["ana", "cyd", "dan"]),
    "what others remember": lambda payload: payload["have"].update(cyd="999.00"),
    "variables": lambda payload: payload.update(variables=scaled(2.0)),
}


class Mine(FakeSites):
    """Each site has a question of its own, which a fault may change."""

    def ask(self, verb: str, payloads: Any, timeout: float) -> Any:
        each = {name: copy.deepcopy(payload) for name, payload in payloads.items()}
        return super().ask(verb, each, timeout)


@pytest.mark.parametrize("part", DIFFERENT)
def test_sites_that_are_asked_different_things_do_not_cancel(part: str) -> None:
    """The sum is not read, and the run ends with a sentence."""
    done = []

    def fault(site: str, verb: str, payload: Payload) -> None:
        if (
            verb == "round"
            and site == "ana"
            and payload["round"] >= (1 if part == "variables" else 2)
        ):
            DIFFERENT[part](payload)
            done.append(part)

    clients = Sites(Mine(tables, SITES, fault), secure=True, absent="wait")
    says = "asked different|refused by policy|not what it has signed|cannot be read|answered 3"
    with pytest.raises(SiteError, match=says):
        pdmm.solve(clients, METHOD, 5)
    assert done


@pytest.mark.parametrize("verb", ["value", "gradient"])
def test_a_sum_of_values_at_different_points_is_not_read(verb: str) -> None:
    def fault(site: str, word: str, payload: Payload) -> None:
        if word == verb and site == "ana":
            payload["x"] = payload["x"] + 1.0

    with pytest.raises(SiteError, match="does not add up: they were asked different things"):
        pdmm.solve(Sites(Mine(bowls, THREE, fault), secure=True, absent="wait"), METHOD, 3)


def test_variables_that_only_some_sites_know_of_do_not_cancel() -> None:
    """Where one site works in other variables, the parts of the others can be made to vanish."""

    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "prepare" and site == "ana":
            payload["variables"] = scaled(2.0)
        elif verb == "prepare":  # the others agree to these variables, and do not take them up
            fake.sites[site].answer("constants", {"which": "L", "variables": scaled(2.0)})

    fake = Mine(tables, THREE, fault)
    with pytest.raises(SiteError, match="asked different things"):
        pdmm.solve(Sites(fake, secure=True, absent="wait"), METHOD, 5)


def test_no_site_goes_on_alone() -> None:
    """The same sum twice, but for one site's part, would tell that part."""
    attack = Attack()
    done = attack.hidden.memories
    for ahead in ("ana", "cyd"):
        questions = Attack.again(attack)
        before = dict(questions["ana"]["have"])
        for payload in questions.values():
            payload["have"] = {**before, ahead: done[ahead]}
        with pytest.raises(Refused):
            attack.total(questions)
    said = [text for name in attack.names for text in attack.reasons(name)]
    assert any("is said to have forgotten a sum that it was a part of" in text for text in said)


def test_no_round_follows_one_that_was_not_the_same_for_all() -> None:
    """Its sum could not be read, and what the sites remember of it would be the server's choice."""
    attack = Attack()
    have = attack.hidden.memories
    questions = attack.again()
    names = {}
    for name, payload in questions.items():
        payload |= {"round": payload["round"] + 1, "have": have}
        payload["message"][0] += 5.0 * (name == "ana")
        names[name] = attack.answer(name, payload)["next"]
    payload = attack.again()["ben"]
    payload |= {"round": questions["ben"]["round"] + 1, "have": names}
    with pytest.raises(Refused):
        attack.answer("ben", payload)
    assert "is said to have forgotten a sum" in attack.reasons("ben")[0]


def test_no_site_is_left_behind() -> None:
    attack = Attack()
    questions = attack.again()
    before = questions["ana"]["have"]
    for payload in questions.values():
        payload["have"] = {**attack.hidden.memories, "ben": before["ben"]}
    with pytest.raises(Refused):
        attack.answer("cyd", questions["cyd"])
    assert "site ben is said to have forgotten" in attack.reasons("cyd")[0]


SETS = {
    "two": (["ana", "ben"], "a sum over 2 sites is asked for"),
    "one": (["ana"], "a sum over 1 sites is asked for"),
    "others": (["ben", "cyd", "dan"], "over sites that do not take part"),
    "a stranger": (["ana", "ben", "cyd", "eve"], "over sites that do not take part"),
    "one twice": (["ana", "ana", "ben"], "does not say which sum"),
}


@pytest.mark.parametrize("among", SETS)
def test_a_set_that_shows_a_part_is_refused(among: str) -> None:
    attack = Attack(SITES)
    names, said = SETS[among]
    with pytest.raises(Refused):
        attack.answer("ana", attack.again(set=names)["ana"])
    assert said in attack.reasons()[0]


# --- scales -------------------------------------------------------------------------------------


def test_a_scale_at_which_the_largest_part_does_not_fit_does_not_show_the_others() -> None:
    attack = Attack()
    x = np.zeros(D)
    gradient = attack.asked("gradient")["ana"]
    room = capacity(ADDENDS)
    power = room - 4  # 2 and 3 fit, and 100 does not
    mask = {"scales": np.full(3 + D, power, dtype=np.int16), "counter": attack.next()}
    questions = {}
    for name in attack.names:
        questions[name] = {**copy.deepcopy(gradient), "x": x}
        questions[name]["mask"].update(mask)
    total = attack.total(questions, "gradient")
    assert attack.adds_up(total)
    assert (attack.total(questions, "gradient") == total).all()  # noise does not change either
    read = total[GRADIENT].view(np.int64) * 2.0**-power
    others = -(3.0 + 2.0) * np.linspace(1.0, 1.2, D)  # of x - c at 0
    assert np.abs(others).max() * 2.0**power < 2.0**room
    assert (np.abs(read - others) > 1e-3).all()


def test_scales_are_bounded_and_so_is_their_number() -> None:
    for power in (1001, -1001, -32768):
        attack = Attack()
        wild = np.full(len(attack.asked()["ana"]["mask"]["scales"]), power, dtype=np.int16)
        with pytest.raises(Refused):
            attack.answer("ana", attack.again(scales=wild)["ana"])
        assert attack.reasons() == ["the scales of a sum are none"]
    attack = Attack()
    scales = attack.asked()["ana"]["mask"]["scales"]
    for step in range(MOST_SCALES - 1):  # one is that of the run
        payload = attack.again(scales=scales - np.int16(1 + step))["ana"]
        attack.answer("ana", {**payload, "of no account": step})
    with pytest.raises(Refused):
        attack.answer("ana", attack.again(scales=scales + np.int16(1))["ana"])
    assert f"at more than {MOST_SCALES} scales" in attack.reasons()[0]


def test_a_sum_of_another_length_is_refused() -> None:
    attack = Attack()
    with pytest.raises(Refused):
        attack.answer("ana", attack.again(scales=np.zeros(3, dtype=np.int16))["ana"])
    assert "a sum of 3 numbers is asked for" in attack.reasons()[0]
