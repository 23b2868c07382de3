"""Sums over all sites: the server asks each of them, and needs no more than what they add up to.

An answer whose key is "sums" is a dictionary of arrays that are only ever added up. Where sites
hide their parts, see ``secure``, only the sum can be read.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Payload, Roster

Vector: TypeAlias = npt.NDArray[np.float64]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


class Totals:
    """Asks all sites for arrays, and adds them up.

    Args:
        roster: the sites.
    """

    def __init__(self, roster: Roster) -> None:
        self.roster = roster

    def ask(self, verb: str, payload: Payload, shapes: Shapes) -> dict[str, Vector]:
        """The sums of what all sites say; waits for each of them.

        Args:
            verb: of the question.
            payload: the same for each site.
            shapes: of the arrays that each site answers with, by name; () for a number.
        """
        answers = self.roster.everyone(verb, dict.fromkeys(self.roster.names, payload))
        total = {name: np.zeros(shape) for name, shape in shapes.items()}
        for site in self.roster.names:
            sums = Reply(site, verb, answers[site]).within("sums")
            for name, shape in shapes.items():
                part = np.asarray(sums.number(name)) if shape == () else sums.array(name, shape)
                total[name] = total[name] + part
        return total
