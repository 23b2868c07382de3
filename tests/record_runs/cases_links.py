"""Links that fail, clients that sleep, few bits, stragglers, clients made when they take part."""

from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.cases_methods import SOFTMAX, SQUARES, W
from record_runs.registry import Case, M, add_cases

AG, GP, EXACT = SQUARES["agpdmm"], SQUARES["gpdmm mean"], SQUARES["pdmm"]
SCAFFOLD, FEDAVG, DESCENT = SQUARES["scaffold"], SQUARES["fedavg"], SQUARES["descent"]
STEPS = [1 + i % 3 for i in range(M)]
TABLE = np.arange(5 * M).reshape(5, M) % 7 < 4
EVERYTHING: dict[str, Any] = {"participation": 0.5, "loss": 0.3, "bits": 4, "weights": W, "seed": 2}


def stragglers(r: int, i: int) -> int:
    """How many steps client i takes in round r."""
    return 1 + (r + i) % 4


def turn(r: int) -> Any:
    """Who takes part in round r: a few by name, or a number of them."""
    return [r % M, (3 * r) % M] if r % 2 else 0.4


LINKS: dict[str, Case] = {
    "fraction": (p.squares, AG, {"rounds": 40, "participation": 0.25, "seed": 3}),
    "count": (p.squares, GP, {"rounds": 40, "participation": 5}),
    "one": (p.squares, EXACT, {"rounds": 30, "participation": 1}),
    "list": (p.squares, AG, {"rounds": 20, "participation": [[0], [11, 3], 2, 0.5, [5, 6, 7]]}),
    "callable": (p.squares, GP, {"rounds": 25, "participation": turn}),
    "probabilities": (p.squares, AG, {"rounds": 30, "availability": np.linspace(0.2, 0.9, M)}),
    "one probability": (p.squares, EXACT, {"rounds": 20, "availability": 0.6}),
    "on and off": (p.squares, GP, {"rounds": 30, "availability": pdmm.OnOff(0.3, 0.5), "seed": 9}),
    "table": (p.squares, AG, {"rounds": 30, "availability": TABLE, "participation": 4}),
    "loss": (p.squares, AG, {"rounds": 30, "loss": 0.3}),
    "loss pdmm": (p.squares, EXACT, {"rounds": 30, "loss": 0.2, "weights": W}),
    "bursts": (p.squares, GP, {"rounds": 30, "loss": pdmm.Bursts(0.2, 0.4)}),
    "bursts of some": (
        p.squares,
        AG,
        {"rounds": 30, "loss": pdmm.Bursts(0.3, 0.3, 0.8, 0.05), "participation": 0.6},
    ),
    "nobody": (p.squares, AG, {"rounds": 15, "loss": pdmm.Bursts(0.5, 0.2), "participation": 1}),
    "2 bits": (p.squares, AG, {"rounds": 40, "bits": 2}),
    "3 bits raised": (p.squares, pdmm.GPDMM(2e-3, 2, rho=20.0), {"rounds": 300, "bits": 3}),
    "2 bits raised": (p.squares, GP, {"rounds": 250, "bits": 2, "record_every": 5}),
    "4 bits": (p.squares, AG, {"rounds": 40, "bits": 4}),
    "4 bits long": (p.squares, EXACT, {"rounds": 250, "bits": 4, "record_every": 10}),
    "8 bits": (p.squares, GP, {"rounds": 30, "bits": 8}),
    "16 bits": (p.squares, EXACT, {"rounds": 30, "bits": 16}),
    "6 bits tried in vain": (p.squares, FEDAVG, {"rounds": 250, "bits": 6, "record_every": 5}),
    "bits float32": (p.squares32, AG, {"rounds": 60, "bits": 5, "participation": 0.7}),
    "scaffold fraction": (p.squares, SCAFFOLD, {"rounds": 30, "participation": 0.4}),
    "scaffold loss": (p.squares, SCAFFOLD, {"rounds": 30, "loss": 0.3, "weights": W}),
    "scaffold bits": (p.squares, SCAFFOLD, {"rounds": 25, "bits": 8}),
    "scaffold everything": (p.squares, SCAFFOLD, {"rounds": 40, **EVERYTHING}),
    "scaffold control bits": (p.squares, SQUARES["scaffold control"], {"rounds": 25, "bits": 6}),
    "fedavg everything": (p.squares, FEDAVG, {"rounds": 40, **EVERYTHING}),
    "descent loss": (p.squares, DESCENT, {"rounds": 30, "loss": 0.3, "participation": 0.5}),
    "descent bits": (p.squares, DESCENT, {"rounds": 30, "bits": 4}),
    "fedsplit everything": (p.squares, SQUARES["fedsplit"], {"rounds": 40, **EVERYTHING}),
    "inexact everything": (p.squares, SQUARES["inexact server"], {"rounds": 40, **EVERYTHING}),
    "gpdmm last everything": (p.squares, SQUARES["gpdmm last"], {"rounds": 40, **EVERYTHING}),
    "agpdmm everything": (p.squares, AG, {"rounds": 60, **EVERYTHING}),
    "everything and more": (
        p.squares,
        GP,
        {
            **EVERYTHING,
            "rounds": 60,
            "availability": pdmm.OnOff(0.2, 0.6),
            "loss": pdmm.Bursts(0.1, 0.5),
            "local_steps": stragglers,
            "state": "server",
            "regulariser": pdmm.L1(20.0),
            "record_every": 4,
            "x0": np.ones(p.D),
        },
    ),
    "everything float32": (
        p.squares32,
        AG,
        {"rounds": 40, **EVERYTHING, "local_steps": STEPS, "regulariser": pdmm.SquaredL2(5.0)},
    ),
    "box of some": (
        p.squares,
        EXACT,
        {"rounds": 40, "participation": 0.5, "regulariser": pdmm.Box(-0.5, 1.0)},
    ),
    "steps of each": (p.squares, AG, {"rounds": 25, "local_steps": STEPS}),
    "steps of each scaffold": (p.squares, SCAFFOLD, {"rounds": 25, "local_steps": STEPS}),
    "steps of each fedavg": (p.squares, FEDAVG, {"rounds": 15, "local_steps": STEPS}),
    "stragglers": (p.squares, GP, {"rounds": 25, "local_steps": stragglers}),
    "stragglers softmax": (
        p.softmax,
        SOFTMAX["gpdmm last"],
        {"rounds": 15, "local_steps": stragglers, "availability": pdmm.OnOff(0.3, 0.5)},
    ),
    "server state": (p.squares, AG, {"rounds": 20, "state": "server", "participation": 0.5}),
    "server state bits": (p.squares, GP, {"rounds": 20, "state": "server", "bits": 4}),
    "server state loss": (p.squares, SCAFFOLD, {"rounds": 20, "state": "server", "loss": 0.2}),
    "server state anderson": (
        p.softmax,
        pdmm.GPDMM(rho="auto", acceleration="anderson"),
        {"rounds": 15, "state": "server"},
    ),
    "server state own rho": (p.softmax, pdmm.GPDMM(rho="auto"), {"rounds": 15, "state": "server"}),
    "own parameters": (
        p.squares,
        pdmm.AGPDMM(rho="auto"),
        {"rounds": 40, "participation": 0.5, "loss": 0.1, "tolerance": 1e-6},
    ),
    "tolerance": (
        p.squares,
        EXACT,
        {"rounds": 200, "participation": 0.5, "tolerance": 1e-6, "check_every": 7},
    ),
    "stopped": (
        p.squares,
        AG,
        {"rounds": 40, **EVERYTHING, "callback": lambda r, x: r == 13, "record_every": 5},
    ),
    "diverges": (p.squares, pdmm.AGPDMM(1.0, 5), {"rounds": 60, "participation": 0.5}),
    "diverges few bits": (p.squares, pdmm.FedAvg(1.0, 5), {"rounds": 60, "bits": 4}),
    "batches": (p.batches, SOFTMAX["agpdmm"], {"rounds": 20, "participation": 0.4, "loss": 0.2}),
    "batches stragglers": (p.batches, SOFTMAX["gpdmm mean"], {"rounds": 15, "local_steps": STEPS}),
    "softmax everything": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 20, **EVERYTHING}),
    "softmax pdmm": (p.softmax, SOFTMAX["pdmm"], {"rounds": 10, "participation": 0.5}),
    "functions": (p.functions, pdmm.AGPDMM(0.3, 3), {"rounds": 20, **EVERYTHING}),
    "functions pdmm": (p.functions, pdmm.PDMM(rho=1.0), {"rounds": 10, "participation": 0.4}),
    "prox of some": (
        p.with_prox,
        pdmm.PDMM(rho=0.7, relaxation=0.8),
        {"rounds": 40, "participation": 0.5, "loss": 0.2},
    ),
    "wide": (p.wide, pdmm.PDMM(rho=2.0), {"rounds": 30, "participation": 0.5, "bits": 8}),
    "ragged": (p.ragged, pdmm.AGPDMM(0.01, 5), {"rounds": 30, "participation": 0.5, "loss": 0.1}),
    "matrices": (p.matrices, pdmm.PDMM(rho=2.0), {"rounds": 30, "participation": 0.5, "bits": 6}),
    "absolute": (p.absolute, pdmm.PDMM(1.0, 0.9), {"rounds": 40, "participation": 0.5}),
}
add_cases("links", LINKS, traced=True)

