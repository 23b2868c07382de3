"""A site that holds a table: it needs no code of its own, and answers within its policy."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pdmm.engines.sites.consent import Consent
from pdmm.engines.sites.roster import TableError
from pdmm.engines.sites.site import Site
from pdmm.privacy.audit import FITS, Audit
from pdmm.privacy.contents import whole_table
from pdmm.privacy.policy import Policy
from pdmm.privacy.questions import Question, digest_of
from pdmm.privacy.refusals import Reason, Refused
from pdmm.problems.base import Problem
from pdmm.study.alone import alone, rows_alone
from pdmm.study.describing import columns_of, row_sums
from pdmm.study.evaluation_questions import EvaluationQuestions
from pdmm.study.held_table import HeldTable
from pdmm.study.questions import SUMS, TOLD, Payload
from pdmm.study.table_doors import check_columns, check_family
from pdmm.study.table_questions import TableQuestions, about_formula
from pdmm.tables.stored import Stored, of_body

if TYPE_CHECKING:
    from pdmm.privacy.identity import Identity


class TableSite:
    """A site whose data are a table.

    Args:
        table: a CSV or Parquet file, or a DataFrame.
        columns: those that studies may use; None for all.
        policy: what the site allows; see :class:`pdmm.engines.Site`.
        name: of the site, where it has no certificate.
        folder: where the audit is kept.
        identity: who the site is, to the other sites.
        by: who submitted the run, for the audit.
    """

    def __init__(
        self,
        table: str | Path | pd.DataFrame,
        columns: Sequence[str] | None = None,
        policy: Any = None,
        *,
        name: str = "site",
        folder: str | Path | None = None,
        identity: "Identity | None" = None,
        by: str = "",
    ) -> None:
        self.source = table if isinstance(table, pd.DataFrame) else Path(table)
        self.columns = None if columns is None else list(columns)
        counted = name if isinstance(table, pd.DataFrame) else str(table)
        self.site = Site(
            self._problem, policy, folder=folder, table=counted, identity=identity, by=by
        )
        self.name = name if identity is None else identity.holder.name
        self._held: HeldTable | None = None
        self._questions: TableQuestions | None = None
        self._evaluation: EvaluationQuestions | None = None
        self._last: tuple[str, Payload] = ("", {})
        self._set = ""

    # --- what a caller of a Site may look at ---------------------------------------------------

    @property
    def audit(self) -> Audit:
        """Everything that was asked."""
        return self.site.audit

    @property
    def consent(self) -> Consent:
        """What the site and the others have agreed to."""
        return self.site.consent

    @property
    def policy(self) -> Policy:
        """What the site allows."""
        return self.site.policy

    def answer(self, verb: str, payload: Payload) -> Payload:
        """The answer to one question, or the error that ends the study."""
        if verb not in (*SUMS, *TOLD, "table", "survey", "join", "confirm"):
            return self.site.answer(verb, payload)
        try:
            return self._answer(verb, payload)
        except Refused as error:
            refused = type(error)
        raise refused()  # a new one, on which nothing hangs that tells the reason

    def _answer(self, verb: str, payload: Payload) -> Payload:
        if verb == "table":
            return self._facts()
        if verb == "join":
            return self.consent.join(payload)
        if verb == "confirm":
            return self.consent.confirm(payload)
        if verb == "survey":
            return self._survey(payload)
        doors = self.site.doors
        if doors.study is None:
            return {"lacks": "study"}
        with doors.question(verb) as question:
            about = self.consent.subject + self._set_before(verb, payload)
            question.digest = digest_of(verb, _without_mask(payload), about)
            seal = self.consent.seal(verb, payload, b"", about) if verb in SUMS else None
            if self._last[0] != question.digest:  # the same again, at another scale or after a loss
                self._last = question.digest, self._found(verb, payload)
            reply = self._last[1]
            if seal is not None:
                seal.digest = question.digest
                reply, question.numbers = seal.of_arrays(reply)
            question.reply = reply
        return question.reply

    def _set_before(self, verb: str, payload: Payload) -> str:
        """What a question is about beside its words: the folds, or the model, of one before it."""
        if not verb.startswith(("fold", "evaluation", "calibration")):
            return ""
        if payload.get("folds") is not None or "model" in payload:
            self._set = digest_of("set", _without_mask(payload), "")
        return self._set

    # --- a study begins -----------------------------------------------------------------------

    def _facts(self) -> Payload:
        policy = self.policy
        return {
            "organisation": self.consent.organisation,
            "identified": self.consent.identity is not None,
            "per_site": policy.per_site_results,
            "hessians": policy.hessians,
        }

    def _survey(self, payload: Payload) -> Payload:
        """Agree to questions about the table, which is read anew for each study."""
        agreed = self.consent.survey(payload)
        self._questions = None
        self._evaluation = None
        self._last = ("", {})
        self._set = ""
        self._held = self._read()
        rows = self._held.for_fits
        self.site.doors.about(whole_table(*rows.shape), FITS)
        if self._held.checksum:
            note = Question("table")
            self.site.doors.note(note, f"the table has the SHA-256 {self._held.checksum}")
        return agreed

    def _read(self) -> HeldTable:
        try:
            return HeldTable(self.source, self.columns, self.policy.evaluation_share)
        except TableError:
            raise
        except (ValueError, OSError) as error:  # which may quote the file
            raise TableError(
                "its file cannot be read as a table: what is wrong is in the site's own error log"
            ) from error

    @property
    def held(self) -> HeldTable:
        """The table, as it was when the study began."""
        if self._held is None:
            raise Reason("a table is asked about before the study has begun")
        return self._held

    # --- questions ------------------------------------------------------------------------------

    def _found(self, verb: str, payload: Payload) -> Payload:
        if verb in ("describe", "rows"):
            return self._described(verb, payload)
        if verb.startswith(("evaluation", "calibration")):
            return self._evaluated(verb, payload)
        questions = self._of_fit(verb, payload)
        if verb == "statistics":
            return questions.statistics(payload, self.site.run.at(payload))
        if verb == "alone":
            self._check_per_site()
            return alone(questions, payload)
        if verb.startswith("fold"):
            return questions.fold(verb, payload)
        handlers: dict[str, Callable[[Payload], Payload]] = {
            "kinds": questions.describe,
            "present": questions.present,
            "count": questions.count,
            "moments": questions.moments,
            "levels": questions.levels,
            "classes": questions.classes,
            "encode": self._encode,
            "columns_total": questions.columns_total,
            "columns_squares": questions.columns_squares,
        }
        return handlers[verb](payload)

    def _of_fit(self, verb: str, payload: Payload) -> TableQuestions:
        if verb == "kinds":  # with which a fit begins
            label = payload.get("label")
            rows = self.held.check_rows(fits=True)
            label = None if label is None else str(label)
            self._questions = TableQuestions(self.name, rows, self.site.doors, label)
        if self._questions is None:
            raise Reason("a fit is asked about before it has begun")
        return self._questions

    def _encode(self, payload: Payload) -> Payload:
        assert self._questions is not None
        reply = self._questions.encode(payload)
        self.site.take_problem(self._questions.made.problem)
        # The terms of the run say what it is about, so that all sites have encoded alike.
        self.consent.subject = digest_of("encode", _without_mask(payload))
        return reply

    def _problem(self) -> Problem:
        raise TableError("its table is asked about as if it were a problem: use pdmm federate fit")

    def _described(self, verb: str, payload: Payload) -> Payload:
        policy = self.policy
        frame = pd.concat([self.held.for_fits, self.held.for_evaluation])
        if policy.columns is not None:
            frame = frame[[name for name in frame if name in policy.columns]]
        if verb == "describe":
            return columns_of(frame, policy)
        return row_sums(frame, payload, policy)

    def _evaluated(self, verb: str, payload: Payload) -> Payload:
        if verb in ("evaluation", "evaluation_alone"):
            rows = self.held.check_rows(fits=False)
            model = self._checked_model(payload)
            self.site.doors.note(Question("formula"), about_formula(model.formula))
            self._evaluation = EvaluationQuestions(payload["model"], rows, self.site.doors)
        if self._evaluation is None:
            raise Reason("an evaluation is asked about before it has begun")
        if verb == "evaluation_alone":
            self._check_per_site()
            return {"measures": rows_alone(self._evaluation)}
        if verb == "evaluation":
            return {"sums": self._evaluation.sums()}
        if verb == "evaluation_more":
            return {"sums": self._evaluation.more(payload)}
        return {"sums": self._evaluation.calibration(payload)}

    def _checked_model(self, payload: Payload) -> Stored:
        stored = of_body(dict(payload["model"]))
        check_columns(stored.formula.columns, self.policy, None)
        check_family(stored.family, self.policy)
        return stored

    def _check_per_site(self) -> None:
        if not self.policy.per_site_results:
            raise Reason("what this site alone says is asked for, and per_site_results is false")


def _without_mask(payload: Payload) -> Payload:
    """What a question is about, without what differs each time that it is asked."""
    return {name: value for name, value in payload.items() if name not in ("mask", "news")}
