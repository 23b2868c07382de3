"""The small language of a formula: what may stand in it, and what that means for each row.

A formula is written by one person and computed at another's table, and a model file carries one
too. So nothing in it may run code of its own, and nothing may depend on other rows than the one it
is computed for, except where that was agreed by sums over all clients (``center``, ``scale``).
"""

import ast
import keyword
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

# Functions of one row's numbers, as they are called in formulas: log(x) and np.log(x).
ROW_BY_ROW = (
    *("abs", "absolute", "arcsin", "arcsinh", "arctan", "arccos", "cbrt", "ceil", "clip", "cos"),
    *("cosh", "exp", "exp2", "expm1", "fabs", "floor", "hypot", "isfinite", "isnan", "log"),
    *("log10", "log1p", "log2", "logical_and", "logical_not", "logical_or", "maximum", "minimum"),
    *("mod", "power", "reciprocal", "rint", "round", "sign", "sin", "sinh", "sqrt", "square"),
    *("tan", "tanh", "trunc", "where"),
)
AGREED = ("center", "scale", "standardize")
"""Their means and standard deviations are sums over all clients."""
KNOTS = ("bs", "cr", "cs", "cc")
"""Splines, whose knots are quantiles unless they are given."""
CODINGS = ("C", "Treatment", "Sum", "Helmert", "Diff", "Poly")
PLAIN = ("I", "Q", *CODINGS)
CONSTANTS = ("pi", "e", "inf", "nan")

