"""What decides, at a site, whether a question is answered, and counts what leaves."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.privacy.audit import FITS, Audit, Entry
from pdmm.privacy.contents import Contents, contents_of
from pdmm.privacy.policy import Policy
from pdmm.privacy.questions import Question, Study, numbers_in
from pdmm.privacy.refusals import Reason, Refused, Spent
from pdmm.privacy.run_limits import RunLimits, treats_entries_alike
from pdmm.privacy.table_limits import listed, most_numbers, objections
from pdmm.privacy.watch import Watch
from pdmm.problems.base import Problem

Vector = npt.NDArray[np.float64]

SEVERAL = 3  # organisations, of which none can tell the parts of a sum by subtraction


class Doors(RunLimits):
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
        self.part = FITS
        """Which rows of the site's table the contents are of."""
        self.most = np.inf  # numbers that answers can tell, however many there are
        self.surveyed = False
        """Whether the run that begins next is one that has begun with questions about a table."""
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
        with self._kept(Question("join")):
            if not self.surveyed:
                self._check_days()
            yield

    @contextmanager
    def opening(self, study: Study, verb: str = "open") -> Iterator[None]:
        """A run begins, unless this ends with an error.

        Args:
            study: the run.
            verb: "survey" where questions about a table come first; the run that follows them
                counts as the same one.
        """
        self.study = study
        follows = self.surveyed and verb == "open"
        with self.audit.turn(), self._kept(Question("model" if follows else verb)):
            if not follows:
                self._check_days()
            yield
        self.surveyed = verb == "survey"

    @contextmanager
    def confirming(self) -> Iterator[None]:
        """The sites of a run are shown that all of them have agreed to it."""
        with self._kept(Question("confirm")):
            yield
            if self.study is not None:
                self.study.confirmed = True

    @contextmanager
    def telling(self, verb: str) -> Iterator[None]:
        """The site says something of itself that is no number of its rows."""
        with self._kept(Question(verb)):
            self._check_refusals()
            yield

    def check_begun(self) -> None:
        """Refuse a run's question where sites have agreed to questions about their tables alone."""
        if self.surveyed:
            raise Reason("a run's question is asked, and no run has begun since the survey")

    def check_parties(
        self,
        organisations: Mapping[str, str],
        fingerprints: Sequence[str] | None = (),
        least: int = 0,
    ) -> None:
        """Refuse a run of too few organisations, or with others than those that may take part.

        Args:
            organisations: of each site, by its name.
            fingerprints: of their certificates, where they have shown any; None where they have
                been looked at before.
            least: organisations that there must be at least, whatever the policy says.
        """
        count = len(set(organisations.values()))
        needed = max(self.policy.min_organisations, least)
        if count < needed:
            what = "min_organisations is" if needed > least else "secure sums need"
            raise Reason(f"{count} organisations take part, and {what} {needed}", counts=False)
        partners = self.policy.partners
        if fingerprints is None:
            return
        strangers = () if partners is None else sorted(set(fingerprints) - set(partners))
        if strangers or (partners is not None and not fingerprints):
            raise Reason(f"partners does not allow {listed(strangers)}", counts=False)

    def check_secure(
        self, study: Study, organisations: Mapping[str, str], identified: bool
    ) -> None:
        """Refuse a run without secure sums where the policy asks for them.

        Args:
            study: the run.
            organisations: of each site, by its name.
            identified: whether the sites have shown certificates.
        """
        asks = self.policy.secure_sums
        if study.secure or asks == "optional":
            return
        several = len(set(organisations.values())) >= SEVERAL
        if asks == "always" or (identified and several):
            raise Reason(f'the run has no secure sums, and secure_sums is "{asks}"', counts=False)

    def note_set(self, said: str) -> None:
        """Keep in the audit that the sites of a run's sums have changed."""
        self.note(Question("set"), said)

    def note(self, question: Question, said: str) -> None:
        """Keep in the audit what is no question of the server's."""
        self._keep(question, reason=said)

    def check_open(self, problem: Problem, study: Study, regulariser: Any = None) -> None:
        """Refuse a run that is not about what the policy allows.

        Args:
            problem: of the site.
            study: the run.
            regulariser: what the server's proximal step is of, as it says.
        """
        self._check_regulariser(regulariser, problem, study.verified)
        for reason in self.objections(problem):
            raise Reason(reason, counts=False)
        self._check_start_of(problem, study)
        self._check_study(study)
        self.check_named(study)
        self.watch_over(problem)

    def check_named(self, study: Study) -> None:
        """Refuse a run of a study that the site has not consented to."""
        studies = self.policy.studies
        if studies is not None and study.name not in studies:
            named = f"is called {study.name!r}" if study.name else "has no name"
            raise Reason(f"the study {named}, and studies allows {listed(studies)}", counts=False)

    def watch_over(self, problem: Problem) -> None:
        """See the points at which a problem's functions are asked for."""
        if self.watches:
            self.watch.tables = problem.tables()
            if self.watch.tables is not None:  # a user's own functions show no rows
                self.watch.learn(problem)

    def _check_regulariser(self, regulariser: Any, problem: Problem, verified: bool) -> None:
        if regulariser is None:
            return
        allowed = self.policy.regularisers
        name = type(regulariser).__name__
        if allowed is not None and name not in allowed:
            raise Reason(f"the regulariser is {name}, and regularisers allows {listed(allowed)}")
        if verified and not treats_entries_alike(regulariser, problem):
            raise Reason("a regulariser with a weight for each entry of x can choose x")

    def _check_refusals(self) -> None:
        policy, audit = self.policy, self.audit
        if audit.refused_today() >= policy.max_refusals_per_day:
            raise Reason(
                f"{audit.refused_today()} questions were refused in the last 24 hours, and "
                f"max_refusals_per_day is {policy.max_refusals_per_day}",
                counts=False,
            )

    def _check_days(self) -> None:
        self._check_refusals()
        policy, audit = self.policy, self.audit
        if audit.begun_today() >= policy.runs_per_day:
            raise Reason(
                f"{audit.begun_today()} runs began in the last 24 hours, and runs_per_day is "
                f"{policy.runs_per_day}",
                counts=False,
            )

    def about(self, contents: Contents, part: str) -> None:
        """Count what leaves from here on as what is told of these rows."""
        self.contents = contents
        self.part = part
        self.most = np.inf

    def objections(self, problem: Problem, part: str = FITS) -> list[str]:
        """Why the site's table may not be asked about at all, in sentences; none if it may.

        Args:
            problem: which the table's rows make.
            part: which of its rows.
        """
        policy = self.policy
        contents = contents_of(problem, policy.stated_rows, policy.stated_columns)
        outcomes = getattr(problem, "encoded", 0)  # of a table, these are columns too
        self.about(contents._replace(columns=contents.columns + outcomes), part)
        assert self.contents is not None
        # another formula, or other folds, ask for other sums: of a table there is more to tell
        self.most = np.inf if outcomes else most_numbers(problem)
        return objections(problem, self.contents, policy)

    def check_shares(self, own: Vector, everyone: Mapping[str, Vector]) -> None:
        """Refuse a run of which nearly all is this site's: its result is the site's own."""
        total = float(sum(weights.sum() for weights in everyone.values()))
        share = float(own.sum()) / total if total > 0 else np.inf
        if not share <= self.policy.max_weight_share:
            raise Reason(
                f"the site has {share:.3g} of the weight of all, and max_weight_share is "
                f"{self.policy.max_weight_share:g}",
                counts=False,
            )

    def _check_start_of(self, problem: Problem, study: Study) -> None:
        """Refuse a start that somebody else has chosen."""
        if self.policy.x0 == "any" or not study.x0.any():
            return
        if problem.x0 is None or not np.array_equal(problem.x0, study.x0):
            raise Reason('the run begins at a point of its own, and x0 is "zero"')

    def _check_study(self, study: Study) -> None:
        policy = self.policy
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
    def question(self, verb: str) -> Iterator[Question]:
        """A question of the run; its reply leaves only if this ends without an error."""
        question = Question(verb)
        with self._kept(question):
            if self.study is None:
                raise Reason("no run has been agreed upon")
            if self.study.spent:
                raise Reason("no more answers are allowed", spent=True)
            if not self.study.confirmed:
                raise Reason("not all sites have been seen to agree to the run")
            if self.study.closed:
                raise Reason("a question of this run was refused before", counts=False)
            with self.audit.turn():  # another run of the site may have been refused
                self._check_refusals()
            yield question
            self._check_time(question)

    @contextmanager
    def _kept(self, question: Question) -> Iterator[Question]:
        """Keep what becomes of a question in the audit, and tell the outside what it may know."""
        self.watch.begin()
        try:
            yield question
            with self.audit.turn():
                self._check_budget(question)
                self._keep(question, numbers=self._news(question), digest=question.digest)
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
            counts = (self.watch.looked or getattr(error, "counts", False)) and not own
            self._keep(question, outcome="failed", reason=type(error).__name__, counts=counts)
            raise

    def _keep(self, question: Question, **what: Any) -> None:
        study = self.study
        watch = self.watch
        self.audit.add(
            Entry.now(
                run="" if study is None else study.run,
                by="" if study is None else study.by,
                verb=question.verb,
                round=question.round,
                part=self.part,
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
        if left is not None and news > max(left, 0):
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
        allowed = share * self.contents.size
        if self.most <= allowed:
            return None
        return allowed - self.audit.left[self.part]
