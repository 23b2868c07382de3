"""What a site says of itself, and of its constants, before the server believes it."""

from typing import Any

import numpy as np
import pytest

from pdmm.engines.sites.facts import Facts, check_facts, read_facts
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.told_constants import check_order, read_constants
from pdmm.engines.sites.told_sums import read_gradient, read_sums, read_value
from pdmm.problems.constants import Kind, Which

HELLO: dict[str, Any] = {
    "clients": 2,
    "dimension": 3,
    "dtype": "float64",
    "proven": True,
    "reveals": "none",
    "reveals_in_sums": "full",
    "organisation": "hospital",
    "identified": False,
    "per_site": True,
    "likelihood": False,
    "intercepts": None,
    "convex": True,
    "alike": {"columns": "af03", "classes": None},
}


def facts(**other: Any) -> Facts:
    return read_facts(Reply("ana", "hello", {**HELLO, **other}))


def test_honest_facts() -> None:
    found = facts(intercepts=np.array([2, 2, 2]))
    assert (found.clients, found.dimension, found.dtype) == (2, 3, "float64")
    assert found.alike == {"columns": "af03", "classes": None}
    assert found.intercepts is not None
    assert found.intercepts.tolist() == [2, 2, 2]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"clients": 10**9}, "'clients' is 1,000,000,000, not a whole number from 1 to 100,000"),
    ({"clients": "3"}, "'clients' is the text '3', not a whole number"),
    ({"clients": None}, "'clients' is None"),
    ({"clients": 0}, "'clients' is 0"),
    ({"dimension": 10**12}, "'dimension' is 1,000,000,000,000, not a whole number from 1 to"),
    ({"dimension": 10**6, "clients": 1000}, "1,000,000,000 numbers in all, and at most"),
    ({"dtype": "float16"}, "'dtype' is the text 'float16', not one of 'float64', 'float32'"),
    ({"dtype": "object"}, "'dtype' is the text 'object', not one of"),
    ({"proven": 1}, "'proven' is 1, not True or False"),
    ({"proven": None}, "'proven' is None, not True or False"),
    ({"alike": None}, "alike is None, and must be a dictionary"),
    ({"alike": {"columns": 3}}, r"alike\['columns'\] is 3, not a text"),
    ({"alike": {"columns": "x" * 10**6}}, "a text of 1,000,000 characters, not a text of at most"),
    ({"alike": {3: "af"}}, "3 is among what must be alike"),
    (
        {"alike": {str(k): None for k in range(200)}},
        "'alike' is a dict of 200, not a dictionary of",
    ),
    ({"convex": None}, "'convex' is None, not True or False"),
    ({"start": 3}, "'start' is 3, not a text"),
    ({"parameters": "w"}, "'parameters' is the text 'w', not None, or a list of at most 10,000"),
    ({"parameters": [["w", [2]]]}, "whose sizes add up to the dimension"),
    ({"parameters": [["w", [1]], ["w", [2]]]}, "a name, each of them once"),
    ({"parameters": [["w", [-1]], ["b", [4]]]}, "'parameters' is a list of 2, not None, or"),
    ({"parameters": [["w", [True]], ["b", [2]]]}, "'parameters' is a list of 2, not None, or"),
    ({"parameters": [["w", 3]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["w"]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["__metadata__", [3]]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["w" * 301, [3]]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["w\n", [3]]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["w", [1] * 8 + [3]]]}, "'parameters' is a list of 1, not None, or"),
    ({"parameters": [["w", [1]]] * 10_001}, "'parameters' is a list of 10,001, not None, or"),
    ({"intercepts": [2, 2, 2]}, "'intercepts' is a list of 3, not None, or an array of 3"),
    ({"intercepts": np.array([0, 0, 3])}, "whole numbers from 0 to 2"),
    ({"intercepts": np.array([0.0, 0.0, 0.0])}, "whole numbers from 0 to 2"),
]


@pytest.mark.parametrize(("other", "says"), WRONG, ids=[says[:30] for _, says in WRONG])
def test_no_lie_gets_through(other: dict[str, Any], says: str) -> None:
    with pytest.raises(SiteError, match=f"^site ana .*{says}"):
        facts(**other)


def test_a_large_model_is_taken_where_a_site_has_one_client() -> None:
    assert facts(clients=1, dimension=3 * 10**8).dimension == 3 * 10**8


def test_sites_must_have_the_same_intercepts() -> None:
    plain = facts()
    with pytest.raises(SiteError, match="site ben has other intercepts than site ana"):
        check_facts({"ana": plain, "ben": facts(intercepts=np.zeros(3, int))})
    check_facts({"ana": plain, "ben": facts(clients=7)})


def test_sites_must_have_models_with_the_same_parameters() -> None:
    mine = facts(parameters=[["w", [1, 2]], ["b", [1]]])
    assert mine.parameters == (("w", (1, 2)), ("b", (1,)))
    for other in (None, [["w", [2, 1]], ["b", [1]]], [["v", [1, 2]], ["b", [1]]]):
        with pytest.raises(SiteError, match="site ben has a model with other parameters than"):
            check_facts({"ana": mine, "ben": facts(parameters=other)})


def test_sites_must_start_from_the_same_point() -> None:
    with pytest.raises(SiteError, match="site ben has another start than site ana"):
        check_facts({"ana": facts(start="af"), "ben": facts()})


# --- L and mu -----------------------------------------------------------------------------------


