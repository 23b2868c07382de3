"""Where a run starts that is given no start: the one that all sites have made, which one tells."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.limits import LARGEST
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Roster, SiteError
from pdmm.privacy.questions import hash_of
from pdmm.problems.base import Problem

Vector = npt.NDArray[np.float64]


def own_start(problem: Problem) -> npt.NDArray[np.floating] | None:
    """The start that a site's problem knows; None where it is 0."""
    if problem.x0 is None or not problem.x0.any():
        return None
    return problem.x0.astype(problem.dtype)


def start_digest(problem: Problem) -> str | None:
    """What tells equal starts from others."""
    start = own_start(problem)
    return None if start is None else hash_of(start).hex()


def check_starts(starts: Mapping[str, str | None]) -> None:
    """Refuse sites that would start from different points.

    Args:
        starts: the digest of each site's start; None where it is 0.
    """
    first, expected = next(iter(starts.items()))
    for name, found in starts.items():
        if found != expected:
            raise SiteError(
                f"site {name} has another start than site {first}: all must begin at the same "
                "model. Build it at all sites by the same code, after the same torch.manual_seed"
            )


def asked_start(
    roster: Roster, digest: str | None, dimension: int, dtype: np.dtype[np.floating]
) -> Vector | None:
    """The start that all sites have, from the first of them; None where it is 0.

    Args:
        roster: the sites.
        digest: of their start.
        dimension: of x.
        dtype: in which they hold it.
    """
    if digest is None:
        return None
    name = roster.names[0]
    reply = Reply(name, "start", roster.everyone("start", {name: {}})[name])
    start = reply.bounded("x0", (dimension,), LARGEST)
    if hash_of(start.astype(dtype)).hex() != digest:
        raise SiteError(f"site {name} tells a start that is not the one of which it told a digest")
    return start
