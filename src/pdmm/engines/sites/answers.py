"""A site's answer to a round: checked before anything of it gets into the model."""

from typing import Any, NamedTuple

import numpy as np

from pdmm.common import trees
from pdmm.engines.client_round import Shapes
from pdmm.engines.sites.limits import LARGEST, MOST_CALLS
from pdmm.engines.sites.reading import Reply, Vector, told
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.told_sums import read_value
from pdmm.methods.line_search import HUGE
from pdmm.problems.block import Tally

LARGEST_NUMBER = 2**31  # of those that a draft has beside its arrays


class Answer(NamedTuple):
    """What a site's clients did in a round."""

    upload: Any
    """Those of its clients, one row each."""
    draft: Any
    tally: Tally
    value: float | None
    """The sum of f_i where F was wanted; None where it was not."""
    shown: list[Vector] | None
    """What gradients have shown of L and mu, where they are watched."""
    signature: str = ""
    """Of the uploads, where the sites compute x."""


def read_answer(
    reply: Reply, shapes: Shapes, r: int, clients: int, evaluated: bool, signed: bool = False
) -> Answer:
    """Take an answer apart; refuse what would poison the model.

    Args:
        reply: of the site.
        shapes: what the method's messages look like.
        r: the round.
        clients: how many the site has.
        evaluated: whether F was wanted.
        signed: whether the sites compute x, and sign what they send each other.
    """
    where = f"site {reply.site} returned, in round {r},"
    parts = (("upload", "an upload", shapes.upload), ("draft", "a draft", shapes.draft))
    for part, named, like in parts:
        if part == "draft" and signed:  # the server keeps no memory that it could bring up to date
            continue
        if part not in reply.fields:
            reply.refuse(part, "a list")
        _check_part(where, reply.fields[part], named, like, clients)
    return Answer(
        upload=trees.build(shapes.upload, reply.fields["upload"]),
        draft=None if signed else trees.build(shapes.draft, reply.fields["draft"]),
        tally=_tally(reply.within("tally")),
        value=read_value(reply) if evaluated else None,
        shown=read_shown(reply, clients) if reply.has("shown") else None,
        signature=reply.text("signature") if signed else "",
    )


def _check_part(where: str, fields: Any, named: str, like: Any, clients: int) -> None:
    if not isinstance(fields, list) or len(fields) != len(like):
        raise SiteError(
            f"{where} {told(fields)}, which is not {named}: it must have {_listed(like._fields)}"
        )
    exact = getattr(type(like), "EXACT", ())
    for field, kind, name in zip(fields, like, like._fields, strict=True):
        # A method that looks along a line says HUGE of a value that is too large to be told.
        largest = HUGE if name in exact else LARGEST
        _check_field(f"{where} {name}", field, kind, clients, largest)


def _listed(names: tuple[str, ...]) -> str:
    """The fields of a message, in words."""
    if not names:
        return "no fields"
    return f"the field{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _check_field(what: str, field: Any, like: Any, clients: int, largest: float) -> None:
    if not isinstance(like, np.ndarray):
        _check_number(what, field, like)
        return
    wanted = (clients, *like.shape[1:])
    if not isinstance(field, np.ndarray):
        raise SiteError(f"{what} that is {told(field)}, not an array of shape {wanted}")
    if field.shape != wanted:
        raise SiteError(f"{what} of shape {field.shape}, not {wanted}")
    if field.dtype != like.dtype:
        raise SiteError(f"{what} in {field.dtype}, not {like.dtype}")
    if not np.isfinite(field).all():
        raise SiteError(
            f"{what} that is not finite: something is wrong with its data or its functions, "
            "or the step size is too large"
        )
    if field.size and float(np.abs(field).max()) > largest:
        raise SiteError(
            f"{what} with numbers as large as {float(np.abs(field).max()):.3g}, and at most "
            f"{largest:g} is taken: something is wrong with its data or its functions, or the step "
            "size is too large"
        )


def _check_number(what: str, field: Any, like: Any) -> None:
    """Of a number that is the same for all clients, such as the place of something kept."""
    if type(field) is not type(like):
        raise SiteError(f"{what} of type {type(field).__name__}, not {type(like).__name__}")
    if not 0 <= field < LARGEST_NUMBER:
        raise SiteError(f"{what} that is {told(field)}, not a number from 0 to {LARGEST_NUMBER:,}")


def _tally(reply: Reply) -> Tally:
    """What the clients were asked for: counts, and how exact their exact steps were."""
    names = set(vars(Tally()))
    for other in set(reply.fields) - names:
        raise SiteError(
            f"site {reply.site} gave an answer to {reply.verb!r} that cannot be read: its tally "
            f"has {told(other)}, and must have {', '.join(sorted(names))}"
        )
    return Tally(
        gradients=reply.whole("gradients", 0, MOST_CALLS),
        values=reply.whole("values", 0, MOST_CALLS),
        exact=reply.whole("exact", 0, MOST_CALLS),
        error=reply.number("error", 0.0),
        missed=reply.number("missed", 0.0),
    )


def read_shown(reply: Reply, clients: int) -> list[Vector]:
    """Three arrays with one number for each client; NaN where nothing has been shown."""
    must = f"None, or three arrays of {clients:,} numbers, finite or NaN"
    given = reply.fields["shown"]
    if not isinstance(given, list) or len(given) != 3:
        reply.refuse("shown", must)
    named = Reply(reply.site, reply.verb, dict(enumerate(given)), "shown")
    found = [named.array(k, (clients,)) for k in range(3)]
    for numbers in found:
        if np.isinf(numbers).any():
            reply.refuse("shown", must)
    return found
