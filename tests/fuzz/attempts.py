"""One case of one fuzzer: its time is limited, its warnings are looked at, nothing escapes."""

import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

Case = Callable[[int], str]

LIMIT = 120.0  # seconds after which a case hangs: the slowest takes a few
NUMPY = re.compile(r"encountered in |Casting complex|Degrees of freedom|Mean of empty")
HERE = Path(__file__).parent


class Hung(BaseException):
    """The time of a case is over; no ``except Exception`` of anybody may swallow it."""


class Failure(NamedTuple):
    """A case that went wrong, and how to repeat it."""

    fuzzer: str
    seed: int
    what: str

    @property
    def command(self) -> str:
        return f"python -m tests.fuzz --only {self.fuzzer} --case {self.seed}"

    def __str__(self) -> str:
        return f"{self.command}  # {shorten(self.what, 400)}"


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 4] + " ..."


def attempt(name: str, case: Case, seed: int) -> str | Failure:
    """The word that a case returns, or how it failed."""
    try:
        with _limited(), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            word = case(seed)
    except Hung:
        return Failure(name, seed, f"it hangs: {LIMIT:.0f} s were not enough")
    except Exception as error:
        return Failure(name, seed, in_words(error))
    internal = [warning for warning in seen if _internal(warning)]
    if internal:
        return Failure(name, seed, _warned(case, seed, internal[0]))
    return word


def in_words(error: BaseException) -> str:
    """An error, what its case was, and where it came from, on one line."""
    said = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, AssertionError):
        said = said or f"assert {frames[-1].line}"
    else:
        ours = [frame for frame in frames if f"{Path('src', 'pdmm')}" in frame.filename]
        last = (ours or list(frames))[-1]
        said = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {said}"
    notes = getattr(error, "__notes__", [])
    return " ".join("; ".join([said, *notes]).split())


@contextmanager
def about(what: object) -> Iterator[None]:
    """Say of what goes wrong inside which case it was, as ``what`` tells it by then."""
    try:
        yield
    except Exception as error:
        error.add_note(str(what))
        raise


def _internal(warning: Any) -> bool:
    """Whether a warning is not one of the library's own sentences."""
    ours = warning.category in (RuntimeWarning, UserWarning)
    return not ours or NUMPY.search(str(warning.message)) is not None


def _warned(case: Case, seed: int, warning: Any) -> str:
    """Where a warning came from, and in what case: as an error it tells its story."""
    place = f"{Path(warning.filename).name}:{warning.lineno}"
    said = f"a warning of its insides: {warning.category.__name__} at {place}: {warning.message}"
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", re.escape(str(warning.message)), warning.category)
            case(seed)
    except (Exception, Hung) as error:
        notes = getattr(error, "__notes__", [])
        return " ".join("; ".join([said, *notes]).split())
    return said


@contextmanager
def _limited() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
