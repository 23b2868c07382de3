"""The arguments of solve, checked once, and the links that they ask for."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.bowls import bowls
from builders.sites import FakeSites
from pdmm.engines.clients import Clients
from pdmm.engines.in_process import InProcess
from pdmm.engines.sites.sites import Sites
from pdmm.run.settings import Settings, checked, known_optimum, links

GIVEN: dict[str, Any] = {
    "method": pdmm.AGPDMM(0.5, 2),
    "rounds": None,
    "x0": None,
    "weights": None,
    "regulariser": None,
    "tolerance": None,
    "check_every": 5,
    "optimum": None,
    "seed": 0,
    "record_every": 1,
    "participation": 1.0,
    "availability": None,
    "loss": 0.0,
    "bits": None,
    "local_steps": None,
    "state": "clients",
    "curvature": "auto",
}
CENTRES = [[2.0, 0.0], [4.0, 1.0], [8.0, -1.0]]


def here(dtype: Any = np.float64) -> InProcess:
    return InProcess(bowls(CENTRES, dtype))


def at_sites() -> Sites:
    shares = {"ana": [0, 1], "ben": [2]}
    return Sites(FakeSites(lambda share: bowls(np.array(CENTRES)[share]), shares))


def settings(clients: Clients | None = None, **other: Any) -> Settings:
    return checked(clients or here(), **{**GIVEN, **other})


def test_what_is_not_given() -> None:
    plain = settings()
    assert plain.rounds == 100
    assert settings(method=None).rounds == 400
    np.testing.assert_array_equal(plain.x0, [0.0, 0.0])
    np.testing.assert_array_equal(plain.weights, [1.0, 1.0, 1.0])
    assert plain.tolerance is None


def test_numbers_are_pythons_own() -> None:
    made = settings(rounds=np.int64(7), tolerance=np.float32(0.5), seed=np.int32(3))
    assert [type(v) for v in (made.rounds, made.tolerance, made.seed)] == [int, float, int]
    assert type(settings(bits=np.uint8(8)).bits) is int  # bytes are multiples of it


def test_the_start_is_what_clients_can_hold() -> None:
    made = settings(here(np.float32), x0=[1 / 3, 1.0])
    assert made.x0.dtype == np.float64
    assert made.x0[0] == float(np.float32(1 / 3))
    with pytest.raises(ValueError, match="x0 in the run's float32"):
        settings(here(np.float32), x0=[1e300, 1.0])


@pytest.mark.parametrize("bits", [1, 0, -2, 17, 2.5, True])
def test_bits_that_are_none(bits: Any) -> None:
    with pytest.raises(ValueError, match="bits must be"):
        settings(bits=bits)


@pytest.mark.parametrize("name", ["rounds", "check_every", "record_every", "seed"])
def test_whole_numbers_that_are_none(name: str) -> None:
    wrongs: list[Any] = [-1, 1.5, True, "3"]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"{name} must be"):
            settings(**{name: wrong})


# --- the links that were asked for --------------------------------------------------------------


def test_nothing_asked_is_perfect_links() -> None:
    made = links(settings(), 3)
    assert made.perfect
    assert made.steady
    assert not made.ships_memories


LINKS: dict[str, tuple[dict[str, Any], bool]] = {
    "participation": ({"participation": 0.5}, False),
    "named": ({"participation": [[0, 1, 2]]}, False),
    "all of them": ({"participation": 3}, True),
    "availability": ({"availability": 0.5}, False),
    "loss": ({"loss": 0.1}, False),
    "bits": ({"bits": 4}, True),
    "local steps": ({"local_steps": [1, 2, 3]}, True),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_are_what_was_asked_for(name: str) -> None:
    given, perfect = LINKS[name]
    made = links(settings(**given), 3)
    assert made.perfect is perfect
    assert made.steady is (name == "all of them")


def test_every_setting_gets_to_the_links() -> None:
    asked = settings(bits=4, local_steps=[1, 2, 3], state="server", loss=0.25)
    made = links(asked, 3)
    assert (made.bits, made.ships_memories, made.up.loss) == (4, True, 0.25)
    steps = made.local_steps
    assert steps is not None
    np.testing.assert_array_equal(steps.at(1, np.array([2, 0])), [3, 1])


def test_the_seed_gets_to_the_links() -> None:
    def heard(seed: int) -> list[bool]:
        made = links(settings(loss=0.5, seed=seed), 3)
        return [bool(flag) for r in range(1, 9) for flag in made.contact(r).heard]

    assert heard(5) == heard(5)
    assert heard(5) != heard(6)


# --- sites have links of their own --------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"participation": 0.5},
        {"participation": [[0, 1, 2]]},
        {"availability": [1.0, 0.5, 0.5]},
        {"loss": 0.1},
        {"bits": 4},
        {"local_steps": [1, 2, 3]},
        {"state": "server"},
    ],
    ids=lambda given: "-".join(given),
)
def test_simulated_links_to_sites_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="are for clients in this process"):
        settings(at_sites(), **given)


def test_sites_take_what_says_nothing_of_links() -> None:
    made = settings(at_sites(), participation=3, loss=0, tolerance=1e-3)
    assert made.tolerance == 1e-3


def test_a_wrong_number_is_named_at_sites_too() -> None:
    with pytest.raises(ValueError, match="participation is 4, but there are 3 clients"):
        settings(at_sites(), participation=4)


def test_a_lazy_problem_has_no_certificates() -> None:
    lazy = InProcess(pdmm.Lazy(3, lambda i: bowls([CENTRES[i]])))
    assert settings(lazy).rounds == 100
    with pytest.raises(ValueError, match="tolerance needs certificates"):
        settings(lazy, tolerance=1e-3)


# --- the optimum --------------------------------------------------------------------------------


def test_what_is_known_of_an_optimum() -> None:
    assert known_optimum(None, 2) is None
    assert known_optimum(False, 2) is None
    assert known_optimum(np.float32(1.5), 2) == 1.5
    np.testing.assert_array_equal(np.asarray(known_optimum([1, 2], 2)), [1.0, 2.0])
    for wrong, says in ((True, "got True"), ([1.0], "optimum"), (np.nan, "optimum")):
        with pytest.raises(ValueError, match=says):
            known_optimum(wrong, 2)
