"""How far a run is: one living line on a terminal, elsewhere a line for each round."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

Show = Callable[[dict[str, Any]], None]
SLOW = 2.0  # seconds without an answer after which a site is worth a word
AGAIN = 15.0  # seconds after which a line that says what is waited for is said again
BAR = 12  # characters
MANY = 3  # sites that are named, at most


@contextmanager
def progress(console: Console, lines: bool = False) -> Iterator[Show]:
    """Yields the function that takes a job's reports, and shows how far the job is.

    Args:
        console: where.
        lines: a line for each round on a terminal too.
    """
    if lines or not console.is_terminal:
        yield Lines(console).show
        return
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        yield lambda told: live.update(_living(told))


class Lines:
    """A line for each round, and one whenever something else is waited for."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.round = 0
        self._said = ""
        self._when = 0.0

    def show(self, told: dict[str, Any]) -> None:
        """Print what is new in a report."""
        r = told.get("round")
        if r is not None and r > self.round:
            self.round = r
            self._said = ""
            self._print(f"{numbered(told)}  {standing(told)}")
            return
        what = awaited(told) if r is not None else told.get("phase", "")
        if not what or what == "FLARE ends the run":  # the last rounds are still to come
            return
        # the seconds change all the time: they are no reason to say it again at once
        key = _key(told)
        if key != self._said or time.monotonic() - self._when > AGAIN:
            self._said, self._when = key, time.monotonic()
            self._print(what if r is not None else phase_words(told))

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)


def _key(told: dict[str, Any]) -> str:
    return f"{told.get('phase', '')} {' '.join(silent(told))}"


def _living(told: dict[str, Any]) -> Group:
    """The line of the last round, and below it what is waited for."""
    if told.get("round") is None:
        return Group(_line(phase_words(told)))
    first = f"{numbered(told)} {_bar(told)}  {standing(told)}"
    waited = awaited(told)
    return Group(_line(first), _line(waited)) if waited else Group(_line(first))


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _bar(told: dict[str, Any]) -> str:
    rounds = told.get("rounds")
    if not rounds:
        return ""
    done = int(BAR * told["round"] / rounds)
    return "━" * done + "╌" * (BAR - done)


def numbered(told: dict[str, Any]) -> str:
    """The number of a round, as wide as the last one's.

    >>> numbered({"round": 12, "rounds": 400})
    'round  12'
    """
    width = len(str(told.get("rounds") or ""))
    return f"round {told['round']:{width}d}"


def standing(told: dict[str, Any]) -> str:
    """How a run stands, in a few words; of another job, what it is doing.

    >>> standing({"gap": 1e-3, "bytes": 5e6, "answering": ["north"], "sites": ["north", "south"]})
    'gap 1.0e-03  5.00 MB  1 of 2 sites'
    >>> standing({"phase": "agreeing on columns"})
    'agreeing on columns'
    """
    words = []
    for name in ("gap", "residual"):
        if told.get(name) is not None:
            words.append(f"{name} {told[name]:.1e}")
            break
    if told.get("bytes") is not None:
        words.append(size(told["bytes"]))
    if told.get("sites") and told.get("answering") is not None:
        words.append(f"{len(told['answering'])} of {len(told['sites'])} sites")
    if told.get("round_seconds") is not None:
        words.append(f"{told['round_seconds']:.2f} s")
    if not words and told.get("phase"):
        words.append(told["phase"])
    return "  ".join(words)


def size(count: float) -> str:
    """A number of bytes.

    >>> size(5_040_000), size(12_345)
    ('5.04 MB', '12.3 kB')
    """
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def phase_words(told: dict[str, Any]) -> str:
    """What a job does outside of rounds, for how long, and for whom it waits.

    >>> phase_words({"phase": "agreeing on columns", "phase_seconds": 5.2,
    ...              "waiting": {"north": 4.0, "south": 0.1}})
    'agreeing on columns (5 s); waiting for north, silent for 4 s'
    """
    words = str(told.get("phase", ""))
    seconds = told.get("phase_seconds", 0.0)
    if seconds >= 1:
        words += f" ({seconds:.0f} s)"
    waited = awaited(told)
    return f"{words}; {waited}" if waited else words


def silent(told: dict[str, Any]) -> list[str]:
    """The sites that have owed an answer for some time."""
    waiting = told.get("waiting") or {}
    return [name for name, seconds in sorted(waiting.items()) if seconds >= SLOW]


def awaited(told: dict[str, Any]) -> str:
    """Which sites do not answer, and for how long.

    >>> awaited({"waiting": {"hospital-a": 0.1, "hospital-b": 12.3}})
    'waiting for hospital-b, silent for 12 s'
    >>> awaited({"waiting": {"a": 4.0, "b": 12.3, "c": 5.0, "d": 6.0}})
    'waiting for 4 sites, silent for up to 12 s'
    """
    waiting = told.get("waiting") or {}
    names = silent(told)
    if len(names) > MANY:
        longest = max(waiting[name] for name in names)
        return f"waiting for {len(names)} sites, silent for up to {longest:.0f} s"
    parts = [f"{name}, silent for {waiting[name]:.0f} s" for name in names]
    return f"waiting for {'; '.join(parts)}" if parts else ""


def times_words(times: Any) -> str:
    """What FLARE took, and what the run.

    >>> from pdmm.flare.following import Times
    >>> times_words(Times(begin=6.12, run=0.83, end=2.0, round=0.041))
    'FLARE: 6.1 s to begin, 2.0 s to end; the run itself 0.8 s, 0.041 s a round'
    """
    words = f"FLARE: {times.begin:.1f} s to begin, {times.end:.1f} s to end; "
    words += f"the run itself {times.run:.1f} s"
    if times.round is not None:
        words += f", {times.round:.3f} s a round"
    return words
