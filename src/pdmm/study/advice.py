"""What a researcher may try where a site refuses: by the question, for the reason stays there."""

from collections.abc import Iterator
from contextlib import contextmanager

from pdmm.engines.sites.roster import SiteRefusedError, SiteSpentError

ROWS = (
    "a value, or a combination of values, may stand in few rows there, or a combination of the "
    "formula's columns may be about one row alone. Put categories together, write I(age > 80) "
    "instead of I(age == 93), log(x) or clip(x, 0, 100) for a column with values far from all "
    "others, and fewer interactions or knots"
)
FOLDS = "give fewer folds, or penalties of your own instead of 'cv'"

ADVICE = {
    "survey": (
        "it may have consented to other studies only (--study), may ask for more organisations or "
        "for secure sums, or has refused or answered enough for today"
    ),
    "describe": "it may have refused enough for today",
    "kinds": "its policy may not allow one of the columns, or the family",
    "rows": "its policy may not tell rows or missing entries",
    "present": "a column may have few entries there: give missing='drop'",
    "count": (
        "it may have few complete rows, or an expression, or the weights, may leave out a few rows "
        "alone, as log(x) does where x is 0: write clip(x, 1, 100) or log1p(x)"
    ),
    "moments": "center or scale may be about a few rows there: write log(x), or clip(x, 0, 100)",
    "levels": "a category may have a level with few rows: put levels together, or leave it out",
    "classes": "a class of the outcome may have few rows: put classes together",
    "encode": ROWS,
    "statistics": "its Hessian may have to stay there",
    "alone": "its policy may not allow results of single sites",
    "evaluation": f"too few rows may be set aside there (evaluation_share); or {ROWS}",
    "evaluation_alone": "its policy may not allow results of single sites",
    **dict.fromkeys(("fold_weights", "fold_grams", "fold_constants", "fold_ask"), FOLDS),
}


@contextmanager
def advice(verb: str) -> Iterator[None]:
    """Add to a site's refusal of a question what may help.

    Args:
        verb: of the question, which is all that the advice depends on.
    """
    try:
        yield
    except SiteSpentError:
        raise
    except SiteRefusedError as error:
        if verb not in ADVICE:
            raise
        raise SiteRefusedError(error.site, f"{error}. Perhaps {ADVICE[verb]}") from None
