"""Who shares a run: this process alone, or several of which each holds a part of the clients.

All members of a team make the same calls in the same order, and each has the same server: what
differs is whose clients it holds. So a sum over all clients is a sum here, then one over members.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError

T = TypeVar("T")
Vector = npt.NDArray[np.float64]


class ElsewhereError(RuntimeError):
    """Another member of the team failed; what it said is the message."""


class ElsewhereClientError(ElsewhereError, ClientError):
    """A client of another member failed: a run treats it as one of its own."""


class Team:
    """A team of one; those of several processes override :meth:`sum` and :meth:`gather`."""

    rank = 0
    """This member's number."""
    size = 1
    """How many members there are."""

    def sum(self, values: Vector) -> Vector:
        """The sum over members of an array of the same shape, the same bits at all of them."""
        return values

    def gather(self, value: Any) -> list[Any]:
        """What every member gave, in the order of their numbers."""
        return [value]

    def agree(self, work: Callable[[], T]) -> T:
        """Do some work; if it fails at one member, it fails at all."""
        if self.size == 1:
            return work()
        error: BaseException | None = None
        try:
            result = work()
        except (Exception, SystemExit) as raised:
            error = raised
        if self.sum(np.array([float(error is not None)]))[0]:
            self.fail(error)
        return result

    def each(self, work: Callable[[], T]) -> list[T]:
        """What the work gives at every member."""
        return self.gather(self.agree(work))

    def total(self, work: Callable[[], Any]) -> Any:
        """The sum over members of what the work gives, an array or a number."""
        return self.sum(np.asarray(self.agree(work), dtype=np.float64))

    def first(self, work: Callable[[], T]) -> T:
        """What the work gives at member 0, which alone does it."""
        if self.size == 1:
            return work()
        result: T = self.each(lambda: work() if self.rank == 0 else None)[0]  # type: ignore[assignment]
        return result

    def fail(self, error: BaseException | None) -> NoReturn:
        """Raise at every member, where at least one has an error."""
        text = None if error is None else f"{type(error).__name__}: {error}"
        said = self.gather((text, isinstance(error, ClientError)))
        if error is not None:
            error.add_note(f"on rank {self.rank} of {self.size}, which counts its own clients")
            raise error
        k = next(k for k, (text, _) in enumerate(said) if text is not None)
        kind = ElsewhereClientError if said[k][1] else ElsewhereError
        raise kind(f"rank {k} of {self.size} failed: {said[k][0]}")


ALONE = Team()
