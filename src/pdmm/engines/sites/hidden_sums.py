"""The server's side of secure sums: it asks a set of sites, adds up, and reads the sum alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pdmm.engines.secure.cost import mask_bytes, part_bytes
from pdmm.engines.secure.layout import Layout, Vector
from pdmm.engines.secure.scales import MOST_TRIES, AllScales, Scales
from pdmm.engines.secure.words import Words, unpacked, words_of
from pdmm.engines.sites.limits import STRAYS
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Payload, Roster, SiteError
from pdmm.engines.sites.seal import LEAST_SITES, START, hash_of_clear, signed_bytes
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
    base: bytes
    """A hash of all that went before, where the sites compute x."""
    clear: str
    """A hash of what the site tells beside."""
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
        """The public keys with which answers are signed, by site."""
        self.counter = 0
        self.memories: dict[str, str] = {}
        """The name of what each site remembers, once it has taken part in a round."""
        self.strays: dict[str, int] = {}
        """Answers in a row that belong to another question."""
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
        self.memories = {}
        self.strays = {}
        self._scales = AllScales(self.addends)

    def have(self, names: list[str]) -> dict[str, str]:
        """What a set of sites is to remember, as each of them is told."""
        return {name: self.memories.get(name, START) for name in sorted(names)}

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
            self._stray(reply)
            return None
        self.strays.pop(reply.site, None)
        size = words_of(layout.size, len(mask["set"]), mask["long"])
        words = np.asarray(reply.fields.get("words"))
        if words.dtype != np.uint64 or words.shape != (size,):
            reply.refuse("words", f"an array of {size:,} whole numbers of 64 bits")
        sealed = Sealed(
            words, self._base(reply), hash_of_clear(reply.fields), reply.text("signature")
        )
        self._check(reply.site, mask, sealed)
        return sealed

    def _base(self, reply: Reply) -> bytes:
        try:
            return bytes.fromhex(reply.text("base"))
        except ValueError:
            reply.refuse("base", "a hash")

    def _stray(self, reply: Reply) -> None:
        """An answer to another question is as good as none, but not for ever."""
        self.strays[reply.site] = self.strays.get(reply.site, 0) + 1
        if self.strays[reply.site] >= STRAYS:
            raise SiteError(
                f"site {reply.site} answered {STRAYS} questions in a row with the answer to "
                f"another one, the last of them {reply.verb!r}: its process should be started again"
            )

    def _check(self, site: str, mask: Payload, sealed: Sealed) -> None:
        from base64 import b64decode

        from cryptography.exceptions import InvalidSignature

        among = tuple(mask["set"])
        signed = signed_bytes(sealed.base, mask["counter"], among, sealed.words, sealed.clear)
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
