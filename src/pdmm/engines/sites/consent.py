"""A site's consent to a run: who takes part, on what terms, and by whose word."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pdmm.common.packing import unpack
from pdmm.engines.sites.follower import Follower
from pdmm.engines.sites.seal import LEAST_SITES, Seal, SealedSums, addends_of
from pdmm.engines.sites.sealed_follower import SealedFollower
from pdmm.methods.base import Method
from pdmm.privacy.doors import Doors
from pdmm.privacy.questions import Study, hash_of
from pdmm.privacy.refusals import Reason
from pdmm.problems.base import Problem
from pdmm.regularisers.penalty import Penalty

if TYPE_CHECKING:
    from pdmm.privacy.identity import Identity
    from pdmm.privacy.membership import Membership

LONGEST_NAME = 200  # characters of a run's name
Payload = dict[str, Any]
Vector = npt.NDArray[np.float64]


class Consent:
    """What a site and the others agree to before a run.

    Args:
        doors: the site's policy at work.
        identity: who the site is; None where names are taken for granted.
        by: who submitted the run, for the audit.
    """

    def __init__(self, doors: Doors, identity: "Identity | None", by: str) -> None:
        self.doors = doors
        self.identity = identity
        self.by = by
        self.membership: Membership | None = None
        self.sums: SealedSums | None = None
        """What hides the site's parts of sums, in a run that has secure ones."""
        self.everyone: dict[str, Vector] = {}
        self.subject = ""
        """What the run is about beside its terms: a digest of how a table's rows were encoded."""
        self.regulariser: Any = (None, {})

    @property
    def organisation(self) -> str | None:
        """Whose site it is, by its certificate; None where it has none."""
        return None if self.identity is None else self.identity.holder.organisation

    @property
    def _name(self) -> str:
        """That of this site, in a run whose sites make sure of each other."""
        return "" if self.membership is None else self.membership.statement["name"]

    def join(self, payload: Payload) -> Payload:
        """Say who this site is, and by which key it will sign."""
        from pdmm.privacy.membership import Membership  # here: only sites that sign need it

        run = str(payload.get("run"))[:LONGEST_NAME]
        with self.doors.joining(run, self.by):
            self.sums = None
            self.membership = Membership(self.identity)
            return {"statement": self.membership.join(run, str(payload["name"]))}

    def open(self, problem: Problem, payload: Payload) -> Payload:
        """Agree to a run, or refuse it."""
        nothing = np.empty(0)
        study = Study(str(payload.get("run"))[:LONGEST_NAME], self.by, nothing, nothing, 0)
        with self.doors.opening(study):
            study.x0 = _vector("x0", payload["x0"], problem.dimension)
            study.weights = _vector("weights", payload["weights"], problem.clients)
            study.rounds = int(payload["rounds"])
            study.verified = payload["verified"] is True
            study.secure = payload.get("secure") is True
            study.confirmed = not self._signs(study)
            study.name = _study_name(payload)
            study.seed = _count("seed", payload.get("seed", 0))
            study.first = _count("first", payload.get("first", 0))
            self.regulariser = payload.get("regulariser", (None, {}))
            agreed = self._agree(payload, study)
            self._check_first(study)
            self.doors.check_open(problem, study, unpack(*self.regulariser))
            self.doors.check_shares(study.weights, self.everyone)
        return {"agreed": agreed}

    def survey(self, payload: Payload) -> Payload:
        """Agree to questions about the site's table, or refuse them."""
        one = np.ones(1)
        run = str(payload.get("run"))[:LONGEST_NAME]
        study = Study(run, self.by, np.empty(0), one, 0, secure=payload.get("secure") is True)
        with self.doors.opening(study, "survey"):
            study.name = _study_name(payload)
            study.confirmed = not self._signs(study)
            self.subject = ""
            agreed = self._agree(payload, study)
            self.doors.check_named(study)
        return {"agreed": agreed}

    def _agree(self, payload: Payload, study: Study) -> str:
        self.everyone = {
            str(name): _vector("weights", own) for name, own in payload["everyone"].items()
        }
        self.sums = None
        if not self._signs(study):
            self.membership = None
            names = set(map(str, payload["parties"])) & set(self.everyone)
            self.doors.check_parties({name: name for name in names})
            return ""
        if self.membership is None:
            raise Reason("the run does not say who takes part")
        terms = {
            "weights": {name: own.tolist() for name, own in self.everyone.items()},
            "x0": hash_of(study.x0).hex() if study.x0.any() else "zero",
            "rounds": study.rounds,
            "seed": study.seed,
            "verified": study.verified,
            "secure": study.secure,
            "study": study.name,
            "subject": self.subject,
        }
        agreed = self.membership.agree(payload["parties"], terms)
        members = self.membership.parties
        own = self.everyone.get(self._name)
        if own is None or not np.array_equal(own, study.weights):
            raise Reason("the site's weights are not those that the others are told")
        if set(self.everyone) != set(members):
            raise Reason("the weights are not those of the sites that take part")
        organisations = {name: party.organisation for name, party in members.items()}
        self.doors.check_parties(organisations, [party.fingerprint for party in members.values()])
        self.doors.check_secure(study, organisations, self.identity is not None)
        if study.secure:
            self.sums = self._sealed_sums(study, organisations)
        return agreed

    def _check_first(self, study: Study) -> None:
        """Refuse other numbers of the clients than those that follow from all sites' weights."""
        if self.membership is None:
            return
        before = [len(w) for name, w in self.everyone.items() if name < self._name]
        if sum(before) != study.first:
            raise Reason("the site's clients are not numbered as the others are told")

    def _signs(self, study: Study) -> bool:
        """Whether the sites of a run make sure of each other."""
        return self.identity is not None or study.verified or study.secure

    def _sealed_sums(self, study: Study, organisations: dict[str, str]) -> SealedSums:
        """What hides this site's parts of sums."""
        assert self.membership is not None

        def check(among: tuple[str, ...]) -> None:
            there = {name: organisations[name] for name in among}
            self.doors.check_parties(there, None, LEAST_SITES)
            weights = {name: self.everyone[name] for name in among}
            self.doors.check_shares(study.weights, weights)

        return SealedSums(
            self.membership, check, self.doors.policy.max_set_changes, self.doors.note_set
        )

    def seal(self, verb: str, payload: Payload, base: bytes, variables: str = "") -> Seal | None:
        """What will mask the answer to a question, in a run that has secure sums.

        Args:
            verb: of the question.
            payload: the question.
            base: a hash of all that went before, where the sites compute x.
            variables: those that rounds are about here, if not x.
        """
        study = self.doors.study
        if study is None or not study.secure:
            return None
        assert self.sums is not None
        return self.sums.seal(verb, payload, (study.variables, variables), base)

    def confirm(self, payload: Payload) -> Payload:
        """See that all sites agreed to the same terms; nothing is answered before that."""
        with self.doors.confirming():
            if self.membership is not None:
                self.membership.confirm(payload["agreed"])
        return {}

    def follower(self, payload: Payload, method: Method, dtype: np.dtype[Any]) -> Follower:
        """Who computes x here, in a run whose sites do."""
        study = self.doors.study
        if study is None or self.membership is None or payload["variables"] is not None:
            raise Reason("the sites cannot compute x in this run")
        packed, arrays = self.regulariser
        regulariser = unpack(packed, arrays)
        weight = float(sum(own.sum() for own in self.everyone.values()))
        kind = SealedFollower if study.secure else Follower
        follower = kind(
            self.membership,
            [payload["method"], packed, arrays, payload["rounds"]],
            method,
            study.x0,
            Penalty(regulariser, weight),
            self.everyone,
            dtype,
            self.doors.policy.max_set_changes,
            self.doors.policy.max_weight_share,
        )
        if isinstance(follower, SealedFollower):
            follower.begin(addends_of(self.everyone))
        self.doors.check_start(follower.message.x, None)
        return follower


def _study_name(payload: Payload) -> str:
    return str(payload.get("study") or "")[:LONGEST_NAME]


def _count(name: str, value: Any) -> int:
    """A whole number of the server's, of zero or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")
    return value


def _vector(name: str, value: Any, length: int | None = None) -> Vector:
    """A vector of the server's, of the right length."""
    found = np.asarray(value)
    wanted = (len(found),) if length is None and found.ndim else (length,)
    if found.dtype.kind not in "fiu" or found.shape != wanted:
        raise ValueError(f"{name} must be {length} numbers, got {found.dtype} of {found.shape}")
    return found.astype(np.float64)