SLOW = pdmm.AGPDMM(2e-3, 4, rho=40.0)
add_cases(
    "lazy",
    {
        "some": (p.lazy, SLOW, {"rounds": 20, "participation": 0.4}),
        "evaluated": (p.lazy_evaluated, SLOW, {"rounds": 20, "participation": 0.4}),
        "evaluated optimum": (
            p.lazy_evaluated,
            EXACT,
            {"rounds": 20, "participation": 3, "optimum": 1.0, "record_every": 3},
        ),
        "everything": (p.lazy_evaluated, GP, {"rounds": 30, **EVERYTHING}),
        "server state": (p.lazy, SCAFFOLD, {"rounds": 20, "participation": 3, "state": "server"}),
        "all": (p.lazy, DESCENT, {"rounds": 10}),
        "functions": (
            lambda c: pdmm.Lazy(len(c), lambda i: p.functions([i])),
            pdmm.AGPDMM(0.3, 3, rho=1.0),
            {"rounds": 15, "participation": 0.5, "local_steps": stragglers},
        ),
        "batches": (
            lambda c: pdmm.Lazy(len(c), lambda i: p.batches([i])),
            SOFTMAX["agpdmm"],
            {"rounds": 15, "participation": 0.5, "loss": 0.1},
        ),
        "tolerance": (p.lazy, SLOW, {"tolerance": 1e-3, "participation": 3}),
        "own parameters": (p.lazy, pdmm.AGPDMM(), {"participation": 3}),
        "diverges": (p.lazy, pdmm.FedAvg(1.0, 5), {"rounds": 40, "participation": 3}),
    },
    traced=True,
)
