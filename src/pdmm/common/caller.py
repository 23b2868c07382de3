"""Warnings that point at the user's own line, however deep inside the library they arise."""

import sys
import warnings
from pathlib import Path

_LIBRARY = str(Path(__file__).parent.parent)


def warn_caller(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn of the line outside this library that called it."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
