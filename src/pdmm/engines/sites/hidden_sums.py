"""The server's side of secure sums: it asks a set of sites, adds up, and reads the sum alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pdmm.engines.secure.cost import mask_bytes, part_bytes
from pdmm.engines.secure.layout import Layout, Vector
from pdmm.engines.secure.scales import MOST_TRIES, AllScales, Scales
from pdmm.engines.secure.words import Words, unpacked, words_of
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Payload, Roster, SiteError
from pdmm.engines.sites.seal import LEAST_SITES, signed_bytes
from pdmm.engines.traffic import Sent

SEVERAL = (
    f"secure sums need at least {LEAST_SITES} organisations, for of two each knows the other's "
    "part by subtraction"
)


COUNTED = ("gradient", "curvature", "diagonal")
"""Questions outside of rounds whose bytes are in the history; a round counts its own."""


class Sealed(NamedTuple):
    """A site's masked answer."""

    words: Words
    signature: str


class HiddenSums:
    """Sums over sites whose parts are masked.

    Args:
        roster: the sites.
        addends: how many parts a sum has at most: one for each client, or each site.
    """

    def __init__(self, roster: Roster, addends: int) -> None:
        self.roster = roster
        self.addends = addends
        self.keys: dict[str, Any] = {}
        """The public keys with which answers are signed, by site; without, nobody checks here."""
        self.counter = 0
        self.sent = Sent()
        """What the questions outside of rounds took, and nobody has counted yet."""
        self._scales = AllScales(addends)

    def begin(self, statements: list[dict[str, str]]) -> None:
        """A run begins, of sites that have said by which keys they sign."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        self.keys = {}
        for said in statements:
            try:
                key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"]))
            except (KeyError, ValueError):
                name = said.get("name")
                raise SiteError(f"site {name} says nothing of the key by which it signs") from None
            self.keys[said["name"]] = key
        self.counter = 0
        self._scales = AllScales(self.addends)

    def scales(self, kind: str, layout: Layout) -> Scales:
        """The scales of a kind of sum, as they are by now."""
        return self._scales.of(kind, layout)

    def beside(self) -> Sent:
        """What was sent outside of rounds since this was asked for last."""
        sent = self.sent
        self.sent = Sent()
        return sent

    def mask(self, names: list[str], scales: Scales) -> Payload:
        """What a question says of its sum; each question has a number of its own."""
        self.counter += 1
        return {
            "counter": self.counter,
            "set": sorted(names),
            "scales": scales.k,
            "long": scales.long,
            "addends": self.addends,
        }

    def read(self, reply: Reply, mask: Payload, layout: Layout) -> Sealed | None:
        """A site's masked answer; None if it is one to another question."""
        if reply.whole("counter", 0, 2**62) != mask["counter"]:
            return None
        size = words_of(layout.size, len(mask["set"]), mask["long"])
        words = np.asarray(reply.fields.get("words"))
        if words.dtype != np.uint64 or words.shape != (size,):
            reply.refuse("words", f"an array of {size:,} whole numbers of 64 bits")
        sealed = Sealed(words, reply.text("signature"))
        if self.keys:
            self._check(reply.site, mask, sealed)
        return sealed

    def _check(self, site: str, mask: Payload, sealed: Sealed) -> None:
        from base64 import b64decode

        from cryptography.exceptions import InvalidSignature

        signed = signed_bytes(b"", mask["counter"], tuple(mask["set"]), sealed.words)
        try:
            self.keys[site].verify(b64decode(sealed.signature), signed)
        except (KeyError, ValueError, InvalidSignature):
            raise SiteError(
                f"what arrived of site {site} is not what it has signed: a message was changed or "
                "repeated on its way, and its sum is not read"
            ) from None

    def total(self, answers: Mapping[str, Sealed], mask: Payload, scales: Scales) -> Vector | None:
        """The sum, or None where it must be asked for again, at the scales as they are then."""
        names = mask["set"]
        total = answers[names[0]].words.copy()
        for name in names[1:]:
            np.add(total, answers[name].words, out=total)
        try:
            read = unpacked(total, scales.layout.size, len(names), mask["long"])
        except ValueError as error:
            raise SiteError(f"{error}. The sum is not read, and the run ends") from None
        return scales.take(read)

    def ask(
        self, verb: str, payloads: Mapping[str, Payload], layout: Layout
    ) -> dict[str, Vector] | None:
        """Sums over all of these sites; None if one of them does not answer.

        Args:
            verb: of the question.
            payloads: for each site.
            layout: what the sum is of.
        """
        scales = self.scales(verb, layout)
        for _ in range(MOST_TRIES):
            mask = self.mask(list(payloads), scales)
            asked = {name: {**payload, "mask": mask} for name, payload in payloads.items()}
            answers = self.roster.ask(verb, asked)
            if verb in COUNTED:
                self._count(mask, layout, len(asked), len(answers))
            sealed: dict[str, Sealed] = {}
            for name, answer in answers.items():
                one = self.read(Reply(name, verb, answer), mask, layout)
                if one is not None:
                    sealed[name] = one
            if len(sealed) < len(payloads):
                return None
            found = self.total(sealed, mask, scales)
            if found is not None:
                return layout.arrays(found)
        raise not_scaled(verb)

    def _count(self, mask: Payload, layout: Layout, asked: int, answered: int) -> None:
        names = mask["set"]
        down = mask_bytes(names, layout.size)
        up = part_bytes(layout.size, len(names), mask["long"])
        sent = Sent(vectors_up=answered, bytes_down=asked * down, bytes_up=answered * up)
        self.sent = self.sent.plus(sent)


def not_scaled(verb: str) -> SiteError:
    """The error where no scale fits what sites say."""
    return SiteError(
        f"what the sites say to {verb!r} fits no scale: their numbers differ too much from one "
        "question to the next. Scale the columns of the data, or take secure=False"
    )
