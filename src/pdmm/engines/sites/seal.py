"""What hides a site's parts of sums: each leaves under masks that only the sum over sites removes.

A question of a secure run says which sites it is put to, its number, at which scales each number
is sent, and what each site of the set remembers. The mask depends on all of that and on the whole
question: sites that were asked different things do not cancel, and no two questions share a mask.

What a site remembers of a round is named after the question that it answered, which itself names
what all sites remembered before. So sites with different histories do not cancel either.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdmm.engines.secure.layout import Layout
from pdmm.engines.secure.scales import MOST_TRIES, Powers, doubted
from pdmm.engines.secure.words import FURTHEST, Read, capacity, encoded, packed
from pdmm.privacy.questions import hash_of
from pdmm.privacy.refusals import Reason

if TYPE_CHECKING:
    from pdmm.privacy.membership import Membership

Payload = dict[str, Any]

LEAST_SITES = 3  # of two, each knows the other's part by subtraction
OWN = ("news", "mask")
"""Of a question, what is hashed apart: news by the history that follows from it."""
START = "0."
"""The name of what a site remembers before its first round."""
MOST_SCALES = 2 * MOST_TRIES
"""Scales at which one answer may be asked for: each time, the counts of a sum tell how large parts
are."""
MASKED = ("counter", "base", "words", "signature")
"""Of a masked answer, all but what is told in the clear."""


class Mask(NamedTuple):
    """What a question says of the sum that its answers are for."""

    counter: int
    among: tuple[str, ...]
    """The sites of the set, in order."""
    scales: Powers
    long: bool
    addends: int

    @classmethod
    def read(cls, said: Any) -> "Mask":
        """A mask of a question, refused where it is none."""
        try:
            among = tuple(map(str, said["set"]))
            mask = cls(
                counter=int(said["counter"]),
                among=among,
                scales=np.asarray(said["scales"]),
                long=said["long"] is True,
                addends=int(said["addends"]),
            )
        except (KeyError, TypeError, ValueError):
            raise Reason("a question does not say which sum its answers are for") from None
        if list(among) != sorted(set(among)) or not 1 <= mask.addends <= 2**40:
            raise Reason("a question does not say which sum its answers are for")
        if mask.scales.dtype != np.int16 or mask.scales.ndim != 1:
            raise Reason("the scales of a sum are none")
        if mask.scales.size and np.abs(mask.scales.astype(np.int64)).max() > FURTHEST:
            raise Reason("the scales of a sum are none")
        return mask


class Seal:
    """Masks one answer.

    Args:
        sums: of the site, which know what was masked before.
        mask: what the question says of its sum.
        question: a hash of the whole question.
        base: what a signature of the answer covers besides.
    """

    def __init__(self, sums: "SealedSums", mask: Mask, question: bytes, base: bytes) -> None:
        self.sums = sums
        self.mask = mask
        self.question = question
        self.base = base
        self.used = False
        self.digest = ""
        """What tells the answer from others, whatever else the question says."""

    @property
    def name(self) -> str:
        """The name of what the clients remember of the answer."""
        return f"{self.mask.counter}.{self.question.hex()}"

    @property
    def room(self) -> int:
        """Bits that there are for each part."""
        return capacity(self.mask.addends)

    def check_layout(self, layout: Layout) -> None:
        """Refuse scales that are those of another sum."""
        if layout.size != self.mask.scales.size:
            said = f"a sum of {self.mask.scales.size} numbers is asked for, and the answer has"
            raise Reason(f"{said} {layout.size}")

    def sealed(self, part: Read, clear: Mapping[str, Any]) -> Payload:
        """The site's part, which is none without those of all others, and what it tells beside."""
        self.used = True
        return self.sums.sealed(self, part, clear)

    def of_arrays(self, reply: Mapping[str, Any]) -> tuple[Payload, int]:
        """The parts of an answer that are arrays or numbers, and how many numbers they are."""
        arrays = reply.get("sums", reply)
        if not isinstance(arrays, Mapping):
            arrays = {"sums": arrays}
        layout = Layout.of_shapes({name: np.shape(value) for name, value in arrays.items()})
        self.check_layout(layout)
        k = self.mask.scales
        flat = layout.flat(doubted(arrays, layout, k))
        part = encoded(flat[None], k, self.room, self.mask.long).part
        return self.sealed(part, {}), layout.size


