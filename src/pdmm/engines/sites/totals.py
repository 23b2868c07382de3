"""Sums over all sites: the server asks each of them, and needs no more than what they add up to.

An answer whose key is "sums" is a dictionary of arrays that are only ever added up. Where sites
hide their parts, only the sum can be read.
"""

import time
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.engines.secure.layout import Layout
from pdmm.engines.sites.hidden_sums import HiddenSums
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import PAUSE, Payload, Roster

Vector: TypeAlias = npt.NDArray[np.float64]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


class Totals:
    """Asks all sites for arrays, and adds them up.

    Args:
        roster: the sites.
        hidden: what reads their sums, where these are secure.
    """

    def __init__(self, roster: Roster, hidden: HiddenSums | None = None) -> None:
        self.roster = roster
        self.hidden = hidden

    def ask(self, verb: str, payload: Payload, shapes: Shapes) -> dict[str, Vector]:
        """The sums of what all sites say; waits for each of them.

        Args:
            verb: of the question.
            payload: the same for each site.
            shapes: of the arrays that each site answers with, by name; () for a number.
        """
        if self.hidden is not None:
            payloads = dict.fromkeys(self.roster.names, payload)
            layout = Layout.of_shapes(shapes)
            while (found := self.hidden.ask(verb, payloads, layout)) is None:
                time.sleep(PAUSE)
            return found
        answers = self.roster.everyone(verb, dict.fromkeys(self.roster.names, payload))
        total = {name: np.zeros(shape) for name, shape in shapes.items()}
        for site in self.roster.names:
            sums = Reply(site, verb, answers[site]).within("sums")
            for name, shape in shapes.items():
                part = np.asarray(sums.number(name)) if shape == () else sums.array(name, shape)
                total[name] = total[name] + part
        return total
