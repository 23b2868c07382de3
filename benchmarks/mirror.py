"""How the code reads, in numbers: how many thoughts stand in a line, and how much is explained.

``python -m benchmarks mirror`` measures src/pdmm; ``--of PATH`` another folder of Python files,
and ``--beside PATH`` (as often as wanted) adds a column, for example of an installed library. It
is a mirror and not a goal: a smaller number is not always a better line.

A line of code is one that is neither blank, nor a comment, nor part of a docstring. A tuple
assignment binds two or more names to a tuple that is written out, as in ``a, b = x, y``. The length
of a function includes its docstring. Tests beside the source are left out.
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "pdmm"
LONG_FILE = 300  # lines, all of them
LONGEST = 10  # functions that are listed
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Mirror:
    """What was counted in a folder."""

    files: int = 0
    code_lines: int = 0
    docstring_lines: int = 0
    conditionals: int = 0
    nested_conditionals: list[str] = field(default_factory=list)
    tuple_assignments: int = 0
    more_than_two: list[str] = field(default_factory=list)
    isinstances: int = 0
    anys: int = 0
    functions: list[tuple[int, str]] = field(default_factory=list)
    long_files: list[tuple[int, str]] = field(default_factory=list)

    def per_thousand(self, count: int) -> str:
        """A count for each 1,000 lines of code."""
        return f"{1000 * count / self.code_lines:.1f}"

    @property
    def mean_function(self) -> float:
        """Lines of a function on average, its docstring among them."""
        return sum(length for length, _ in self.functions) / max(len(self.functions), 1)

    def rows(self) -> dict[str, str]:
        """The table, from top to bottom."""
        return {
            "conditional expressions": self.per_thousand(self.conditionals),
            "tuple assignments": self.per_thousand(self.tuple_assignments),
            "isinstance": self.per_thousand(self.isinstances),
            "`Any`": self.per_thousand(self.anys),
            "docstring lines for each line of code": (
                f"{self.docstring_lines / self.code_lines:.2f}"
            ),
            "mean function, lines": f"{self.mean_function:.1f}",
            "lines of code": f"{self.code_lines:,}",
            "files": str(self.files),
            f"files over {LONG_FILE} lines": str(len(self.long_files)),
            "conditional expressions inside others": str(len(self.nested_conditionals)),
            "assignments of more than two names": str(len(self.more_than_two)),
        }


def measure(folder: Path) -> Mirror:
    """Count everything in the Python files under a folder."""
    mirror = Mirror()
    for path in sorted(folder.rglob("*.py")):
        if path.name.endswith("_test.py") or path.name.startswith("test_"):
            continue
        _add(mirror, path, str(path.relative_to(folder)))
    if not mirror.code_lines:
        raise SystemExit(f"there is no Python code in {folder}")
    return mirror


def _add(mirror: Mirror, path: Path, name: str) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = _docstring_lines(tree)
    mirror.files += 1
    mirror.docstring_lines += len(documented)
    mirror.code_lines += len(_token_lines(text) - documented)
    lines = text.count("\n")
    if lines > LONG_FILE:
        mirror.long_files.append((lines, name))
    for node in ast.walk(tree):
        _count(mirror, node, name)


def _count(mirror: Mirror, node: ast.AST, name: str) -> None:
    if isinstance(node, ast.IfExp):
        mirror.conditionals += 1
        if _holds_another(node):
            mirror.nested_conditionals.append(f"{name}:{node.lineno}")
    elif isinstance(node, ast.Assign) and _binds_from_tuple(node):
        mirror.tuple_assignments += 1
        if any(_names(target) > 2 for target in node.targets):
            mirror.more_than_two.append(f"{name}:{node.lineno}")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        mirror.isinstances += node.func.id == "isinstance"
    elif isinstance(node, ast.Name):
        mirror.anys += node.id == "Any"
    elif isinstance(node, Function):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        mirror.functions.append((length, f"{name}:{node.lineno} {node.name}"))


def _holds_another(node: ast.IfExp) -> bool:
    inside = (child for child in ast.walk(node) if child is not node)
    return any(isinstance(child, ast.IfExp) for child in inside)


def _names(target: ast.expr) -> int:
    return len(target.elts) if isinstance(target, ast.Tuple) else 1


def _binds_from_tuple(node: ast.Assign) -> bool:
    """Two or more names bound at once, from a tuple that is written out: ``a, b = x, y``."""
    return isinstance(node.value, ast.Tuple) and any(_names(target) > 1 for target in node.targets)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            for text in _docstrings(node.body):
                lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def _docstrings(body: list[ast.stmt]) -> Iterator[ast.Expr]:
    """Strings that stand alone: the docstring, and those below the fields of a class."""
    for statement in body:
        if not isinstance(statement, ast.Expr):
            continue
        value = statement.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield statement


def _token_lines(text: str) -> set[int]:
    """The lines that hold more than a comment, a string over several of them being on each."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mirror", description=__doc__)
    parser.add_argument("--of", type=Path, default=ROOT, help="the folder that is measured")
    parser.add_argument("--beside", type=Path, action="append", default=[], help="another column")
    given = parser.parse_args()
    folders = [given.of, *given.beside]
    mirrors = [measure(folder) for folder in folders]
    print("| per 1,000 lines of code |", " | ".join(_headings(folders)), "|")
    print("|---" + "|--:" * len(folders) + "|")
    columns = [mirror.rows() for mirror in mirrors]
    for name in columns[0]:
        print(f"| {name} |", " | ".join(column[name] for column in columns), "|")
    first = mirrors[0]
    _print_list(f"Files over {LONG_FILE} lines", _longest(first.long_files))
    _print_list("Conditional expressions inside others", first.nested_conditionals)
    _print_list("More than two names bound at once", first.more_than_two)
    _print_list("The longest functions", _longest(first.functions)[:LONGEST])


def _headings(folders: list[Path]) -> list[str]:
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        return [str(folder) for folder in folders]
    return names


def _longest(found: list[tuple[int, str]]) -> list[str]:
    return [f"{lines} {name}" for lines, name in sorted(found, reverse=True)]


def _print_list(title: str, entries: list[str]) -> None:
    print(f"\n{title}: {len(entries) or 'none'}")
    for entry in entries:
        print(f"- {entry}")


if __name__ == "__main__":
    main()
