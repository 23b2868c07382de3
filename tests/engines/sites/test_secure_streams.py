"""Masks of secure sums: each question has streams of its own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import pdmm
from builders.hostile import METHOD, SITES, THREE
from builders.sites import Payload
from pdmm.common.packing import pack
from pdmm.engines.secure.words import Read
from pdmm.engines.sites.seal import SealedSums
from pdmm.privacy.membership import Membership
from pdmm.privacy.streams import Streams

ADDENDS = 6  # of three sites with one client each
Change = Callable[[Payload], Any]


def agreed(names: Any = THREE) -> Membership:
    """A site's part in a run of several."""
    members = {name: Membership(None) for name in names}
    statements = [member.join("run", name) for name, member in members.items()]
    for member in members.values():
        member.agree(statements, {"rounds": 3})
    return members["ana"]


def stream(membership: Membership, verb: str, payload: Payload, about: Any, base: bytes) -> Any:
    """What a site adds to a part of nothing, as if it were the first question of a run."""
    sums = SealedSums(membership, lambda among: None, 9, lambda said: None)
    seal = sums.seal(verb, payload, about, base)
    size = len(payload["mask"]["scales"])
    nothing = Read(np.zeros(size, dtype=np.int64), np.full(size, -1))
    return seal.sealed(nothing, {})["words"]


def question() -> Payload:
    return {
        "round": 2,
        "method": pack(METHOD, {}, "method"),
        "message": [np.zeros(4), 1.0],
        "evaluate": True,
        "variables": None,
        "have": {"ana": "1.a", "ben": "1.a", "cyd": "1.a"},
        "mask": {
            "counter": 7,
            "set": ["ana", "ben", "cyd"],
            "scales": np.full(6, 40, dtype=np.int16),
            "long": False,
            "addends": ADDENDS,
        },
    }


def in_mask(**changes: Any) -> Change:
    return lambda payload: payload["mask"].update(changes)


CHANGES: dict[str, Change] = {
    "x": lambda payload: payload["message"][0].__setitem__(2, 1e-300),
    "round": lambda payload: payload.update(round=3),
    "method": lambda payload: payload.update(method=pack(pdmm.PDMM(2.0), {}, "method")),
    "evaluate": lambda payload: payload.update(evaluate=np.ones(4)),
    "variables": lambda payload: payload.update(variables={"kind": "Scaled"}),
    "memory of another": lambda payload: payload["have"].update(ben="0."),
    "counter": in_mask(counter=8),
    "set": in_mask(set=["ana", "ben", "cyd", "dan"]),
    "scales": in_mask(scales=np.full(6, 41, dtype=np.int16)),
    "levels": in_mask(long=True),
    "addends": in_mask(addends=ADDENDS + 1),
}


@pytest.mark.parametrize("part", [*CHANGES, "verb", "variables of the run", "history", "keys"])
def test_no_two_questions_share_a_stream(part: str) -> None:
    """Two answers under one stream would show the difference of two parts."""
    membership = agreed(SITES)
    verb, payload, about, base = "round", question(), "", b"1"
    before = stream(membership, verb, payload, about, base)
    assert (stream(membership, verb, payload, about, base) == before).all()
    if part == "verb":
        verb = "value"
    elif part == "variables of the run":
        about = "scaled"
    elif part == "history":
        base = b"2"
    elif part == "keys":
        membership = agreed(SITES)
    else:
        CHANGES[part](payload)
    after = stream(membership, verb, payload, about, base)
    length = min(len(before), len(after))
    assert (before[:length] != after[:length]).all()


def test_runs_of_other_terms_share_no_stream() -> None:
    key = X25519PrivateKey.generate()
    others = {"ben": X25519PrivateKey.generate().public_key()}
    first, second = (Streams("ana", key, others, terms) for terms in (b"1", b"2"))
    words = np.zeros((2, 50), dtype=np.uint64)
    first.hide(words[0], ("ana", "ben"), 1, b"question")
    second.hide(words[1], ("ana", "ben"), 1, b"question")
    assert (words[0] != words[1]).all()
