"""A site's answer: checked before anything of it gets into the model."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.engines.client_round import Shapes
from pdmm.engines.sites.answers import check_answer, draft_of, upload_of
from pdmm.engines.sites.roster import SiteError
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.family import Upload
from pdmm.methods.gpdmm import Draft

SHAPES = Shapes.of(pdmm.GPDMM(0.5, 2), np.zeros(3), np.dtype(np.float32))
WHERE = "site ana returned, in round 7,"


def answer(**other: Any) -> dict[str, Any]:
    """A good one, of a site with two clients."""
    return {
        "upload": [np.ones((2, 3), np.float32)],
        "draft": [np.zeros((2, 3), np.float32)],
        "tally": {"gradients": 4, "values": 0, "exact": 0, "error": 0.0, "missed": 0.0},
        "value": 1.5,
        **other,
    }


def check(given: dict[str, Any], shapes: Shapes = SHAPES) -> None:
    check_answer(given, shapes, WHERE, 2)


def test_a_good_answer_is_taken_apart() -> None:
    good = answer()
    check(good)
    check(answer(value=None))
    upload, draft = upload_of(good, SHAPES), draft_of(good, SHAPES)
    assert isinstance(upload, Upload)
    assert isinstance(draft, Draft)
    assert upload.dz is good["upload"][0]
    assert draft.x is good["draft"][0]


F32 = np.float32
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no list": ({"upload": np.ones((1, 2, 3), F32)}, "not an upload: it must have the field dz"),
    "too many": ({"upload": [np.ones((2, 3), F32)] * 2}, "not an upload: it must have the field"),
    "no draft": ({"draft": []}, "not a draft: it must have the field x"),
    "clients": ({"upload": [np.ones((3, 3), F32)]}, r"dz of shape \(3, 3\), not \(2, 3\)"),
    "length": ({"draft": [np.ones((2, 4), F32)]}, r"x of shape \(2, 4\), not \(2, 3\)"),
    "a number": ({"upload": [1.0]}, r"dz of shape \(\), not \(2, 3\)"),
    "dtype": ({"upload": [np.ones((2, 3))]}, "dz in float64, not float32"),
    "nan": ({"upload": [np.full((2, 3), np.nan, F32)]}, "dz that is not finite"),
    "inf": ({"draft": [np.full((2, 3), np.inf, F32)]}, "x that is not finite"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_poison_the_model_is_refused(name: str) -> None:
    wrong, says = WRONG[name]
    with pytest.raises(SiteError, match=f"^{WHERE} .*{says}|^{WHERE} {says}"):
        check(answer(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [{"tally": {"coffee": 3}}, {"tally": None}, {"value": "much"}, {"value": [1.0, 2.0]}],
    ids=["tally", "no tally", "text", "list"],
)
def test_what_cannot_be_read_raises(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        check(answer(**wrong))


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
