"""A site's own problem, named by the site: `module:function` or `/folder/file.py:function`."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def absolute(reference: str) -> str:
    """The reference with its file, if it names one, as an absolute path."""
    module, function = _parts(reference)
    return (
        f"{os.path.abspath(os.path.expanduser(module))}:{function}"
        if _is_file(module)
        else (reference)
    )


def load(reference: str) -> Callable[[], Any]:
    """The function that makes the site's problem; it takes no argument."""
    module, name = _parts(reference)
    if _is_file(module):
        found = _from_file(Path(module).expanduser())
    else:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ValueError(
                f"problem={reference!r}: {error}. Is it installed where the site runs? "
                "A file is named as /folder/file.py:function"
            ) from error
    function: Any = found
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ValueError(f"problem={reference!r}: {module} has no function {name!r}")
    made: Callable[[], Any] = function
    return made


def file_of(reference: str) -> Path | None:
    """The file that holds the function, if there is one; the function is not run."""
    module, _ = _parts(reference)
    if _is_file(module):
        return Path(module).expanduser()
    # a parent package is imported to find the module, as it is when the site runs
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin else None


def _parts(reference: str) -> tuple[str, str]:
    module, colon, function = reference.rpartition(":")
    if not (colon and module and function):
        raise ValueError(
            f"problem={reference!r}: must be module:function or /folder/file.py:function"
        )
    return module, function


def _is_file(module: str) -> bool:
    return module.endswith(".py") or "/" in module or os.sep in module


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"problem: there is no file {path}")
    name = f"pdmm_problem_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"problem: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # a dataclass or a pickle in the file looks its module up by name
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
