"""How much of a run each site made: its part of the uploads and of L, and who stands out.

All of it comes from what sites send anyway. A site whose data are a thousand times as large as
those of the others moves the model by as much, and no certificate notices: the optimum of wrong
data is proven like any other. Here it is seen.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length, lengths
from pdmm.common.site_shares import SiteShare

Vector = npt.NDArray[np.float64]

OUTLIER = 100.0
"""Times the median of the other sites, for the same weight.

Where losses are sums over rows, a site with 50 times the rows has 50 times the L, and is no
outlier. Data that are 1,000 times as large make L a million times as large, or the first uploads
or gradients a thousand times.
"""


class Shares:
    """Adds up the norms of what each site sends.

    Args:
        places: the clients of each site.
    """

    def __init__(self, places: Mapping[str, slice]) -> None:
        self.places = places
        self.sent = dict.fromkeys(places, 0.0)  # over the run
        self.first = dict.fromkeys(places, 0.0)  # in the first round that all took part in
        self.pulls = dict.fromkeys(places, 0.0)  # the first gradients that a certificate asked for

    def note(self, uploads: Mapping[str, Any], weights: Vector) -> None:
        """A round is done; ``uploads`` are those of the sites that took part in it."""
        self.note_sizes(
            {name: upload_size(uploads[name], weights[self.places[name]]) for name in uploads}
        )

    def note_sizes(self, sizes: Mapping[str, float]) -> None:
        """The same, of the norms of uploads."""
        for name, size in sizes.items():
            self.sent[name] += size
        # Later, all sites answer to an x that an outlier has moved, and their answers are large.
        if len(sizes) == len(self.places) and not any(self.first.values()):
            self.first = dict(sizes)

    def note_gradients(self, gradients: Mapping[str, Vector]) -> None:
        """All sites have told the sums of their clients' gradients at one point."""
        # Only the first: at an optimum, whoever pulls is held by all the others together.
        if not any(self.pulls.values()):
            self.pulls = {name: length(gradient) for name, gradient in gradients.items()}

    def rows(self, weights: Vector, L: Vector | None) -> tuple[SiteShare, ...]:
        """The table, one row for each site.

        Args:
            weights: of all clients.
            L: of all clients; None where the run did not need to know it.
        """
        weight = _shares({name: weights[place].sum() for name, place in self.places.items()})
        sent = _shares(self.sent)
        steep = None
        if L is not None and np.isfinite(L).all():
            steep = _shares({n: weights[place] @ L[place] for n, place in self.places.items()})
        told = {
            "first upload is": self.first,
            "first gradient is": self.pulls,
            "L is": steep or {},
        }
        excess = {what: _excess(parts, weight) for what, parts in told.items()}
        rows = []
        for name, place in self.places.items():
            why = _why(name, excess)
            of_L = None if steep is None else steep[name]
            row = SiteShare(
                site=name,
                clients=place.stop - place.start,
                weight=weight[name],
                uploads=sent[name],
                smoothness=of_L,
                flagged=bool(why),
                words=_sentence(name, weight[name], sent[name], of_L) + why,
            )
            rows.append(row)
        return tuple(rows)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint keeps."""
        return {"sent": self.sent, "first": self.first, "pulls": self.pulls}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.sent = dict(state["sent"])
        self.first = dict(state["first"])
        self.pulls = dict(state["pulls"])


def upload_size(upload: Any, weights: Vector) -> float:
    """The norms of the clients' uploads, times their weights, added up.

    The first field of an upload is the vector that moves the model. The others may be scalars in
    squared units, or Hessians.
    """
    rows = np.asarray(upload[0], dtype=np.float64).reshape(len(weights), -1)
    with np.errstate(over="ignore"):  # a diverging run is seen by its x_s
        return float(weights @ lengths(rows))


def _shares(parts: Mapping[str, Any]) -> dict[str, float]:
    """Numbers from 0 to 1; 0 for each site where there is nothing to share."""
    whole = float(sum(parts.values()))
    if not 0 < whole < np.inf:
        return dict.fromkeys(parts, 0.0)
    return {name: float(part) / whole for name, part in parts.items()}


def _excess(parts: Mapping[str, float], weight: Mapping[str, float]) -> dict[str, float]:
    """How many times the median of the others a site has, for the same weight."""
    rates = {name: part / weight[name] for name, part in parts.items()}
    found = {}
    for name, rate in rates.items():
        others = [other for site, other in rates.items() if site != name]
        usual = float(np.median(others)) if others else 0.0
        if usual > 0:  # of nothing, everything is any number of times as much
            found[name] = rate / usual
    return found


def _why(name: str, excess: Mapping[str, Mapping[str, float]]) -> str:
    """Why a site stands out; empty if it does not."""
    times = {what: found.get(name, 0.0) for what, found in excess.items()}
    what = max(times, key=lambda each: times[each])
    if not times[what] > OUTLIER:
        return ""
    return (
        f": its {what} {times[what]:.2g} times what is usual at the other sites, for the same "
        "weight, so check the units of its data"
    )


def _sentence(name: str, weight: float, sent: float, steep: float | None) -> str:
    has = f"site {name} has {_percent(weight)} of the weight"
    if steep is None:
        return f"{has} and sent {_percent(sent)} of the uploads, by their norms"
    uploads = f"{_percent(sent)} of the uploads, by their norms"
    return f"{has}, sent {uploads}, and has {_percent(steep)} of L"


def _percent(share: float) -> str:
    """A share in per cent; all but everything is not called everything.

    >>> _percent(0.25), _percent(0.99999), _percent(1.0), _percent(1e-6)
    ('25%', '99.9%', '100%', '0.0001%')
    """
    if 0.999 < share < 1:
        return "99.9%"
    return f"{100 * share:.3g}%"
