"""What a site says of itself, where its policy allows results of single sites."""

import warnings

import numpy as np
import numpy.typing as npt

from pdmm.problems.glm.statistics import statistics
from pdmm.study.evaluation_questions import EvaluationQuestions
from pdmm.study.questions import Payload
from pdmm.study.table_questions import TableQuestions
from pdmm.tables.evaluation import MEASURES
from pdmm.tables.inference import score_test
from pdmm.tables.sites import estimate_alone

Vector = npt.NDArray[np.float64]


def alone(questions: TableQuestions, payload: Payload) -> Payload:
    """Rows, events, the score test against the rest, and the site's own estimate.

    Args:
        questions: of the fit.
        payload: x, the inverse of the joint information, and the scale; None without inference.
    """
    x = np.asarray(payload["x"], dtype=np.float64)
    questions.look(x)
    table = questions.made
    own = statistics(table.problem, x, 0, robust=False)
    rows, complete = questions.counts
    found: Payload = {
        "rows": int(complete),
        "dropped": int(rows - complete),
        "n": own.n,
        "events": own.events,
    }
    if payload["information"] is None:
        return found
    test = score_test(own, np.asarray(payload["information"]), float(payload["scale"]))
    found |= {"score": test.statistic, "df": float(test.df), "pvalue": test.pvalue}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = estimate_alone(table, 0, x)
    if estimate is not None:
        found["params"], found["errors"] = estimate
    return found


def rows_alone(questions: EvaluationQuestions) -> dict[str, float]:
    """The measures of this site's rows."""
    measures = MEASURES[questions.stored.family](questions.stored, questions.frame)
    return {name: float(value) for name, value in measures.items()}
