"""Measures, prints, and writes the page if it is asked to."""

import argparse
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter

from rich.console import Console

from benchmarks.auto import write
from benchmarks.rounds import report
from benchmarks.rounds.columns import Row, measured
from benchmarks.rounds.goals import of_problems, of_tables
from benchmarks.rounds.targets import verdicts
from benchmarks.tables import installed, sources
from benchmarks.timing import heading
from pdmm.common.threads import Threads

PAGE = Path(__file__).parents[2] / "docs" / "tables_results.md"
QUICK = ("breast cancer, sorted, l2 = 1", "diabetes", "RAND", "lung", "spector", "polynomial")


def options() -> argparse.Namespace:
    words = argparse.ArgumentParser(prog="python -m benchmarks.rounds")
    words.add_argument("--quick", action="store_true", help="a few tables, and no sweeps")
    words.add_argument("--only", metavar="NAME", help="tables whose name begins so")
    words.add_argument("--no-sweeps", action="store_true", help="no method with swept step sizes")
    words.add_argument("--docs", action="store_true", help=f"write docs/{PAGE.name} too")
    return words.parse_args()


def rows(chosen: Callable[[str], bool], sweeps: bool, console: Console) -> Iterator[Row]:
    with Threads(1) as threads:
        for goal in chain(of_tables(chosen), of_problems(chosen, threads)):
            begun = perf_counter()
            row = measured(goal, sweeps)
            took = perf_counter() - begun
            console.print(f"  {goal.name}: {took:.1f} s", style="dim", highlight=False)
            yield row


def main() -> None:
    given = options()

    def chosen(name: str) -> bool:
        if given.only is not None:
            return name.startswith(given.only)
        return not given.quick or name in QUICK

    heading("Rounds on real tables, columns as they come")
    console = Console(width=160)
    for source in sources():
        if not installed(source):
            console.print(f"  {source} is not installed: its tables are left out")
    begun = perf_counter()
    found = list(rows(chosen, not (given.quick or given.no_sweeps), console))
    parts = {
        "rounds": report.rounds(found),
        "numbers": report.numbers(found),
        "seconds": report.seconds(found),
        "swept": report.swept(found),
        "ratios": report.ratios(found),
        "coarse": report.coarse(found),
    }
    titles = {
        "rounds": "Rounds to 1e-10 of the first gap",
        "numbers": "Numbers that each client sent",
        "seconds": "Seconds of one core",
        "swept": "Rounds of swept methods",
        "ratios": "The diagonal metric beside L-BFGS",
        "coarse": "Rounds to 1e-6 on the synthetic problems",
    }
    for name, (head, lines) in parts.items():
        if lines:
            console.print(report.table(titles[name], head, lines))
    judged = verdicts(found)
    for verdict in judged:
        colour = {"met": "green", "open": "yellow"}.get(verdict.word, "red")
        told = f"  [{colour}]{verdict.word:6s}[/] {verdict.asked}: [bold]{verdict.found}[/]"
        console.print(told, highlight=False)
    if given.docs:
        texts = {name: report.markdown(*part) for name, part in parts.items()}
        texts["verdicts"] = report.markdown(
            ["target", "verdict", "measured"], [list(verdict) for verdict in judged]
        )
        write(PAGE, texts)
    console.print(f"  {perf_counter() - begun:.0f} s", highlight=False)


if __name__ == "__main__":
    main()