def constants(values: Any, kind: Any = "exact", which: Which = "mu", proven: bool = True) -> Any:
    reply = Reply("ana", "constants", {"values": np.array(values), "kind": kind})
    return read_constants(reply, which, 2, proven)


def test_honest_constants() -> None:
    assert constants([1.0, 0.0])[1] == "exact"
    assert np.isinf(constants([np.inf, 1.0], "unbounded", "L")[0][0])
    assert np.isnan(constants([np.nan, 1.0], "estimate", "valley mu")[0][0])
    assert constants([1.0, 2.0], "estimate", "mu", proven=False)[1] == "estimate"


@pytest.mark.parametrize("value", [1e300, -1.0, np.nan, np.inf, -1e-300])
@pytest.mark.parametrize("which", ["L", "mu"])
def test_impossible_constants_are_refused(value: float, which: Which) -> None:
    says = f"site ana states .* as the {which} of its client 1 .*: it must be a finite number from"
    with pytest.raises(SiteError, match=says):
        constants([1.0, value], which=which)


@pytest.mark.parametrize(
    ("values", "kind", "says"),
    [
        ([1.0, 2.0, 3.0], "exact", r"of shape \(3,\), not an array of numbers of shape \(2,\)"),
        (["1", "2"], "exact", "not an array of numbers"),
        ([1.0, 2.0], "lucky", "'kind' is the text 'lucky', not one of 'unbounded'"),
        ([1.0, 2.0], None, "'kind' is None, not one of"),
        ([1.0, 2.0], "estimate", "not one of given, bound, exact, since it calls its constants"),
    ],
)
def test_constants_that_cannot_be_read(values: Any, kind: Any, says: str) -> None:
    with pytest.raises(SiteError, match=f"site ana .*{says}"):
        constants(values, kind)


def test_no_function_has_mu_above_L() -> None:
    places = {"ana": slice(0, 1), "ben": slice(1, 3)}
    L = np.array([1.0, 2.0, 3.0])
    check_order((L, "exact"), (L, "exact"), places)
    check_order((L, "exact"), (L * (1 + 1e-9), "bound"), places)  # rounding
    check_order((L, "estimate"), (L * 2, "given"), places)  # the estimate may be wrong
    with pytest.raises(SiteError, match="site ben states 4 as the mu of its client 1, above its L"):
        check_order((L, "exact"), (np.array([1.0, 2.0, 4.0]), "given"), places)


@pytest.mark.parametrize("kind", ["bound", "exact", "given"])
def test_what_is_proven_is_taken_as_it_is(kind: Kind) -> None:
    np.testing.assert_array_equal(constants([0.5, 2.0], kind)[0], [0.5, 2.0])


# --- sums ---------------------------------------------------------------------------------------

SLOPE: dict[str, Any] = {"gradient": np.array([3.0, 4.0]), "doubt": 0.0, "terms": 5.0, "calls": 2}


def gradient(**other: Any) -> Any:
    return read_gradient(Reply("ana", "gradient", {**SLOPE, **other}), 2)


def test_an_honest_gradient() -> None:
    found = gradient()
    np.testing.assert_array_equal(found.gradient, [3.0, 4.0])
    assert (found.doubt, found.terms, found.calls) == (0.0, 5.0, 2.0)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"gradient": np.full(2, 1e300)}, r"numbers as large as 1e\+300, and at most 1e\+150"),
        ({"gradient": np.array([np.nan, 0])}, "'gradient' is not finite"),
        ({"gradient": [3.0, 4.0]}, "'gradient' is a list of 2, not an array of numbers"),
        ({"gradient": np.zeros(3)}, r"of shape \(3,\), not"),
        ({"doubt": np.nan}, "'doubt' is nan, not a number from 0"),
        ({"doubt": -1.0}, "'doubt' is -1.0, not a number from 0"),
        ({"terms": np.inf}, "'terms' is inf, not a number from 0"),
        ({"terms": 4.0}, "cannot be right: its gradient has the norm 5"),
        ({"calls": "2"}, "'calls' is the text '2', not a number"),
    ],
)
def test_a_gradient_that_no_sum_has_is_refused(other: dict[str, Any], says: str) -> None:
    with pytest.raises(SiteError, match=f"site ana .*{says}"):
        gradient(**other)


def test_values() -> None:
    assert read_value(Reply("ana", "value", {"value": 2})) == 2.0
    # exp overflows far out, at an honest site too
    assert read_value(Reply("ana", "value", {"value": np.inf})) == np.inf
    for wrong in (np.nan, -np.inf, "2", None, True):
        with pytest.raises(SiteError, match="site ana gave an answer to 'value'"):
            read_value(Reply("ana", "value", {"value": wrong}))


def test_sums_that_overflowed_prove_nothing() -> None:
    small = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(read_sums(Reply("a", "s", {"sums": small}), (2, 3)), small)
    for large in (np.inf, np.nan, 1e200):
        found = read_sums(Reply("a", "s", {"sums": np.append(np.ones(3), large)}), (4,))
        assert np.isnan(found).all()
        reply = Reply("a", "s", {"sums": np.append(np.ones(3), large)})
        with pytest.raises(SiteError, match=r"'sums' (is not finite|has numbers as large as 1e)"):
            read_sums(reply, (4,), needed=True)
    with pytest.raises(SiteError, match=r"'sums' is .* of shape \(2, 3\), not an array of numbers"):
        read_sums(Reply("a", "s", {"sums": small}), (3, 2))
