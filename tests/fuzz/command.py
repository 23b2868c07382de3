"""The command: which cases are tried, for how long, and the summary of what happened."""

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import pdmm
from fuzz import (
    auto,
    certificates,
    checkpoints,
    inputs,
    methods,
    networks,
    replies,
    theory,
    wire,
)
from fuzz.attempts import Case, Failure, attempt

FUZZERS: dict[str, Case] = {
    "methods": methods.case,
    "certificates": certificates.case,
    "checkpoints": checkpoints.case,
    "inputs": inputs.case,
    "networks": networks.case,
    "theory": theory.case,
    "auto": auto.case,
    "wire": wire.case,
    "replies": replies.case,
}


@dataclass
class Tally:
    """What came of a fuzzer's cases."""

    name: str
    words: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return self.words.total() + len(self.failures)

    def add(self, seed: int) -> Failure | None:
        """Try one case more; the failure, if it fails."""
        begun = time.perf_counter()
        outcome = attempt(self.name, FUZZERS[self.name], seed)
        self.seconds += time.perf_counter() - begun
        if isinstance(outcome, Failure):
            self.failures.append(outcome)
            return outcome
        self.words[outcome] += 1
        return None

    def __str__(self) -> str:
        words = ", ".join(f"{word} {count}" for word, count in self.words.most_common())
        numbers = f"{self.cases:>8}{self.seconds:>9.1f}{len(self.failures):>10}"
        return f"{self.name:<14}{numbers}  {words}"


def seeds(seed: int, name: str) -> Iterator[int]:
    """The numbers from which a fuzzer's cases are made, one after the other."""
    rng = np.random.default_rng([seed, *name.encode()])
    while True:
        yield int(rng.integers(2**31))


def tried(name: str, seed: int, cases: int) -> Tally:
    """So many cases of one fuzzer."""
    tally = Tally(name)
    for number in itertools.islice(seeds(seed, name), cases):
        tally.add(number)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parsed(arguments)
    print(f"pdmm of {Path(pdmm.__file__).parent}")
    names = [given.only] if given.only else list(FUZZERS)
    if given.case is not None:
        return _one(given.only, given.case)
    tallies = [Tally(name) for name in names]
    streams = {name: seeds(given.seed, name) for name in names}
    end = time.perf_counter() + 60 * given.minutes
    said = time.perf_counter()
    while True:
        left = [tally for tally in tallies if given.cases is None or tally.cases < given.cases]
        if not left or (given.cases is None and time.perf_counter() > end):
            break
        tally = min(left, key=lambda tally: tally.seconds)  # all of them get the same time
        failure = tally.add(next(streams[tally.name]))
        if failure is not None:
            print(failure, flush=True)
        if time.perf_counter() - said > 30:
            said = time.perf_counter()
            print(_progress(tallies), flush=True)
    print(_summary(tallies))
    return 1 if any(tally.failures for tally in tallies) else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Try random cases against what the library promises; exit with 1 if one fails.",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, of all fuzzers")
    parser.add_argument("--cases", type=int, help="how many cases of each fuzzer, however long")
    parser.add_argument("--seed", type=int, default=0, help="of all cases (0)")
    parser.add_argument("--only", choices=list(FUZZERS), help="this fuzzer alone")
    parser.add_argument("--case", type=int, help="repeat one case, of the fuzzer that --only names")
    given = parser.parse_args(arguments)
    if given.case is not None and given.only is None:
        parser.error("--case needs --only, the fuzzer whose case it is")
    return given


def _one(name: str, seed: int) -> int:
    outcome = attempt(name, FUZZERS[name], seed)
    if isinstance(outcome, Failure):
        print(outcome.what)  # all of it
        return 1
    print(outcome)
    return 0


def _progress(tallies: Sequence[Tally]) -> str:
    cases = ", ".join(f"{tally.name} {tally.cases}" for tally in tallies)
    failures = sum(len(tally.failures) for tally in tallies)
    return f"... {cases}; failures: {failures}"


def _summary(tallies: Sequence[Tally]) -> str:
    head = f"{'fuzzer':<14}{'cases':>8}{'seconds':>9}{'failures':>10}  what happened"
    lines = ["", head, *map(str, tallies)]
    failures = [failure for tally in tallies for failure in tally.failures]
    cases = sum(tally.cases for tally in tallies)
    lines += ["", f"{cases} cases, {len(failures)} failures", *map(str, failures)]
    return "\n".join(lines)
