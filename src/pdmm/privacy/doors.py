"""What decides, at a site, whether a question is answered, and counts what leaves."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.common.variables import Scaled, Variables
from pdmm.privacy.audit import Audit, Entry
from pdmm.privacy.contents import Contents, contents_of
from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Reason, Refused, Spent
from pdmm.privacy.watch import Watch
from pdmm.problems.base import Problem

Vector = npt.NDArray[np.float64]
Payload = dict[str, Any]


@dataclass
class Study:
    """A run that a site has agreed to take part in."""

    run: str
    by: str
    x0: Vector
    weights: Vector
    rounds: int
    verified: bool = False
    """Whether the sites compute x themselves."""
    parties: tuple[str, ...] = ()
    """The sites that take part."""
    asked: dict[int, str] = field(default_factory=dict)
    """What was asked in the rounds that were answered."""
    variables: str = ""
    """Which other variables the run is about, if any."""
    closed: bool = False
    """Whether a question was refused, and no other will be answered."""
    spent: bool = False
    """Whether all that may leave has left."""


class Question:
    """A question while it is being answered.

    Args:
        verb: what is asked.
        payload: what it is asked about.
    """

    def __init__(self, verb: str, payload: Payload) -> None:
        self.verb = verb
        self.round: int | None = None
        self.digest = ""  # tells it from all other questions
        self.reply: Payload = {}
        self.numbers: int | None = None  # that the reply tells; all in it, if not said
        self.started = time.monotonic()


class Doors:
    """A site's policy at work.

    Args:
        policy: what is allowed.
        audit: where everything is kept.
    """

    def __init__(self, policy: Policy, audit: Audit) -> None:
        self.policy = policy
        self.audit = audit
        self.study: Study | None = None
        self.contents: Contents | None = None
        self.watch = Watch(
            policy.max_eta,
            policy.min_effective_rows,
            max_loss_ratio=policy.max_loss_ratio,
            min_curvature=policy.min_curvature,
        )

    # --- a run begins -----------------------------------------------------------------------

    @contextmanager
    def joining(self, run: str, by: str) -> Iterator[None]:
        """The site says who it is, before it knows what a run is about."""
        nothing = np.empty(0)
        self.study = Study(run, by, nothing, nothing, 0, closed=True)
        with self._kept(Question("join", {})):
            self._check_days()
            yield

    @contextmanager
    def opening(self, study: Study) -> Iterator[None]:
        """A run begins, unless this ends with an error."""
        self.study = study
        with self._kept(Question("open", {})):
            self._check_days()
            yield

    def check_parties(
        self, organisations: Mapping[str, str], fingerprints: Sequence[str] = ()
    ) -> None:
        """Refuse a run of too few organisations, or with others than those that may take part.

        Args:
            organisations: of each site, by its name.
            fingerprints: of their certificates, where they have shown any.
        """
        assert self.study is not None
        self.study.parties = tuple(sorted(organisations))
        count = len(set(organisations.values()))
        if count < self.policy.min_organisations:
            raise Reason(
                f"{count} organisations take part, and min_organisations is "
                f"{self.policy.min_organisations}",
                counts=False,
            )
        partners = self.policy.partners
        strangers = () if partners is None else sorted(set(fingerprints) - set(partners))
        if strangers or (partners is not None and not fingerprints):
            raise Reason(f"partners does not allow {_listed(strangers)}", counts=False)

    def check_open(self, problem: Problem, study: Study) -> None:
        """Refuse a run that is not about what the policy allows."""
        for reason in self.objections(problem):
            raise Reason(reason, counts=False)
        self._check_study(study)
        if self.watches:
            self.watch.tables = problem.tables()
            if self.watch.tables is not None:  # a user's own functions show no rows
                self.watch.learn(problem)

    def _check_days(self) -> None:
        policy, audit = self.policy, self.audit
        if audit.refused_today() >= policy.max_refusals_per_day:
            raise Reason(
                f"{audit.refused_today()} questions were refused in the last 24 hours, and "
                f"max_refusals_per_day is {policy.max_refusals_per_day}",
                counts=False,
            )
        if audit.begun_today() >= policy.runs_per_day:
            raise Reason(
                f"{audit.begun_today()} runs began in the last 24 hours, and runs_per_day is "
                f"{policy.runs_per_day}",
                counts=False,
            )

    def objections(self, problem: Problem) -> list[str]:
        """Why the site's table may not be asked about at all, in sentences; none if it may."""
        policy = self.policy
        kind = type(problem).__name__
        if policy.problems is not None and kind not in policy.problems:
            return [f"the problem is a {kind}, and problems allows {_listed(policy.problems)}"]
        self.contents = contents_of(problem, policy.stated_rows, policy.stated_columns)
        found = [*self._kinds(problem), *self._rare(self.contents)]
        if self.contents.fewest < policy.min_rows:
            found.append(
                f"the smallest client or mini-batch has {self.contents.fewest} rows, and min_rows "
                f"is {policy.min_rows}"
            )
        share = problem.dimension / max(self.contents.fewest, 1)
        if share > policy.max_parameters_per_row:
            found.append(
                f"there are {share:.3g} parameters for each row, and max_parameters_per_row is "
                f"{policy.max_parameters_per_row:g}"
            )
        return found

    def _kinds(self, problem: Problem) -> list[str]:
        policy = self.policy
        found = []
        family = getattr(problem, "family", None)
        if family is not None and policy.families is not None and family not in policy.families:
            found.append(f"the family is {family}, and families allows {_listed(policy.families)}")
        if policy.columns is not None:
            names = getattr(problem, "columns", None)
            more = sorted(set(map(str, names or ())) - set(policy.columns))
            if names is None:
                found.append("the columns have no names, and columns allows some names alone")
            elif more:
                found.append(f"columns does not allow {_listed(more)}")
        return found

    def _rare(self, contents: Contents) -> list[str]:
        policy = self.policy
        found = []
        level, cell = contents.rarest_level, contents.rarest_cell
        if level is not None and level < policy.min_rows_per_level:
            found.append(
                f"a value of column {contents.rarest_column} stands in {level} rows, and "
                f"min_rows_per_level is {policy.min_rows_per_level}"
            )
        if cell is not None and cell < policy.min_rows_per_cell:
            found.append(
                f"a combination of the values of the discrete columns stands in {cell} rows, and "
                f"min_rows_per_cell is {policy.min_rows_per_cell}"
            )
        return found

    def _check_study(self, study: Study) -> None:
        policy = self.policy
        if policy.x0 == "zero" and study.x0.any():
            raise Reason('the run begins at a point of its own, and x0 is "zero"')
        if policy.require_verified and not study.verified:
            raise Reason("require_verified is true, and the server computes x", counts=False)
        weights = study.weights
        if not np.isfinite(weights).all() or not (weights > 0).all():
            raise Reason("a weight is not a positive number")
        ratio = float(weights.max() / weights.min())
        if ratio > policy.max_weight_ratio:
            raise Reason(
                f"weights differ by a factor of {ratio:.3g}, and max_weight_ratio is "
                f"{policy.max_weight_ratio:g}"
            )

    @property
    def watches(self) -> bool:
        """Whether points are looked at."""
        policy = self.policy
        limits = policy.max_eta, policy.max_loss_ratio
        fewest = policy.min_effective_rows, policy.min_curvature
        return min(limits) < np.inf or max(fewest) > 0

    # --- questions ----------------------------------------------------------------------------

    @contextmanager
    def question(self, verb: str, payload: Payload) -> Iterator[Question]:
        """A question of the run; its reply leaves only if this ends without an error."""
        question = Question(verb, payload)
        with self._kept(question):
            if self.study is None:
                raise Reason("no run has been agreed upon")
            if self.study.spent:
                raise Reason("no more answers are allowed", spent=True)
            if self.study.closed:
                raise Reason("a question of this run was refused before", counts=False)
            yield question
            self._check_time(question)
            self._check_budget(question)

    @contextmanager
    def _kept(self, question: Question) -> Iterator[Question]:
        """Keep what becomes of a question in the audit, and tell the outside what it may know."""
        self.watch.begin()
        try:
            yield question
        except Reason as reason:
            if self.study is not None:
                self.study.closed = self.study.closed or not reason.spent
                self.study.spent = self.study.spent or reason.spent
            outcome = "spent" if reason.spent else "refused"
            counts = reason.counts and not reason.spent
            self._keep(question, outcome=outcome, reason=str(reason), counts=counts)
            raise (Spent if reason.spent else Refused)() from None
        except Refused:
            raise
        except BaseException as error:
            # Where the rows were looked at, whether it fails may depend on them. What a function
            # of the user's own cannot do, such as a gradient, a run may go on without.
            own = isinstance(error, ClientError)
            if self.study is not None:
                self.study.closed = self.study.closed or not own
            counts = self.watch.looked and not own
            self._keep(question, outcome="failed", reason=type(error).__name__, counts=counts)
            raise
        else:
            self._keep(question, numbers=self._news(question), digest=question.digest)

    def _keep(self, question: Question, **what: Any) -> None:
        study = self.study
        watch = self.watch
        self.audit.add(
            Entry.now(
                run="" if study is None else study.run,
                by="" if study is None else study.by,
                verb=question.verb,
                round=question.round,
                max_eta=watch.max_eta,
                effective_rows=watch.effective_rows,
                leverage=watch.leverage,
                loss_ratio=watch.loss_ratio,
                **what,
            )
        )

    def _news(self, question: Question) -> int:
        """Numbers of a reply that had not left before."""
        if question.digest and question.digest in self.audit.asked:
            return 0
        if question.numbers is not None:
            return question.numbers
        return numbers_in(question.reply)

    def _check_time(self, question: Question) -> None:
        took = time.monotonic() - question.started
        if took > self.policy.seconds_per_answer:
            raise Reason(
                f"the answer took {took:.0f} seconds, and seconds_per_answer is "
                f"{self.policy.seconds_per_answer:g}",
                counts=False,
            )

    def _check_budget(self, question: Question) -> None:
        left = self.numbers_left
        news = self._news(question)
        if left is not None and news > left:
            raise Reason(
                f"the answer has {news} numbers, and of max_numbers_out_share {left:.0f} are left",
                spent=True,
            )

    @property
    def numbers_left(self) -> float | None:
        """Numbers that may still leave; None where that is not limited."""
        share = self.policy.max_numbers_out_share
        if self.contents is None or share == np.inf:
            return None
        return share * self.contents.size - self.audit.numbers

    # --- what methods look like --------------------------------------------------------------

    def check_method(self, method: Any, again: bool) -> None:
        """Refuse a method that the policy does not allow.

        Args:
            method: the server's.
            again: whether it takes the place of another in the same run.
        """
        policy = self.policy
        if again and self.study is not None and self.study.verified:
            raise Reason("the method changed in a run whose sites compute x")
        name = type(method.as_named).__name__
        if policy.methods is not None and name not in policy.methods:
            raise Reason(f"the method is {name}, and methods allows {_listed(policy.methods)}")
        if method.steps > policy.max_local_steps:
            raise Reason(
                f"a round has {method.steps} steps, and max_local_steps is {policy.max_local_steps}"
            )
        if method.curvature == "full":
            self.check_hessians()

    def check_hessians(self) -> None:
        """Refuse Hessians, unless the policy allows them."""
        if not self.hessians:
            raise Reason(f'Hessians are asked for, and hessians is "{self.policy.hessians}"')

    @property
    def hessians(self) -> bool:
        """Whether Hessians may leave: there are no secure sums that would hide them."""
        return self.policy.hessians == "allowed"

    def check_variables(self, variables: Variables) -> None:
        """Refuse variables that are made from Hessians, unless these may leave, and second ones."""
        self._check_same_variables(digest_of(type(variables).__name__, vars(variables)))
        if not isinstance(variables, Scaled):
            self.check_hessians()
        else:
            self.check_point(variables.centre)
        if self.study is not None and self.study.verified:
            raise Reason("other variables are asked for in a run whose sites compute x")

    def _check_same_variables(self, digest: str) -> None:
        # Constants of functions in any number of variables would tell a table number by number.
        assert self.study is not None
        if self.study.variables not in ("", digest) and not self.hessians:
            raise Reason("a run has one change of variables, and another is asked for")
        self.study.variables = digest

    def check_point(self, x: Vector) -> None:
        """Refuse a point before the first round that is not the start."""
        assert self.study is not None
        if not self.hessians and not np.array_equal(x, self.study.x0):
            raise Reason("a point that is not the start is asked about before the first round")

    def check_start(self, x: Vector, variables: Variables | None) -> None:
        """Refuse a first round that is not at the start."""
        assert self.study is not None
        if self.policy.x0 == "any" or (variables is not None and self.hessians):
            return
        start = self.study.x0 if variables is None else 0 * self.study.x0
        if not np.array_equal(x, start):
            raise Reason('the first round is not at the start, and x0 is "zero"')

    def begin_round(self, r: int) -> None:
        """Refuse a round that is not the next, or one too many."""
        assert self.study is not None
        asked = self.study.asked
        if asked and r < max(asked):
            raise Reason(f"round {r} is asked for after round {max(asked)}")
        if r not in asked and max(len(asked) + 1, r) > self.policy.max_rounds:
            raise Reason(f"max_rounds is {self.policy.max_rounds}", spent=True)

    def take_round(self, r: int, digest: str) -> None:
        """Refuse a round that was asked for already, about something else."""
        assert self.study is not None
        if self.study.asked.setdefault(r, digest) != digest:
            raise Reason(f"round {r} is asked for again, about something else")


def numbers_in(reply: Any) -> int:
    """How many numbers a reply tells; counts and names are none."""
    if isinstance(reply, np.ndarray):
        return int(reply.size)
    if isinstance(reply, float | np.floating):
        return 1
    if isinstance(reply, Mapping):
        return sum(numbers_in(part) for part in reply.values())
    if isinstance(reply, list | tuple):
        return sum(numbers_in(part) for part in reply)
    return 0


def digest_of(*parts: Any) -> str:
    """What tells equal questions from others."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).data)
    elif isinstance(part, Mapping):
        for key in sorted(part):
            digest.update(f"<{key}>".encode())
            _feed(digest, part[key])
    elif isinstance(part, list | tuple):
        digest.update(f"[{len(part)}]".encode())
        for piece in part:
            _feed(digest, piece)
    else:
        digest.update(f"|{part!r}|".encode())


def _listed(words: Any) -> str:
    return ", ".join(words) or "none"