class SealedSums:
    """A site's masks in one run.

    Args:
        membership: who takes part, and the secrets that they share.
        check_set: refuses a set of sites that the policy does not allow, by their names.
        max_changes: how often the set may change.
        note: writes into the audit that the set has changed.
    """

    def __init__(
        self,
        membership: "Membership",
        check_set: Callable[[tuple[str, ...]], None],
        max_changes: int,
        note: Callable[[str], None],
    ) -> None:
        self.membership = membership
        self.own = membership.statement["name"]
        self.check_set = check_set
        self.max_changes = max_changes
        self.note = note
        self.changes = 0
        self.present: tuple[str, ...] | None = None
        self._streams = membership.streams()
        self._counter = 0
        self._question = b""
        self._kept: Payload | None = None
        self._scales: dict[str, set[bytes]] = {}
        """At which scales each answer was asked for."""

    def seal(self, verb: str, payload: Payload, about: Any, base: bytes) -> Seal:
        """What will mask the answer to a question.

        Args:
            verb: of the question.
            payload: the question.
            about: what else the answer depends on, the same at each site.
            base: a hash of all that went before, which a signature covers besides.
        """
        mask = Mask.read(payload.get("mask"))
        common = {name: value for name, value in payload.items() if name not in OWN}
        question = hash_of(verb, common, about, base, list(mask))
        if mask.counter < self._counter:
            raise Reason(f"question {mask.counter} comes after question {self._counter}")
        if mask.counter == self._counter and question != self._question:
            raise Reason(f"question {mask.counter} is asked twice, about different things")
        self._check_set(mask.among)
        self._count_change(mask.among)
        if mask.counter > self._counter:
            self._counter = mask.counter
            self._question = question
            self._kept = None
        return Seal(self, mask, question, base)

    def _check_set(self, among: tuple[str, ...]) -> None:
        strangers = set(among) - set(self.membership.parties)
        if strangers or self.own not in among:
            raise Reason("a sum is asked for over sites that do not take part")
        if len(among) < LEAST_SITES:
            said = f"a sum over {len(among)} sites is asked for, and of fewer than {LEAST_SITES}"
            raise Reason(f"{said} each knows the parts of the others", counts=False)
        self.check_set(among)

    def _check_scales(self, seal: Seal) -> None:
        tried = self._scales.setdefault(seal.digest, set())
        tried.add(hash_of(seal.mask.scales))
        if seal.digest and len(tried) > MOST_SCALES:
            raise Reason(f"a sum is asked for at more than {MOST_SCALES} scales")

    def _count_change(self, among: tuple[str, ...]) -> None:
        """The difference of the sums over two sets is the part of those that are in one only."""
        before = self.present
        self.present = among
        if before is None or before == among:
            return
        self.changes += 1
        if self.changes > self.max_changes:
            said = f"the sites of the sums changed more than {self.max_changes} times"
            raise Reason(said, counts=False)
        self.note(f"sums are over {', '.join(among)} from here on")

    def sealed(self, seal: Seal, part: Read, clear: Mapping[str, Any]) -> Payload:
        """A masked answer; the same one again for the same question."""
        if self._kept is None:
            self._check_scales(seal)
            mask = seal.mask
            words = packed(part, len(mask.among), mask.long)
            self._streams.hide(words, mask.among, mask.counter, seal.question)
            signed = signed_bytes(seal.base, mask.counter, mask.among, words, hash_of_clear(clear))
            self._kept = {
                **clear,
                "counter": mask.counter,
                "base": seal.base.hex(),
                "words": words,
                "signature": self.membership.sign(signed),
            }
        return dict(self._kept)


def addends_of(weights: Mapping[str, Any]) -> int:
    """How many parts a sum has at most: one for each client, and one beside them for each site."""
    return sum(len(own) for own in weights.values()) + len(weights)


def signed_bytes(
    base: bytes, counter: int, among: tuple[str, ...], words: Any, clear: str
) -> bytes:
    """What a site signs of its masked answer; ``clear`` is a hash of what it tells beside."""
    return hash_of("sum", base, counter, list(among), words, clear)


def hash_of_clear(fields: Mapping[str, Any]) -> str:
    """A hash of what a masked answer tells in the clear."""
    return hash_of({name: value for name, value in fields.items() if name not in MASKED}).hex()


def check_memories(have: Any, own: str, mask: Mask, before: tuple[str, ...]) -> None:
    """Refuse a round for which not all who made a sum together remember it.

    Whoever could have one site go on and the others stay would have the same sum twice, but for
    that site's part. A site may know more than this one, of a sum without it.

    Args:
        have: what the server says that each site of the set remembers.
        own: the name of this site.
        mask: of the question.
        before: the sites of the sum that this one remembers.
    """
    for other in set(before) & set(mask.among) - {own}:
        if have[other] != have[own] and _number(have[other]) <= _number(have[own]):
            raise Reason(f"site {other} is said to have forgotten a sum that it was a part of")


def memory_of(payload: Payload, own: str, mask: Mask) -> str:
    """The name of what a site is to remember, by a question that says so of the whole set."""
    have = payload.get("have")
    if not isinstance(have, Mapping) or sorted(have) != list(mask.among):
        raise Reason("a round does not say what the sites of its sum remember")
    return str(have[own])


def _number(name: Any) -> int:
    """Of the question that a memory is named after."""
    number, _, _ = str(name).partition(".")
    if not number.isdecimal():
        raise Reason(f"no memory is called {name!r}")
    return int(number)
