"""The methods that have a name: on the command line, in checkpoints and between sites."""

from collections.abc import Callable
from typing import TypeVar

from pdmm.common.packing import keepable
from pdmm.methods.base import Method

M = TypeVar("M", bound=Method)

METHODS: dict[str, type[Method]] = {}


def register(name: str) -> Callable[[type[M]], type[M]]:
    """Give a method a name, under which files and messages may speak of it.

    Args:
        name: on the command line, e.g. ``"gradient-descent"``.
    """

    def keep(kind: type[M]) -> type[M]:
        METHODS[name] = kind
        return keepable(kind)

    return keep
