"""A formula, read: the outcome on its left, terms on its right, and the columns that they need."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pdmm.tables.expressions import Call, agreed_calls, columns_of, read


@dataclass(frozen=True)
class Formula:
    """A formula such as ``died ~ age + C(sex)``, checked and taken apart."""

    text: str
    """As it was written."""
    outcome: tuple[str, ...]
    """The expression on the left; of Surv(time, event), two."""
    right: str
    """The right side, with a dot replaced by the columns that it stands for."""
    factors: tuple[str, ...]
    """The expressions that its terms are products of."""
    intercept: bool
    columns: tuple[str, ...]
    """All columns that it is computed from, those of the outcome first."""
    calls: tuple[Call, ...]
    """Means and standard deviations that must be agreed, in an order in which they can be."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Python names of columns whose own names are none."""

    @property
    def survival(self) -> bool:
        """Whether the outcome is a time and an event."""
        return len(self.outcome) == 2


def read_formula(text: Any, available: Sequence[str] | None, extra: Sequence[str] = ()) -> Formula:
    """Take a formula apart.

    Args:
        text: the formula.
        available: the columns that a dot stands for, without those of the outcome.
        extra: expressions whose columns are needed too: offset and weights.
    """
    from formulaic import Formula as Parsed
    from formulaic.errors import FormulaicError
    from formulaic.parser.types import Factor

    if not isinstance(text, str) or text.count("~") != 1:
        raise ValueError(f"formula must be text with one ~, such as 'died ~ age', got {text!r}")
    context = None if available is None else {"__formulaic_variables_available__": available}
    try:
        parsed: Any = Parsed.from_spec(text, context=context)
        left, right = list(parsed.lhs), list(parsed.rhs)
    except (FormulaicError, SyntaxError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"formula {text!r} cannot be read: {_first_line(error)}") from None
    if len(left) != 1 or len(left[0].factors) != 1:
        raise ValueError(
            f"formula {text!r} must have one outcome on the left of ~, such as died, "
            "np.log(cost) or Surv(time, event)"
        )
    literal = Factor.EvalMethod.LITERAL
    factors = {
        factor.expr: _as_code(factor)
        for term in right
        for factor in term.factors
        if factor.eval_method is not literal
    }
    if "Intercept" in factors:
        raise ValueError(
            "a column called 'Intercept' cannot be told from the model's own intercept: rename it"
        )
    aliases: dict[str, str] = {}
    outcome = _outcome(_as_code(left[0].factors[0]), aliases)
    trees = [read(expression, aliases) for expression in (*outcome, *factors.values(), *extra)]
    columns = dict.fromkeys(name for tree in trees for name in columns_of(tree, aliases))
    if not factors and not _has_intercept(right):
        raise ValueError(f"formula {text!r} has nothing on the right of ~")
    return Formula(
        text=text,
        outcome=outcome,
        right=_joined(right),
        factors=tuple(factors),
        intercept=_has_intercept(right),
        columns=tuple(columns),
        calls=_unique(_calls(trees)),
        aliases=aliases,
    )


def columns_in(expression: str) -> set[str]:
    """The columns that an expression is computed from."""
    aliases: dict[str, str] = {}
    return set(columns_of(read(expression, aliases), aliases))


def _calls(trees: Sequence[Any]) -> list[Call]:
    return [call for tree in trees for call in agreed_calls(tree)]


def _unique(calls: list[Call]) -> tuple[Call, ...]:
    return tuple({call.text: call for call in calls}.values())


def _as_code(factor: Any) -> str:
    """A factor as Python: names of columns that are looked up may be any text."""
    from formulaic.parser.types import Factor

    if factor.eval_method is Factor.EvalMethod.LOOKUP and not str(factor.expr).isidentifier():
        return f"`{factor.expr}`"
    return str(factor.expr)


def _outcome(expression: str, aliases: dict[str, str]) -> tuple[str, ...]:
    """The expression; of Surv(time, event), both."""
    tree = read(expression, aliases)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return (expression,)
    if tree.func.id == "C":
        raise ValueError(
            f"the outcome {expression!r} needs no C(...): write the column, and say what it is by "
            "family='binomial' or 'multinomial'"
        )
    if tree.func.id != "Surv":
        return (expression,)
    if len(tree.args) != 2 or tree.keywords:
        raise ValueError(
            f"the outcome {expression!r} must be Surv(time, event), such as Surv(days, status == 2)"
        )
    return tuple(ast.unparse(part) for part in tree.args)


def _has_intercept(terms: Sequence[Any]) -> bool:
    return any(str(term) == "1" for term in terms)


def _joined(terms: Sequence[Any]) -> str:
    """Terms as the right side of a formula, which has an intercept only if it is one of them."""
    written = [_written(term) for term in terms]
    return " + ".join(written if _has_intercept(terms) else ["0", *written])


def _written(term: Any) -> str:
    """A term so that it is read again as it was, whatever its columns are called."""
    return ":".join(_as_code(factor) for factor in term.factors)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
