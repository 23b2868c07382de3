"""Fig. 1: Inexact FedSplit from its own start and from x_s."""

from pathlib import Path

import numpy as np

from pdmm.paper import fig1
from pdmm.paper.findings.verdicts import FAILS, Claim, Runs, problem_size, verdict
from pdmm.paper.store import Columns
from pdmm.report.document import Section
from pdmm.report.paper_figures import Curve, Panel, grid

NAMES = {"anchor": "Inexact FedSplit", "server": "Inexact FedSplit, from x_s"}
SETTLED = 50  # the round after which a run that stalls does not move

By = dict[tuple[int, str], Columns]  # local steps, start


def section(runs: Runs, out: Path, quick: bool) -> Section:
    """Inexact FedSplit from both starts."""
    by: By = {}
    for job, columns in runs:
        settings = job.parameters["settings"]
        by[settings["local_steps"], settings["start"]] = columns
    panels = [_panel(by, K) for K in fig1.KS]
    figures = grid([panels], [""], "round", "gap F(x_s) - F*", out / "fig1")
    first_job = runs[0][0]
    settings = first_job.parameters["settings"]
    return Section(
        "Fig. 1: Inexact FedSplit",
        text=[
            f"{problem_size(first_job)}; gamma = 1/(n - d) = {settings['gamma']:.4g}, which is "
            f"1/sqrt(L mu) of such data, and eta = {settings['step_size']:g}: the paper states "
            "neither."
        ],
        claims=[_stalls(by), _converges(by)],
        figures=figures[:1],
    )


def _panel(by: By, K: int) -> Panel:
    curves = []
    for start, name in NAMES.items():
        columns = by[K, start]
        curves.append(Curve(name, columns["round"], columns["gap"]))
    return Panel(f"K = {K}", curves)


def _start_gap(by: By) -> float:
    return float(by[1, "server"]["gap"][0])


def _stalls(by: By) -> Claim:
    gaps = {K: by[K, "anchor"]["gap"] for K in fig1.KS}
    still = all(np.isclose(gap[-1], gap[SETTLED], rtol=1e-6) for gap in gaps.values())
    ends = {K: float(gap[-1]) for K, gap in gaps.items()}
    high = min(ends.values()) > 1e-9 * _start_gap(by)
    return (
        "Inexact FedSplit does not converge for K = 1, 3 from its own start",
        verdict(still and high, FAILS),
        "stands at a gap of " + ", ".join(f"{gap:.2g} (K = {K})" for K, gap in ends.items()),
    )


def _converges(by: By) -> Claim:
    ends = {K: float(by[K, "server"]["gap"][-1]) for K in fig1.KS}
    return (
        "From x_s it converges for both",
        verdict(max(ends.values()) < 1e-20 * _start_gap(by), FAILS),
        "ends at " + ", ".join(f"{gap:.1e} (K = {K})" for K, gap in ends.items()),
    )
