"""How the server asks all sites, and what it knows of their functions before a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.common.threads import Threads
from pdmm.engines.client_tables import Table
from pdmm.engines.clients import Clients, Vector
from pdmm.engines.secure.layout import Layout
from pdmm.engines.sites.hidden_sums import HiddenSums
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Payload, Roster
from pdmm.engines.sites.told_constants import check_order, read_constants
from pdmm.problems.constants import KINDS, Kind, Which, WithConstants
from pdmm.problems.fingerprints import check_same
from pdmm.problems.secants import Shown


class AbsentError(ClientError):
    """A sum over all sites was asked for, and some are absent."""


class AskedSites(WithConstants, Clients):
    """Clients at sites, of which the server knows what these have told."""

    roster: Roster
    places: dict[str, slice]
    """The clients of each site."""
    variables: Payload | None
    fingerprint: Vector
    hidden: HiddenSums | None
    """What reads sums, where these are secure."""
    _shown: Shown
    _prepared: bool
    _asks_moved = False  # whether constants are those of the functions that rounds are about
    _says_proven: dict[str, bool]

    def _everyone(self, verb: str, payload: Payload | None = None) -> list[Reply]:
        """The replies of all sites, in the order of their names."""
        return self._replies(verb, dict.fromkeys(self.roster.names, payload or {}), wait=True)

    def _replies(self, verb: str, payloads: Mapping[str, Payload], wait: bool) -> list[Reply]:
        """The replies of all sites, in the order of their names.

        Args:
            verb: of the question.
            payloads: for each site.
            wait: for those that are absent; else it is an error that they are.
        """
        if wait:
            answers = self.roster.everyone(verb, payloads)
        else:
            present = self.roster.present
            answers = self.roster.ask(verb, {name: payloads[name] for name in present})
        missing = [name for name in self.roster.names if name not in answers]
        if missing:
            raise AbsentError(f"{', '.join(missing)} did not answer, and F is a sum over all sites")
        return [Reply(name, verb, answers[name]) for name in self.roster.names]

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        question: Payload = {"which": which}
        if self._asks_moved:
            question["variables"] = self.variables
        wait = self.steady or not self._prepared
        replies = self._replies("constants", dict.fromkeys(self.places, question), wait)
        values = np.empty(self.clients)
        kinds = []
        for reply in replies:
            place = self.places[reply.site]
            proven = self._says_proven[reply.site] and not self._asks_moved
            clients = place.stop - place.start
            values[place], kind = read_constants(reply, which, clients, proven)
            kinds.append(KINDS.index(kind))
        found: tuple[Vector, Kind] = (values, KINDS[min(kinds)])
        self._check_with_other(which, found)
        return {which: found}

    def _check_with_other(self, which: Which, found: tuple[Vector, Kind]) -> None:
        """Hold L against mu, once both are known."""
        other = {"L": "mu", "mu": "L"}.get(which)
        if other not in self._known:
            return
        values, kind, _ = self._known[other]
        pair = {which: found, other: (values, kind)}
        check_order(pair["L"], pair["mu"], self.places)

    @property
    def shown(self) -> Shown:
        """What sites have told with their answers; they need not be asked again."""
        return self._shown

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "Sites",
            "clients": self.clients,
            "dimension": self.dimension,
            "dtype": str(self.dtype),
            "description": repr(self),
        }

    def recognise(self, x0: Vector, then: Table | None) -> None:
        now = self._fingerprints()
        if then is not None:
            before = then.columns[0]
            if self.may_be_silent:  # a site that did not answer says nothing of its clients
                before = np.where(np.isnan(before), now, before)
                now = np.where(np.isnan(now), before, now)
            check_same(now, before, self.dtype, self._site_of)
        self.fingerprint = now

    def _fingerprints(self) -> Vector:
        """For each client a number of its site: a sum over its clients, which knows their order."""
        payloads: dict[str, Payload] = {name: {} for name in self.places}
        if self.hidden is not None:
            layout = Layout.of_shapes({"value": ()})
            sums = self.hidden.ask("fingerprint", payloads, layout)
            total = np.nan if sums is None else float(sums["value"])
            return np.full(self.clients, total)
        if self.steady:
            answers = self.roster.everyone("fingerprint", payloads)
        else:
            present = self.roster.present
            answers = self.roster.ask("fingerprint", {name: payloads[name] for name in present})
        found = np.full(self.clients, np.nan)
        for name, answer in answers.items():
            reply = Reply(name, "fingerprint", answer)
            found[self.places[name]] = reply.number_or_nan("value")
        return found

    def _site_of(self, client: int) -> str:
        if self.hidden is not None:  # of a sum, nobody knows whose part has changed
            return "one of the sites"
        name = next(name for name, place in self.places.items() if client < place.stop)
        return f"site {name}"
