"""What the sensor network shows."""

from pathlib import Path
from typing import Any

import numpy as np

from pdmm.paper import network
from pdmm.paper.findings import Runs
from pdmm.paper.network import ACCURACY, AUTO, GOSSIP, LOSSES, METHODS, Sensors, sent_until
from pdmm.paper.store import Columns
from pdmm.report.document import Section
from pdmm.report.network_figures import Strip, snapshots
from pdmm.report.paper_figures import Curve, Panel, grid

SHOWN = 0  # the network in the figures
BROADCAST = ", broadcast"
By = dict[tuple[str, float, int], Columns]


def about_network(runs: Runs, out: Path, quick: bool) -> Section:
    """Transmissions to accuracy, curves, and pictures of the network."""
    by: By = {
        (
            job.parameters["method"],
            job.parameters["settings"]["loss"],
            job.parameters["problem"]["seed"],
        ): columns
        for job, columns in runs
    }
    size = runs[0][0].parameters["problem"]["count"]
    setting = network.sensors(size, SHOWN)
    curves = _curves(by, out)
    pictures = _pictures(setting, by, out)
    seeds = sorted({seed for _, _, seed in by})
    edges = setting.graph.number_of_edges()
    end = _gossip_end(by, seeds)
    tried = max(job.parameters["settings"]["tried"] for job, _ in runs)
    heard = _count(_median(by, "PDMM", 0.0, seeds, "activations"))
    return Section(
        "A sensor network without a server",
        text=[
            f"{size} sensors in the unit square, connected within the radius that gives "
            f"{network.NEIGHBOURS} neighbours (the one in the figures has {edges} links), find "
            "the mean of their readings. All methods start at the readings. A transmission is a "
            "message from one node to one neighbour; rho of PDMM and ADMM is the best of "
            f"{tried} from {network.RHOS[0]:g} to {network.RHOS[1]:g}, for each "
            f"network anew. The table has medians over {len(seeds)} such networks, until the "
            f"error is {ACCURACY:g} of the first.",
            "Where every message is heard by all neighbours and none is lost, a node need only "
            "broadcast x_i: a neighbour j knows z_{j|i}, which it made itself, and so what i would "
            f"have sent it. Then PDMM needs {heard} transmissions, one a node and iteration.",
            f"With {LOSSES[1]:.0%} of all messages lost PDMM and ADMM still find the mean, only "
            f"later. Gossip does not: an exchange of which one half was lost changes the sum, and "
            f"it ends {end:.1g} of the first error away from the mean (median).",
        ],
        tables=[_table(by, seeds)],
        figures=[curves, pictures],
    )


def _curves(by: By, out: Path) -> Path:
    panels = []
    for loss in LOSSES:
        shown: list[Curve] = []
        for name in (*METHODS, GOSSIP):
            c = by[name, loss, SHOWN]
            shown.append(Curve(name, c["messages"], c["error"]))
            if not loss and name in ("PDMM", "ADMM"):
                shown.append(Curve(name + BROADCAST, c["activations"], c["error"]))
        title = f"{loss:.0%} of the messages lost" if loss else "no losses"
        panels.append(Panel(title, [_after_start(c) for c in shown], log_across=True))
    return grid(
        [panels],
        [""],
        "transmissions",
        "error, part of the first",
        out / "network",
        floor=1e-10,
        panel_size=(3.6, 3.0),
    )[0]


def _after_start(curve: Curve) -> Curve:
    """Without the start, which a logarithmic axis cannot show."""
    return Curve(curve.name, curve.x[1:], curve.y[1:])


def _pictures(setting: Sensors, by: By, out: Path) -> Path:
    """Errors of the nodes after equally many transmissions."""
    once = 2 * setting.graph.number_of_edges()
    times = [times * once for times in (0, 10, 25, 50, 100)]
    mean = float(setting.readings.mean())
    strips = []
    for name, options in METHODS.items():
        rho = float(by[name, 0.0, SHOWN]["rho"][0])
        kept: dict[int, Any] = {0: setting.readings}

        def keep(k: int, x: Any, kept: dict[int, Any] = kept) -> bool:
            kept[k] = np.asarray(x)[:, 0]
            return bool(k * once >= times[-1])

        network.solve(setting, options, rho, 0.0, callback=keep, record_every=network.ITERATIONS)
        errors = [np.abs(kept[sent // once] - mean) for sent in times]
        strips.append(Strip(name, errors))
    x, errors, due = setting.readings.copy(), [], list(times)
    for sent in network.gossip_steps(setting, x, 0.0, seed=0):
        if due and sent >= due[0]:
            errors.append(np.abs(x - mean))
            due.pop(0)
        if not due:
            break
    strips.append(Strip(GOSSIP, errors))
    titles = ["start", *(f"{_count(sent)} transmissions" for sent in times[1:])]
    edges = np.array(setting.graph.edges)
    return snapshots(
        strips,
        titles,
        setting.positions,
        edges,
        1e-6,
        float(np.abs(setting.readings - mean).max()),
        "a node's error",
        out / "network_nodes",
    )[0]


def _median(by: By, name: str, loss: float, seeds: list[int], what: str = "messages") -> float:
    return float(np.median([sent_until(by[name, loss, seed], ACCURACY, what) for seed in seeds]))


def _count(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "never"


def _table(by: By, seeds: list[int]) -> list[list[str]]:
    rows = [["transmissions", "no losses", *(f"{loss:.0%} lost" for loss in LOSSES[1:]), "rho"]]
    for name in (*METHODS, AUTO, GOSSIP):
        rho = [float(by[name, 0.0, seed]["rho"][0]) for seed in seeds]
        shown = "" if name == GOSSIP else f"{min(rho):.2g} .. {max(rho):.2g}"
        rows.append([name, *(_count(_median(by, name, p, seeds)) for p in LOSSES), shown])
    for name in ("PDMM", "ADMM"):
        sent = _count(_median(by, name, 0.0, seeds, "activations"))
        rows.append([name + BROADCAST, sent, "", ""])
    return rows


def _gossip_end(by: By, seeds: list[int]) -> float:
    return float(np.median([by[GOSSIP, LOSSES[1], seed]["error"][-1] for seed in seeds]))
