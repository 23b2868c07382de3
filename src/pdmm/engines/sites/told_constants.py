"""What a site says of its clients' L and mu: checked, since proofs are made of it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.limits import LARGEST_CONSTANT
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import SiteError
from pdmm.problems.constants import KINDS, Kind, Which

Vector = npt.NDArray[np.float64]

PROVEN: tuple[Kind, ...] = ("given", "bound", "exact")
ROUNDING = 1e-6  # relative: by so much mu may be above L where both are the same number


def read_constants(reply: Reply, which: Which, clients: int, proven: bool) -> tuple[Vector, Kind]:
    """One number for each client of a site, and what kind of numbers they are.

    Args:
        reply: of the site.
        which: of the constants was asked for.
        clients: how many the site has.
        proven: whether the site has said that what it states of mu is proven.
    """
    values = reply.array("values", (clients,))
    said = reply.text("kind", KINDS)
    kind: Kind = next(known for known in KINDS if known == said)
    if proven and which == "mu" and kind not in PROVEN:
        reply.refuse("kind", f"one of {', '.join(PROVEN)}, since it calls its constants proven")
    wrong = ~_possible(which, kind, values)
    if wrong.any():
        i = int(wrong.argmax())
        raise SiteError(
            f"site {reply.site} states {values[i]:g} as the {which} of its client {i} ({kind}): it "
            f"must be a finite number from 0 to {LARGEST_CONSTANT:g}"
        )
    return values, kind


def _possible(which: Which, kind: Kind, values: Vector) -> npt.NDArray[np.bool_]:
    """Which numbers can be constants of a function."""
    moderate: npt.NDArray[np.bool_] = (values >= 0) & (values <= LARGEST_CONSTANT)
    if which in ("valley L", "valley mu"):
        moderate |= np.isnan(values)  # no lowest point was found
    if which == "L" and kind == "unbounded":
        moderate |= values == np.inf
    return moderate


def check_order(
    L: tuple[Vector, Kind], mu: tuple[Vector, Kind], places: Mapping[str, slice]
) -> None:
    """Refuse a mu above L, which no function has; of estimates nothing is certain.

    Args:
        L: of all clients, and what kind of numbers they are.
        mu: the same.
        places: the clients of each site.
    """
    if L[1] not in PROVEN or mu[1] not in PROVEN:
        return
    for name, place in places.items():
        above = mu[0][place] > L[0][place] * (1 + ROUNDING)
        if above.any():
            i = int(above.argmax())
            raise SiteError(
                f"site {name} states {mu[0][place][i]:g} as the mu of its client {i}, above its L, "
                f"{L[0][place][i]:g}: no function has mu > L"
            )