_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword),
    *(ast.Name, ast.Attribute, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


class Call(NamedTuple):
    """A call in an expression whose numbers depend on all rows."""

    text: str
    """As it is written, which is what its state is kept under."""
    function: str
    argument: str
    """What it is computed of."""
    options: dict[str, Any]


def read(expression: str, aliases: dict[str, str]) -> ast.AST:
    """Parse an expression, and refuse what is not of the language.

    Args:
        expression: Python, with names of columns in backticks where they are no Python names.
        aliases: filled with the columns that such names stand for.
    """
    from formulaic.utils.code import sanitize_variable_names

    name = expression.strip("`")
    if keyword.iskeyword(name):
        raise ValueError(f"{name!r} is a word of Python: write Q({name!r}) for such a column")
    try:
        plain: str = sanitize_variable_names(expression, {}, aliases)
        tree = ast.parse(plain, mode="eval")
    except SyntaxError:
        raise ValueError(f"the formula's {expression!r} cannot be read") from None
    for node in ast.walk(tree):
        _check(node, expression)
    return tree.body


def _check(node: ast.AST, expression: str) -> None:
    if not isinstance(node, _NODES):
        raise ValueError(
            f"the formula's {expression!r} has something that no formula may have: only columns, "
            "numbers, operators and functions of single rows may stand there"
        )
    if isinstance(node, ast.Attribute):
        _check_attribute(node, expression)
    if isinstance(node, ast.Call):
        _check_call(node, expression)


def _check_attribute(node: ast.Attribute, expression: str) -> None:
    of_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
    if not of_numpy or node.attr not in (*ROW_BY_ROW, *CONSTANTS):
        raise ValueError(
            f"the formula's {expression!r} uses {ast.unparse(node)!r}: only functions of single "
            "rows may stand there, such as np.log, np.sqrt or np.where. Means and standard "
            "deviations over all clients are those of center(x) and scale(x)"
        )


def _check_call(node: ast.Call, expression: str) -> None:
    name = called(node)
    known = (*ROW_BY_ROW, *AGREED, *KNOTS, *PLAIN, "poly", "Surv")
    if name == "offset":
        raise ValueError("an offset does not stand in the formula: give offset='np.log(years)'")
    if name not in known or any(option.arg is None for option in node.keywords):
        raise ValueError(
            f"the formula's {expression!r} calls {ast.unparse(node.func)!r}, which is none of the "
            "functions of a formula: "
            + ", ".join((*AGREED, *KNOTS, *PLAIN, "poly", "Surv"))
            + ", log, exp, sqrt and other functions of np that work row by row"
        )
    given = {str(option.arg) for option in node.keywords}
    if name == "C" and any(getattr(one, "id", "") == "Treatment" for one in _options_of(node)):
        raise ValueError(
            f"the formula's {expression!r} has a Treatment without a reference level: write "
            "Treatment('level'), or leave it out, for the first level is the reference"
        )
    if name in KNOTS:
        _check_knots(name, node, given, expression)
    if name == "poly" and not _raw(node):
        raise ValueError(
            f"the formula's {expression!r} makes polynomials orthogonal over all rows, which no "
            "client has: write poly(x, 3, raw=True), which has the same fit"
        )


def _check_knots(name: str, node: ast.Call, given: set[str], expression: str) -> None:
    needed = {"knots", "lower_bound", "upper_bound"}
    if needed - given or "constraints" in given or len(node.args) != 1:
        raise ValueError(
            f"the formula's {expression!r} would choose its knots by the quantiles of all rows, "
            f"which no client has: write {name}(x, knots=[...], lower_bound=..., upper_bound=...)"
        )


def _raw(node: ast.Call) -> bool:
    return any(k.arg == "raw" and getattr(k.value, "value", None) is True for k in node.keywords)


def called(node: ast.Call) -> str:
    """The name of the function, without np."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def columns_of(tree: ast.AST, aliases: Mapping[str, str]) -> Iterator[str]:
    """The columns that an expression is computed from."""
    others = {id(node) for node in _no_columns(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "Q":
            yield _quoted(node)
        if isinstance(node, ast.Name) and id(node) not in others:
            yield aliases.get(node.id, node.id)


def _no_columns(tree: ast.AST) -> Iterator[ast.AST]:
    """Names of functions, the np of np.log, and the Sum of C(a, Sum)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.value
        if not isinstance(node, ast.Call):
            continue
        yield node.func
        if called(node) == "C":
            yield from (one for one in _options_of(node) if getattr(one, "id", "") in CODINGS)


def _options_of(node: ast.Call) -> list[ast.expr]:
    """Its arguments but the first."""
    return [*node.args[1:], *(option.value for option in node.keywords)]


def _quoted(node: ast.Call) -> str:
    value = getattr(node.args[0], "value", None) if len(node.args) == 1 else None
    if not isinstance(value, str):
        raise ValueError("Q takes the name of a column: Q('name of the column')")
    return value


def agreed_calls(tree: ast.AST) -> Iterator[Call]:
    """Calls of center, scale and standardize, those inside others first."""
    from formulaic.utils.code import format_expr

    for node in _inside_out(tree):
        if isinstance(node, ast.Call) and called(node) in AGREED:
            yield Call(format_expr(node), called(node), format_expr(node.args[0]), _options(node))


def _inside_out(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        yield from _inside_out(child)
    yield tree


def _options(node: ast.Call) -> dict[str, Any]:
    """Its arguments but the first, by name."""
    places = {"center": (), "scale": ("center", "scale", "ddof")}
    names = places.get(called(node), ("center", "rescale", "ddof"))
    found = dict(zip(names, node.args[1:], strict=False))
    found |= {str(option.arg): option.value for option in node.keywords}
    unknown = [name for name in found if name not in names]
    if unknown or len(node.args) > len(names) + 1 or not node.args:
        raise ValueError(f"{ast.unparse(node)!r} is no call that {called(node)} takes")
    try:
        return {name: ast.literal_eval(value) for name, value in found.items()}
    except ValueError:
        raise ValueError(f"the options in {ast.unparse(node)!r} must be numbers") from None


def evaluate(expression: str, columns: Mapping[str, Any], state: dict[str, Any]) -> Any:
    """What an expression is for the rows of a table, by formulaic.

    Args:
        expression: of the language.
        columns: the table.
        state: what was agreed for ``center`` and ``scale``.
    """
    from formulaic.utils.layered_mapping import LayeredMapping
    from formulaic.utils.stateful_transforms import stateful_eval

    env = LayeredMapping(LayeredMapping(columns, name="data"), LayeredMapping(functions()))
    with np.errstate(all="ignore"):
        return stateful_eval(expression, env, None, {k: dict(v) for k, v in state.items()}, None)


def functions() -> dict[str, Any]:
    """The names of the language and what they stand for."""
    from formulaic.transforms import TRANSFORMS

    own = {name: getattr(np, name) for name in ROW_BY_ROW}
    theirs = {name: TRANSFORMS[name] for name in (*AGREED, *KNOTS, *PLAIN, "poly", "np")}
    return own | theirs
