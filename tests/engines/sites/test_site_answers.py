"""A site's answer: checked before anything of it gets into the model."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.engines.client_round import Shapes
from pdmm.engines.sites.answers import Answer, read_answer
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import SiteError
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.family import Upload
from pdmm.methods.gpdmm import Draft
from pdmm.problems.block import Tally

SHAPES = Shapes.of(pdmm.GPDMM(0.5, 2), np.zeros(3), np.dtype(np.float32))
WHERE = "site ana returned, in round 7,"


def answer(**other: Any) -> dict[str, Any]:
    """A good one, of a site with two clients."""
    return {
        "upload": [np.ones((2, 3), np.float32)],
        "draft": [np.zeros((2, 3), np.float32)],
        "tally": {"gradients": 4, "values": 0, "exact": 0, "error": 0.0, "missed": 0.0},
        "value": 1.5,
        "shown": None,
        **other,
    }


def check(given: dict[str, Any], shapes: Shapes = SHAPES, evaluated: bool = True) -> Answer:
    return read_answer(Reply("ana", "round", given), shapes, 7, 2, evaluated)


def test_a_good_answer_is_taken_apart() -> None:
    good = answer()
    found = check(good)
    assert isinstance(found.upload, Upload)
    assert isinstance(found.draft, Draft)
    assert found.upload.dz is good["upload"][0]
    assert found.draft.x is good["draft"][0]
    assert found.tally == Tally(gradients=4)
    assert found.value == 1.5
    assert check(answer(value="not looked at"), evaluated=False).value is None


F32 = np.float32
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no list": ({"upload": np.ones((1, 2, 3), F32)}, "not an upload: it must have the field dz"),
    "too many": ({"upload": [np.ones((2, 3), F32)] * 2}, "not an upload: it must have the field"),
    "no draft": ({"draft": []}, "not a draft: it must have the field x"),
    "clients": ({"upload": [np.ones((3, 3), F32)]}, r"dz of shape \(3, 3\), not \(2, 3\)"),
    "length": ({"draft": [np.ones((2, 4), F32)]}, r"x of shape \(2, 4\), not \(2, 3\)"),
    "a number": ({"upload": [1.0]}, r"dz that is 1.0, not an array of shape \(2, 3\)"),
    "objects": ({"upload": [np.full((2, 3), None)]}, "dz in object, not float32"),
    "dtype": ({"upload": [np.ones((2, 3))]}, "dz in float64, not float32"),
    "nan": ({"upload": [np.full((2, 3), np.nan, F32)]}, "dz that is not finite"),
    "inf": ({"draft": [np.full((2, 3), np.inf, F32)]}, "x that is not finite"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_poison_the_model_is_refused(name: str) -> None:
    wrong, says = WRONG[name]
    with pytest.raises(SiteError, match=f"^{WHERE} .*{says}|^{WHERE} {says}"):
        check(answer(**wrong))


COUNTS = answer()["tally"]
UNREADABLE: dict[str, tuple[dict[str, Any], str]] = {
    "another count": ({"tally": {**COUNTS, "coffee": 3}}, "its tally has the text 'coffee'"),
    "no tally": ({"tally": None}, "tally is None, and must be a dictionary"),
    "less than none": (
        {"tally": {**COUNTS, "gradients": -1}},
        r"tally\['gradients'\] is -1, not a",
    ),
    "too many": (
        {"tally": {**COUNTS, "exact": 10**18}},
        r"tally\['exact'\] is 1,000,000,000,000,000,000, not",
    ),
    "a fraction": ({"tally": {**COUNTS, "values": 0.5}}, r"tally\['values'\] is 0.5, not a whole"),
    "no residual": (
        {"tally": {**COUNTS, "error": np.nan}},
        r"tally\['error'\] is nan, not a number",
    ),
    "text": ({"value": "much"}, "its 'value' is the text 'much', not a number"),
    "list": ({"value": [1.0, 2.0]}, "its 'value' is a list of 2, not a number"),
    "none": ({"value": None}, "its 'value' is None, not a number"),
    "nan": ({"value": np.nan}, "its 'value' is nan, not a number"),
    "beyond floats": ({"value": 10**400}, "its 'value' is a whole number of 1,329 bits, not a num"),
    "two arrays": ({"shown": [np.ones(2)] * 2}, "its 'shown' is a list of 2, not None, or three"),
    "of others": ({"shown": [np.ones(3)] * 3}, r"its shown\[0\] is an array of float64 of shape"),
    "infinite": ({"shown": [np.full(2, np.inf)] * 3}, "its 'shown' is a list of 3, not None, or"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_names_the_site(name: str) -> None:
    wrong, says = UNREADABLE[name]
    with pytest.raises(SiteError, match=f"^site ana gave an answer to 'round' .*{says}"):
        check(answer(**wrong))


def test_what_gradients_have_shown_may_be_unknown() -> None:
    shown = check(answer(shown=[np.array([1.0, np.nan])] * 3)).shown
    assert shown is not None
    np.testing.assert_array_equal(shown[2], [1.0, np.nan])


def test_a_number_in_a_draft_must_be_of_its_type() -> None:
    """A draft of an adapting method has a slot, which is a whole number for all clients."""
    shapes = Shapes.of(
        Adaptive(pdmm.PDMM(2.0), True, True, 1e-16), np.zeros(3), np.dtype(np.float64)
    )
    rows = [np.repeat(field, 2, axis=0) for field in shapes.upload]
    draft = [
        np.repeat(field, 2, axis=0) if isinstance(field, np.ndarray) else field
        for field in shapes.draft
    ]
    check(answer(upload=rows, draft=draft), shapes)
    kind = type(shapes.draft.slot).__name__
    with pytest.raises(SiteError, match=f"slot of type str, not {kind}"):
        check(answer(upload=rows, draft=[*draft[:-1], "0"]), shapes)
    with pytest.raises(SiteError, match="slot that is -1, not a number from 0"):
        check(answer(upload=rows, draft=[*draft[:-1], -1]), shapes)
