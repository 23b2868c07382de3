"""Whether a policy lets studies ask about a table at all, and how much answers can tell of it."""

from collections.abc import Iterable, Iterator

import numpy as np

from pdmm.privacy.contents import Contents
from pdmm.privacy.policy import Policy
from pdmm.problems.base import Problem


def objections(problem: Problem, contents: Contents, policy: Policy) -> list[str]:
    """Why a table may not be asked about, in sentences; none if it may."""
    kind = type(problem).__name__
    if policy.problems is not None and kind not in policy.problems:
        return [f"the problem is a {kind}, and problems allows {listed(policy.problems)}"]
    return [
        *_of_kind(problem, policy),
        *_of_rare(contents, policy),
        *_of_size(problem, contents, policy),
    ]


def _of_kind(problem: Problem, policy: Policy) -> Iterator[str]:
    family = getattr(problem, "family", None)
    if family is not None and policy.families is not None and family not in policy.families:
        yield f"the family is {family}, and families allows {listed(policy.families)}"
    if policy.columns is None:
        return
    if getattr(problem, "encoded", 0):  # columns were looked at before they were encoded
        return
    names = getattr(problem, "columns", None)
    if names is None:
        yield "the columns have no names, and columns allows some names alone"
        return
    more = sorted(set(map(str, names)) - set(policy.columns))
    if more:
        yield f"columns does not allow {listed(more)}"


def _of_rare(contents: Contents, policy: Policy) -> Iterator[str]:
    level, cell = contents.rarest_level, contents.rarest_cell
    if level is not None and level < policy.min_rows_per_level:
        yield (
            f"a value of column {contents.rarest_column} stands in {level} rows, and "
            f"min_rows_per_level is {policy.min_rows_per_level}"
        )
    if cell is not None and cell < policy.min_rows_per_cell:
        yield (
            f"a combination of the values of the discrete columns stands in {cell} rows, and "
            f"min_rows_per_cell is {policy.min_rows_per_cell}"
        )


def _of_size(problem: Problem, contents: Contents, policy: Policy) -> Iterator[str]:
    if contents.fewest < policy.min_rows:
        yield (
            f"the smallest client or mini-batch has {contents.fewest} rows, and min_rows is "
            f"{policy.min_rows}"
        )
    share = problem.dimension / max(contents.fewest, 1)
    if share > policy.max_parameters_per_row:
        yield (
            f"there are {share:.3g} parameters for each row, and max_parameters_per_row is "
            f"{policy.max_parameters_per_row:g}"
        )


def most_numbers(problem: Problem) -> float:
    """Numbers that answers can tell: of a sum of squares its X'X, X'y and y'y, and never more."""
    gaussian = getattr(problem, "family", None) == "gaussian"
    if not gaussian and type(problem).__name__ != "LeastSquares":
        return np.inf
    d = problem.dimension
    return problem.clients * (d * (d + 3) // 2 + 1)


def listed(words: Iterable[str]) -> str:
    """Words in a sentence."""
    return ", ".join(words) or "none"
