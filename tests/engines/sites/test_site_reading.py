"""A reply is read field by field; what is not as it must be is an error that names the site."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdmm.engines.sites.reading import Reply, told
from pdmm.engines.sites.roster import SiteError

ODD: list[Any] = [
    *(None, "3", {}, [], [1], b"3", 1j, 10**400, np.zeros(3), object(), "x" * 10**6, float("nan"))
]


def reply(**fields: Any) -> Reply:
    return Reply("ana", "hello", fields)


READ: dict[str, Callable[[Reply], Any]] = {
    "flag": lambda r: r.flag("it"),
    "whole": lambda r: r.whole("it", 1, 9),
    "number": lambda r: r.number("it"),
    "text": lambda r: r.text("it", ("float64", "float32")),
    "array": lambda r: r.array("it", (2,)),
    "within": lambda r: r.within("it").flag("it"),
    "bounded": lambda r: r.bounded("it", (2,), 1e3),
}


@pytest.mark.parametrize("how", READ)
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_what_is_odd_is_refused_in_a_short_sentence(how: str, value: Any) -> None:
    with pytest.raises(SiteError, match=r"^site ana gave an answer to 'hello' .*'?it") as refusal:
        READ[how](reply(it=value))
    assert len(str(refusal.value)) < 300
    with pytest.raises(SiteError, match="site ana gave an answer to 'hello'"):
        READ[how](reply())


@pytest.mark.parametrize("fields", [None, [], "text", 3])
def test_a_reply_is_a_dictionary(fields: Any) -> None:
    with pytest.raises(SiteError, match=r"site ana .*: the reply is .*, and must be a dictionary"):
        Reply("ana", "round", fields)


def test_what_is_right_is_taken() -> None:
    assert reply(it=np.bool_(True)).flag("it") is True
    assert reply(it=np.int64(9)).whole("it", 1, 9) == 9
    assert reply(it=np.float32(0.5)).number("it", 0.0, 1.0) == 0.5
    assert reply(it=3).number("it") == 3.0
    assert np.isnan(reply(it=float("nan")).number_or_nan("it"))
    assert reply(it="float32").text("it", ("float64", "float32")) == "float32"
    found = reply(it=np.arange(2, dtype=np.float32)).array("it", (2,))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [0.0, 1.0])
    assert reply(it=None).has("it") is False


def test_limits_are_stated() -> None:
    with pytest.raises(SiteError, match="its 'it' is 10, not a whole number from 1 to 9"):
        reply(it=10).whole("it", 1, 9)
    with pytest.raises(SiteError, match=r"its 'it' is -0\.5, not a number of at least 0"):
        reply(it=-0.5).number("it", 0.0)
    with pytest.raises(SiteError, match="its 'it' is True, not a number from 0 to 1"):
        reply(it=True).number("it", 0.0, 1.0)
    with pytest.raises(SiteError, match=r"has numbers as large as 2e\+03, and at most 1000 is"):
        reply(it=np.array([1.0, -2e3])).bounded("it", (2,), 1e3)
    with pytest.raises(SiteError, match="its 'it' is not finite"):
        reply(it=np.array([1.0, np.nan])).bounded("it", (2,), 1e3)
    with pytest.raises(SiteError, match="it has no 'it', which must be True or False"):
        reply().flag("it")


def test_a_value_is_told_in_a_few_words() -> None:
    assert told(np.zeros((2, 3))) == "an array of float64 of shape (2, 3)"
    assert told(10**9) == "1,000,000,000"
    assert told(10**400) == "a whole number of 1,329 bits"
    assert told("no\x1b[2J") == r"the text 'no\x1b[2J'"
    assert told("x" * 1000) == "a text of 1,000 characters"
    assert told([1, 2]) == "a list of 2"
    assert told(b"abc") == "a bytes"
