"""A server that knows everything of a run with secure sums, and asks what it likes."""

import copy
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.sites import FakeSites, Payload
from pdmm.engines import Sites
from pdmm.engines.secure.words import Words

SITES = {"ana": range(1), "ben": range(1, 2), "cyd": range(2, 3), "dan": range(3, 4)}
THREE = {name: SITES[name] for name in ("ana", "ben", "cyd")}
LARGEST_PART = 100.0
D = 5
FEW_ROWS = {"min_rows": 0, "max_parameters_per_row": 1e9, "max_numbers_out_share": float("inf")}
METHOD = pdmm.PDMM(rho=1.0)


def bowls(clients: Any) -> pdmm.Problem:
    """One client for each site; the gradient of the first one is far larger than the others'."""
    sizes = np.array([LARGEST_PART, 3.0, 2.0, 1.5])[list(clients)]
    centres = sizes[:, None] * np.linspace(1.0, 1.2, D)
    return pdmm.Quadratic(np.ones((len(sizes), D)), centres)


def tables(clients: Any) -> pdmm.Problem:
    """Logistic regression, which can be put in other variables."""
    X = []
    y = []
    for i in clients:
        rng = np.random.default_rng([8, i])
        rows = rng.standard_normal((40, D - 1))
        X.append(rows)
        y.append((rng.random(40) < 1 / (1 + np.exp(-rows[:, 0]))).astype(float))
    return pdmm.GLM(X, y)


def scaled(by: float) -> Payload:
    """Other variables, in which the start is 0 as it is in x."""
    zero = np.zeros(D)
    return {
        "kind": "Scaled",
        "centre": zero,
        "scale": zero + by,
        "means": zero,
        "intercepts": None,
    }


class Attack:
    """A run of some rounds, after which its server asks the sites itself.

    Args:
        shares: the sites.
        rounds: that the run has done.
        method: of the run.
        policy: of the sites.
        fault: of their connections.
    """

    def __init__(
        self,
        shares: Any = None,
        rounds: int = 3,
        method: Any = METHOD,
        policy: Any = None,
        fault: Any = None,
    ) -> None:
        given = {} if policy is None else {"policy": policy}
        self.fake = FakeSites(bowls, shares or THREE, fault, **given)
        self.names = sorted(self.fake.sites)
        self.sites = Sites(self.fake, secure=True, absent="wait")
        with pytest.raises(KeyboardInterrupt):
            pdmm.solve(self.sites, method, rounds + 9, tolerance=1e-30, callback=self._stop(rounds))
        assert self.sites.hidden is not None
        self.hidden = self.sites.hidden

    @staticmethod
    def _stop(rounds: int) -> Any:
        def stop(r: int, x: Any = None) -> None:
            if r == rounds:
                raise KeyboardInterrupt

        return stop

    def asked(self, verb: str = "round", nth: int = -1) -> dict[str, Payload]:
        """The payloads of a question of the run, by site."""
        asked = [payload for _, word, payload in self.fake.asked if word == verb]
        counters = sorted({payload["mask"]["counter"] for payload in asked})
        return {
            name: copy.deepcopy(payload)
            for name, word, payload in self.fake.asked
            if word == verb and payload["mask"]["counter"] == counters[nth]
        }

    def next(self) -> int:
        """The number of the next question."""
        self.hidden.counter += 1
        return self.hidden.counter

    def again(self, verb: str = "round", **mask: Any) -> dict[str, Payload]:
        """The last question of a kind under a new number, for whoever its mask names."""
        found = self.asked(verb)
        changes = {"counter": self.next(), **mask}
        for payload in found.values():
            payload["mask"].update(changes)
        return found

    def answer(self, name: str, payload: Payload, verb: str = "round") -> Payload:
        """What one site says."""
        return self.fake.sites[name].answer(verb, copy.deepcopy(payload))

    def words(self, name: str, payload: Payload, verb: str = "round") -> Words:
        """The masked part of that."""
        found: Words = self.answer(name, payload, verb)["words"]
        return found

    def total(self, payloads: dict[str, Payload], verb: str = "round") -> Words:
        """The sum of what sites say, each to its own question."""
        total = np.zeros((), dtype=np.uint64)
        for name, payload in payloads.items():
            total = total + self.words(name, payload, verb)
        return total

    def adds_up(self, total: Words) -> bool:
        """Whether a sum would be read."""
        return int(total[0]) == len(self.names)

    def reasons(self, name: str = "ana") -> list[str]:
        """Why a site has refused, by its audit."""
        return [e.reason for e in self.fake.sites[name].audit.kept if e.outcome == "refused"]
