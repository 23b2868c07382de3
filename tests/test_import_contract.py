"""Which rooms of the package may import which: dependencies point one way.

The table is the contract. A room is a folder or a file directly under src/pdmm, and PUBLIC is
``import pdmm`` itself, the public names. Imports inside functions count as any other.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pdmm

ROOT = Path(pdmm.__file__).parent
PUBLIC = "pdmm"

# room -> the rooms that it may import
MAY_IMPORT: dict[str, set[str]] = {
    "common": set(),
    # what a run is made of
    "regularisers": {"common"},
    "methods": {"common"},
    "problems": {"common"},
    "links": {"common"},
    "privacy": {"problems", "common"},
    "engines": {"links", "methods", "problems", "privacy", "regularisers", "common"},
    "result": {"methods", "problems", "common"},
    "run": {
        *("engines", "links", "methods", "problems", "privacy", "regularisers", "result", "common"),
    },
    "solve": {
        *("run", "engines", "links", "methods", "problems", "regularisers", "result", "common"),
    },
    "tables": {"solve", "problems", "regularisers", "result", "common"},
    "study": {
        *("tables", "engines", "privacy", "solve", "problems", "regularisers", "result", "common"),
    },
    "certifying": {"run", "engines", "problems", "regularisers", "result", "common"},
    # beside it
    "graphs": {"problems", "result", "common"},
    "theory": {"engines", "methods", "problems", "common"},
    PUBLIC: {
        *("solve", "certifying", "graphs", "theory", "engines", "links", "methods", "problems"),
        *("regularisers", "result", "common", "tables", "data"),
    },
    # on top of the public names
    "data": {"common"},
    "sklearn": {PUBLIC, "common"},
    "report": {"result", "common"},
    "paper": {PUBLIC, "report", "data", "theory", "engines", "common"},
    "flare": {PUBLIC, "study", "tables", "engines", "methods", "privacy", "common"},
    "federation": {"flare"},
    "cli": {
        *(PUBLIC, "tables", "study", "paper", "report", "data", "federation", "flare", "privacy"),
        "common",
    },
}

# A method is tried out by running it: these import the public names when they are called.
WHEN_CALLED: set[tuple[str, str]] = {
    ("pdmm.methods.checking", "pdmm"),
    ("pdmm.methods.trial", "pdmm"),
}

# What `import pdmm` does not bring along: it is loaded where it is used.
HEAVY = (
    *("matplotlib", "typer", "rich", "torch", "nvflare", "mpi4py", "networkx", "safetensors"),
    *("pandas", "pooch", "psutil", "formulaic", "sklearn", "pyarrow", "cryptography"),
)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def room(module: str) -> str:
    first = module.split(".")[1:2]
    return first[0] if first else PUBLIC


def imported(module: str) -> Iterator[str]:
    """The modules of pdmm that a module imports, anywhere in it."""
    path = MODULES[module]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            source = str(node.module)
            if is_ours(source):
                for alias in node.names:
                    inner = f"{source}.{alias.name}"
                    yield inner if inner in MODULES and not public(source, alias.name) else source


def is_ours(module: str) -> bool:
    return module.split(".")[0] == PUBLIC


def public(source: str, name: str) -> bool:
    """Whether it is a public name that happens to be a module's too: from pdmm import solve."""
    return source == PUBLIC and name in pdmm.__all__


def test_every_room_is_in_the_table() -> None:
    assert {room(module) for module in MODULES} == set(MAY_IMPORT)


def test_the_table_has_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()  # raises where rooms import each other


def test_dependencies_point_one_way() -> None:
    against = set()
    for module in MODULES:
        for other in imported(module):
            if room(other) != room(module) and room(other) not in MAY_IMPORT[room(module)]:
                against.add((module, other))
    assert against == WHEN_CALLED, "imports against the table, or exceptions that are gone"


@pytest.mark.parametrize("reader", ["run", "solve", "engines", "methods", "problems", "links"])
def test_no_run_needs_the_theory(reader: str) -> None:
    assert "theory" not in MAY_IMPORT[reader]


def test_nothing_imports_the_command() -> None:
    assert not any("cli" in rooms for rooms in MAY_IMPORT.values())


def test_nothing_in_a_run_needs_scikit_learn() -> None:
    for module, path in MODULES.items():
        if room(module) not in {PUBLIC, *MAY_IMPORT[PUBLIC]} - {"tables"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            else:
                continue
            assert not any(name.split(".")[0] == "sklearn" for name in names), module


def test_import_pdmm_is_light() -> None:
    code = f"import sys, pdmm; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_module_has_the_name_of_something_loaded_lazily() -> None:
    # The import system would bind the module to the name, and hide what is to be loaded.
    for module, path in MODULES.items():
        if path.name != "__init__.py":
            continue
        bound, listed = top_level(ast.parse(path.read_text(encoding="utf-8")))
        if "__getattr__" not in bound:
            continue
        inside = {name.removeprefix(f"{module}.") for name in MODULES if name.startswith(module)}
        assert not (listed - bound) & inside, f"{module} hides what it is to load lazily"


def top_level(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a module binds as it is imported, and those in its __all__."""
    bound: set[str] = set()
    listed: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            bound.add(node.targets[0].id)
            if node.targets[0].id == "__all__":
                listed = set(ast.literal_eval(node.value))
    return bound, listed
