"""A fit to tables in silos, wherever these are: what is agreed, minimised and inferred."""

import numpy as np
import numpy.typing as npt

from pdmm.common.caller import warn_caller
from pdmm.common.checks import not_negative, one_of
from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.problem import named_family
from pdmm.regularisers import ElasticNet, Regulariser
from pdmm.result import Result
from pdmm.tables.agreement import reach_agreement
from pdmm.tables.cross_validation import check_permission, choose
from pdmm.tables.design import Layout
from pdmm.tables.fitted import Fit
from pdmm.tables.folds import check_options
from pdmm.tables.formulas import Formula
from pdmm.tables.inference import dependent, infer
from pdmm.tables.silos import Options, Silos, SilosModel
from pdmm.tables.stored import Stored, Together, how_it_was_made

Vector = npt.NDArray[np.float64]

NO_ESTIMATE = ("the outcomes are separated", "goes to infinity")
"""What Newton's method has found; a run of vectors says only that it cannot know."""


def check(options: Options) -> None:
    """Refuse what makes no sense, before any table is looked at."""
    named_family(options.family)
    if options.name == "multinomial" and options.offset is not None:
        raise ValueError("the family 'multinomial' takes no offset")
    one_of("missing", options.missing, ("error", "drop", "mean"))
    one_of("covariance", options.covariance, ("model", "robust", "client"))
    for name, value in (("l1", options.l1), ("l2", options.l2)):
        if not (isinstance(value, str) and value == "cv"):
            not_negative(name, value)
    if not isinstance(options.standardise, bool | np.bool_):
        raise ValueError(f"standardise must be True or False, got {options.standardise!r}")
    if options.scale is not None and options.scale != "pearson":
        not_negative("scale", options.scale)
    unpenalised_huber = isinstance(options.family, Huber) and not options.penalised
    if unpenalised_huber and options.covariance == "model":
        raise ValueError(
            "a Huber loss is no likelihood, so that its model has no covariance: give "
            "covariance='robust' or 'client'"
        )
    for name, expression in (("offset", options.offset), ("weights", options.weights)):
        if expression is not None and not isinstance(expression, str):
            raise ValueError(
                f"{name} must be the name of a column, or an expression such as 'np.log(years)', "
                f"got {type(expression).__name__}"
            )
    if options.chooses:
        check_options(options.folds, options.penalties, options.seed)


def fit_jointly(silos: Silos, formula: Formula, options: Options) -> Fit:
    """Fit a model to the tables of all clients together.

    Args:
        silos: the clients.
        formula: of the model.
        options: what else was asked for.
    """
    if formula.survival != (options.name == "cox"):
        raise ValueError(
            "Surv(time, event) on the left of a formula and family='cox' go together, got "
            f"{formula.text!r} and family={options.name!r}"
        )
    agreement = reach_agreement(
        silos, formula, options.extra, options.missing, options.name, options.weights
    )
    model = silos.model(agreement, options)
    layout = model.layout
    penalised = options.penalised
    widths = model.spreads() if options.standardise and penalised else None
    l1, l2, path = options.l1, options.l2, None
    notes = agreement.notes
    if options.chooses:
        check_permission(len(layout.order), options.curvature)
        with model.folded(options) as folded:
            choice = choose(folded, layout, l1, l2, widths, options.penalties, options.progress)
        l1, l2, path = choice.l1, choice.l2, choice.path
        notes = (*notes, choice.note)
    result = model.minimise(penalty(layout, l1, l2, widths))
    if not penalised:
        _refuse_undetermined(result, model, options.name)
    clusters = options.covariance == "client" and not penalised
    errors = not penalised and not model.no_errors
    totals = model.totals(result.x, options.covariance == "robust" and errors, clusters)
    if clusters:
        _check_clusters(totals.clients, len(result.x))
    stored = Stored(
        encoding=agreement.encoding,
        layout=layout,
        family=options.name,
        delta=options.family.delta if isinstance(options.family, Huber) else None,
        x=result.x,
        inference=infer(totals, options.name, options.covariance, options.scale, errors),
        covariance=options.covariance,
        l1=float(l1),
        l2=float(l2),
        standardise=bool(options.standardise),
        missing=options.missing,
        offset=options.offset,
        weights=options.weights,
        ties=options.ties,
        client=silos.label,
        sites={},
        unlabelled=silos.unlabelled,
        notes=notes,
        certificate=result.certificate,
        how=how_it_was_made(result, totals.clients),
        path=path,
        no_errors=model.no_errors,
        together=Together(
            clients=totals.clients,
            dropped=agreement.counts.rows - agreement.counts.complete + silos.unlabelled,
            events=totals.sums.events,
        ),
    )
    return model.fit(stored, result)


def penalty(layout: Layout, l1: float, l2: float, widths: Vector | None) -> Regulariser | None:
    """h, with a weight for each entry of x; None where there is none."""
    if not (l1 or l2):
        return None
    weights = layout.weights(widths)
    return ElasticNet(l1=l1 * weights, l2=l2 * weights**2)


def _refuse_undetermined(result: Result, model: SilosModel, family: str) -> None:
    """Raise where there is no estimate, or more than one, and say which columns are to blame."""
    if result.certificate.gap is not None:
        return
    reason = result.reason.split(": ", 1)[-1]
    if "not determined" in reason:
        order = model.layout.order
        H = model.hessian(result.x)[np.ix_(order, order)]
        # Cox's model compares a client's rows with each other only: what they share has no effect.
        nothing = "is constant within every client" if family == "cox" else "is 0 in all rows"
        found = dependent(H, model.layout.labels, nothing)
        words = "; ".join(found[:5]) or "some columns depend on each other, nearly"
        raise ValueError(
            f"the coefficients are not determined: {words}. Leave such columns out of the formula, "
            "or give l2"
        )
    if any(found in reason for found in NO_ESTIMATE):
        raise ValueError(
            "there is no estimate: the outcomes are separated, all or a part of them, by a "
            "combination of the columns, so that the likelihood grows for ever with its "
            "coefficients. Leave out a column, or give l2, which leaves an estimate whatever the "
            "outcomes"
        )
    warn_caller(f"the estimate is not certified: {result.reason}", UserWarning)


def _check_clusters(clusters: int, parameters: int) -> None:
    if clusters < 2:
        raise ValueError("covariance='client' needs at least two clients with complete rows")
    if clusters <= parameters:
        warn_caller(
            f"covariance='client' has {clusters} clusters for {parameters} parameters: standard "
            "errors from so few are too small",
            UserWarning,
        )
