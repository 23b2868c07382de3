"""The way of a round: which functions of pdmm are called in one round, from file to file.

``python -m benchmarks hops`` follows the third round of AGPDMM in one process, with full
participation and with losses, and prints every call as file and function, indented by depth. A
change of file is a call that lies in another file than the call before it. A call is what Python
itself counts as one: a generator each time that it is resumed, a comprehension where the
interpreter makes a function of it (up to Python 3.11).

Only the public calls of pdmm are used, so another version can be followed too:
``PYTHONPATH=/folder/of/it/src python -m benchmarks hops``.
"""

import argparse
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pdmm

ROOT = Path(pdmm.__file__).resolve().parent
FOLLOWED = 3  # the round; the first may prepare what later ones use
CASES: dict[str, dict[str, Any]] = {
    "full participation": {},
    "losses": {"loss": 0.3},
}


class Hop(NamedTuple):
    """A call: how many calls of pdmm it lies within, its file, and the function."""

    depth: int
    file: str
    function: str


class Follower:
    """Notes the calls of one round, from the end of the round before it to its own end."""

    def __init__(self, followed: int) -> None:
        self.followed = followed
        self.hops: list[Hop] = []

    def after_round(self, r: int, x: object) -> None:
        """For the callback of a run: begin, or stop, to listen."""
        if r == self.followed - 1:
            sys.setprofile(self._hear)
        elif r == self.followed:
            sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            file = str(path.relative_to(ROOT))
            self.hops.append(Hop(_depth(frame), file, code.co_qualname))

    @property
    def files(self) -> list[str]:
        """The file of every call, in order."""
        return [hop.file for hop in self.hops]

    @property
    def changes(self) -> int:
        """How often a call lies in another file than the one before it."""
        return sum(before != after for before, after in pairwise(self.files))


def _depth(frame: FrameType | None) -> int:
    depth = -1
    while frame is not None:
        depth += Path(frame.f_code.co_filename).is_relative_to(ROOT)
        frame = frame.f_back
    return depth


def follow(**links: Any) -> Follower:
    """Run AGPDMM for a few rounds on a small problem, and follow one of them."""
    problem = pdmm.LeastSquares.random(clients=10, samples=30, features=5, seed=0)
    method = pdmm.AGPDMM(step_size=0.005, local_steps=3)
    follower = Follower(FOLLOWED)
    try:
        pdmm.solve(
            problem,
            method,
            rounds=FOLLOWED + 1,
            callback=follower.after_round,
            threads=1,  # so that all calls are made by the thread that is listened to
            seed=0,
            **links,
        )
    finally:
        sys.setprofile(None)
    return follower


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hops", description=__doc__)
    parser.add_argument("--totals", action="store_true", help="without the list of calls")
    given = parser.parse_args()
    print(f"A round of AGPDMM in one process, pdmm in {ROOT}")
    for name, links in CASES.items():
        found = follow(**links)
        print(
            f"\nWith {name}: {len(found.hops)} calls in {len(set(found.files))} files "
            f"with {found.changes} changes of file"
        )
        if given.totals:
            continue
        outermost = min(hop.depth for hop in found.hops)
        for hop in found.hops:
            print(f"{'  ' * (hop.depth - outermost)}{hop.file} {hop.function}")
        print("Calls by file:")
        for file, count in Counter(found.files).most_common():
            print(f"{count:4d} {file}")


if __name__ == "__main__":
    main()
