"""A run that a site has agreed to, and one question of it: what it was, and what it told."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Payload = dict[str, Any]


@dataclass
class Study:
    """A run that a site has agreed to take part in."""

    run: str
    by: str
    x0: Vector
    weights: Vector
    rounds: int
    verified: bool = False
    """Whether the sites compute x themselves."""
    secure: bool = False
    """Whether parts of sums leave inside masks alone."""
    name: str = ""
    """Of the study that the run is a part of, if it has one."""
    seed: int = 0
    """Of the random choices of the sites' clients."""
    first: int = 0
    """The number of the site's first client among all clients of the run."""
    asked: dict[int, str] = field(default_factory=dict)
    """What was asked in the rounds that were answered."""
    variables: str = ""
    """Which other variables the run is about, if any."""
    confirmed: bool = False
    """Whether all sites have signed the same terms, where they sign any."""
    closed: bool = False
    """Whether a question was refused, and no other will be answered."""
    spent: bool = False
    """Whether all that may leave has left."""


class Question:
    """A question while it is being answered.

    Args:
        verb: what is asked.
    """

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.round: int | None = None
        self.digest = ""  # tells it from all other questions
        self.reply: Payload = {}
        self.numbers: int | None = None  # that the reply tells; all in it, if not said
        self.seal: Any = None  # what masks the reply, in a run with secure sums
        self.started = time.monotonic()


def numbers_in(reply: Any) -> int:
    """How many numbers a reply tells; counts and names are none."""
    if isinstance(reply, np.ndarray):
        return int(reply.size)
    if isinstance(reply, float | np.floating):
        return 1
    if isinstance(reply, Mapping):
        return sum(numbers_in(part) for part in reply.values())
    if isinstance(reply, list | tuple):
        return sum(numbers_in(part) for part in reply)
    return 0


def digest_of(*parts: Any) -> str:
    """What tells equal questions from others."""
    return _digested(hashlib.blake2b(digest_size=12), parts).hex()


def hash_of(*parts: Any) -> bytes:
    """The same, of a length at which nobody finds two questions that have one."""
    return _digested(hashlib.sha256(), parts)  # for which processors have instructions


def _digested(digest: Any, parts: Any) -> bytes:
    for part in parts:
        _feed(digest, part)
    return bytes(digest.digest())


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).data)
    elif isinstance(part, Mapping):
        digest.update(f"{{{len(part)}}}".encode())
        for key in sorted(part):
            digest.update(f"<{key!r}>".encode())
            _feed(digest, part[key])
    elif isinstance(part, list | tuple):
        digest.update(f"[{len(part)}]".encode())
        for piece in part:
            _feed(digest, piece)
    else:
        digest.update(f"|{part!r}|".encode())
