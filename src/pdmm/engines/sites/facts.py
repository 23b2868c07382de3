"""What a site says of itself when it is first asked, and what all sites must have in common."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.limits import MOST_CLIENTS, MOST_DIGESTS, MOST_ENTRIES, MOST_NUMBERS
from pdmm.engines.sites.own_start import check_starts
from pdmm.engines.sites.reading import Reply, is_name, told
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.told_parameters import Parameters, check_parameters, read_parameters

DTYPES = ("float64", "float32")


class Facts(NamedTuple):
    """A site's problem, as far as the server is told of it."""

    clients: int
    dimension: int
    dtype: str
    proven: bool
    """Whether the constants that it states are more than estimates."""
    reveals: str
    """How much its clients tell of their Hessians, as the site's policy has it."""
    reveals_in_sums: str
    """The same where sums are secure."""
    organisation: str | None
    """Whose site it is, by its certificate; the other sites check it."""
    identified: bool
    """Whether it has a certificate, and asks the other sites for theirs."""
    per_site: bool
    """Whether a result may say anything of it alone."""
    likelihood: bool
    intercepts: npt.NDArray[np.int64] | None
    """For each entry of x, which entry is its intercept."""
    convex: bool
    """Whether its functions are meant to be convex."""
    start: str | None
    """A digest of where its model starts; None where that is 0."""
    parameters: Parameters | None
    """Names and shapes of the model's parameters; None where x is no model's."""
    alike: dict[str, str | None]
    """Digests of what must be the same at all sites, such as the names of the columns."""


def read_facts(reply: Reply) -> Facts:
    """A site's answer to "hello", checked."""
    clients = reply.whole("clients", 1, MOST_CLIENTS)
    dimension = reply.whole("dimension", 1, MOST_ENTRIES)
    if clients > 1 and clients * dimension > MOST_NUMBERS:
        raise SiteError(
            f"site {reply.site} has {clients:,} clients and {dimension:,} entries of x, "
            f"{clients * dimension:,} numbers in all, and at most {MOST_NUMBERS:,} are taken from "
            "a site of several clients: let it have fewer clients"
        )
    return Facts(
        clients=clients,
        dimension=dimension,
        dtype=reply.text("dtype", DTYPES),
        proven=reply.flag("proven"),
        reveals=reply.text("reveals", ("none", "diagonal", "full")),
        reveals_in_sums=reply.text("reveals_in_sums", ("none", "diagonal", "full")),
        organisation=reply.text("organisation") if reply.has("organisation") else None,
        identified=reply.flag("identified"),
        per_site=reply.flag("per_site"),
        likelihood=reply.flag("likelihood"),
        intercepts=_intercepts(reply, dimension),
        convex=reply.flag("convex"),
        start=reply.text("start") if reply.has("start") else None,
        parameters=read_parameters(reply, dimension),
        alike=_digests(reply),
    )


def _intercepts(reply: Reply, dimension: int) -> npt.NDArray[np.int64] | None:
    if not reply.has("intercepts"):
        return None
    must = f"None, or an array of {dimension:,} whole numbers from 0 to {dimension - 1:,}"
    value: Any = reply.fields["intercepts"]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        reply.refuse("intercepts", must)
    if value.shape != (dimension,) or value.min() < 0 or value.max() >= dimension:
        reply.refuse("intercepts", must)
    return value.astype(np.int64)


def _digests(reply: Reply) -> dict[str, str | None]:
    inner = reply.within("alike")
    if len(inner.fields) > MOST_DIGESTS:
        reply.refuse("alike", f"a dictionary of at most {MOST_DIGESTS}")
    for what in inner.fields:
        if not isinstance(what, str) or not is_name(what):
            raise SiteError(
                f"site {reply.site} gave an answer to 'hello' that cannot be read: {told(what)} "
                "is among what must be alike, which only a short text can name"
            )
    return {what: inner.text(what) if inner.has(what) else None for what in inner.fields}


def check_facts(facts: Mapping[str, Facts]) -> None:
    """Refuse sites whose problems do not go together.

    Sites tell no more than digests of their columns, classes and the like; a site whose data have
    no names has nothing to tell.
    """
    first, expected = next(iter(facts.items()))
    for name, found in facts.items():
        for what in ("dimension", "dtype"):
            if getattr(found, what) != getattr(expected, what):
                raise SiteError(
                    f"site {name} has the {what} {getattr(found, what)}, but site {first} has "
                    f"{getattr(expected, what)}: all must be the same"
                )
    _check_alike({name: found.alike for name, found in facts.items()})
    check_parameters({name: found.parameters for name, found in facts.items()})
    check_starts({name: found.start for name, found in facts.items()})
    for name, found in facts.items():
        if not _same(found.intercepts, expected.intercepts):
            raise SiteError(
                f"site {name} has other intercepts than site {first}: all must be the same"
            )


def _same(mine: Any, other: Any) -> bool:
    if mine is None or other is None:
        return mine is other
    return bool(np.array_equal(mine, other))


def _check_alike(alike: Mapping[str, Mapping[str, str | None]]) -> None:
    known: dict[str, tuple[str, str]] = {}
    for site, digests in alike.items():
        for what, digest in digests.items():
            if digest is None:
                continue
            first, expected = known.setdefault(what, (site, digest))
            if digest != expected:
                raise SiteError(
                    f"site {site} has other {what} than site {first}, or in another order: all "
                    "must be the same"
                )
