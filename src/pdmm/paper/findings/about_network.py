"""A sensor network without a server: transmissions to accuracy, and pictures."""

from pathlib import Path
from typing import Any

import numpy as np

from pdmm.paper import network
from pdmm.paper.findings.verdicts import Runs, Table
from pdmm.paper.network import ACCURACY, AUTO, GOSSIP, LOSSES, METHODS, Sensors, Vector, sent_until
from pdmm.paper.store import Columns
from pdmm.report.document import Section
from pdmm.report.network_figures import Strip, snapshots
from pdmm.report.paper_figures import Curve, Panel, grid

SHOWN = 0  # the network in the figures
BROADCAST = ", broadcast"
PICTURES = (0, 10, 25, 50, 100)  # when they are taken, in messages over each link and direction
By = dict[tuple[str, float, int], Columns]  # method, loss, seed


def section(runs: Runs, out: Path, quick: bool) -> Section:
    """Transmissions to accuracy, curves, and pictures of the network."""
    by: By = {}
    for job, columns in runs:
        p = job.parameters
        by[p["method"], p["settings"]["loss"], p["problem"]["seed"]] = columns
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
            f"have sent it. Then PDMM needs {heard} transmissions, one for each node and "
            "iteration.",
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
    strips = []
    for name, options in METHODS.items():
        rho = float(by[name, 0.0, SHOWN]["rho"][0])
        strips.append(Strip(name, _errors(setting, options, rho)))
    strips.append(Strip(GOSSIP, _gossip_errors(setting, [times * once for times in PICTURES])))
    sent = [_count(times * once) for times in PICTURES[1:]]
    first = np.abs(setting.readings - setting.readings.mean())
    return snapshots(
        strips,
        ["start", *(f"{count} transmissions" for count in sent)],
        setting.positions,
        np.array(setting.graph.edges),
        1e-6,
        float(first.max()),
        "a node's error",
        out / "network_nodes",
    )[0]


def _errors(setting: Sensors, options: dict[str, Any], rho: float) -> list[Vector]:
    """The nodes' errors at the times of the pictures; an iteration uses every link both ways."""
    kept: dict[int, Vector] = {0: setting.readings}

    def keep(k: int, x: Any) -> bool:
        kept[k] = np.asarray(x)[:, 0]
        return k >= PICTURES[-1]

    network.solve(setting, options, rho, 0.0, callback=keep, record_every=network.ITERATIONS)
    mean = float(setting.readings.mean())
    return [np.abs(kept[k] - mean) for k in PICTURES]


def _gossip_errors(setting: Sensors, times: list[int]) -> list[Vector]:
    """The nodes' errors by gossip, after so many transmissions."""
    x = setting.readings.copy()
    mean = float(setting.readings.mean())
    errors: list[Vector] = []
    for sent in network.gossip_steps(setting, x, 0.0, seed=0):
        if sent >= times[len(errors)]:
            errors.append(np.abs(x - mean))
        if len(errors) == len(times):
            break
    return errors


def _median(by: By, name: str, loss: float, seeds: list[int], what: str = "messages") -> float:
    return float(np.median([sent_until(by[name, loss, seed], ACCURACY, what) for seed in seeds]))


def _count(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "never"


def _table(by: By, seeds: list[int]) -> Table:
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
