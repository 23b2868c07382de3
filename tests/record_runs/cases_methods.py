"""Every method, plain and with its options, on least squares and on a softmax regression."""

from dataclasses import replace
from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.registry import Case, M, add_cases

FAMILY = ("agpdmm", "gpdmm mean", "gpdmm last", "pdmm", "fedsplit", "inexact", "inexact server")


def methods(step: float, rho: float, steps: int = 4) -> dict[str, Any]:
    """Every method, with steps that suit a problem."""
    given: dict[str, Any] = {"step_size": step, "local_steps": steps}
    split = {**given, "gamma": 1 / rho, "step_size": 1 / (1 / step + rho)}
    return {
        "agpdmm": pdmm.AGPDMM(**given),
        "gpdmm mean": pdmm.GPDMM(**given),
        "gpdmm last": pdmm.GPDMM(**given, iterate="last"),
        "pdmm": pdmm.PDMM(rho=rho),
        "fedsplit": pdmm.FedSplit(gamma=1 / rho),
        "inexact": pdmm.InexactFedSplit(**split),
        "inexact server": pdmm.InexactFedSplit(**split, start="server"),
        "scaffold": pdmm.Scaffold(**given),
        "scaffold control": pdmm.Scaffold(**given, server_step=0.8, send_control=True),
        "fedavg": pdmm.FedAvg(**given),
        "descent": pdmm.GradientDescent(step_size=step),
    }


AUTO: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(rho="auto"),
    "agpdmm paper": pdmm.AGPDMM(),
    "gpdmm mean": pdmm.GPDMM(rho="auto"),
    "gpdmm last": pdmm.GPDMM(rho="auto", iterate="last"),
    "gpdmm some": pdmm.GPDMM(rho="auto", step_size=1e-3, local_steps=3),
    "pdmm": pdmm.PDMM(),
    "fedsplit": pdmm.FedSplit(),
    "inexact": pdmm.InexactFedSplit(),
    "inexact server": pdmm.InexactFedSplit(start="server"),
    "scaffold": pdmm.Scaffold(),
    "fedavg": pdmm.FedAvg(),
    "descent": pdmm.GradientDescent(),
}
SQUARES, SOFTMAX = methods(2e-3, 40.0), methods(0.3, 0.4)

add_cases(
    "squares", {name: (p.squares, method, {"rounds": 25}) for name, method in SQUARES.items()}, True
)
add_cases(
    "squares32", {name: (p.squares32, m, {"rounds": 20}) for name, m in SQUARES.items()}, True
)
add_cases("softmax", {name: (p.softmax, m, {"rounds": 12}) for name, m in SOFTMAX.items()}, True)
add_cases(
    "relaxed",
    {
        name: (p.squares, replace(SQUARES[name], relaxation=relaxation), {"rounds": 20})
        for name, relaxation in zip(FAMILY, (0.5, 0.7, 0.5, 0.5, 0.8, 0.5, 0.9), strict=True)
    },
    True,
)
add_cases(
    "anderson",
    {
        name: (p.squares, replace(SQUARES[name], acceleration="anderson"), {"rounds": 20})
        for name in FAMILY
    },
    True,
)
add_cases("own parameters", {n: (p.squares, m, {"rounds": 25}) for n, m in AUTO.items()}, True)
add_cases(
    "own parameters softmax",
    {name: (p.softmax, m, {"rounds": 15}) for name, m in AUTO.items()},
)
add_cases(
    "own parameters and anderson",
    {
        name: (
            p.softmax if name == "gpdmm mean" else p.squares,
            replace(AUTO[name], acceleration="anderson", relaxation=0.95),
            {"rounds": 25},
        )
        for name in FAMILY
    },
    True,
)

AG = SQUARES["agpdmm"]
W = np.linspace(0.5, 2.0, M)
OPTIONS: dict[str, Case] = {
    "weights agpdmm": (p.squares, AG, {"rounds": 20, "weights": W}),
    "weights pdmm": (p.squares, SQUARES["pdmm"], {"rounds": 20, "weights": W}),
    "weights scaffold": (p.squares, SQUARES["scaffold"], {"rounds": 20, "weights": W}),
    "weights fedavg softmax": (p.softmax, SOFTMAX["fedavg"], {"rounds": 12, "weights": W}),
    "l1 pdmm": (p.squares, SQUARES["pdmm"], {"rounds": 30, "regulariser": pdmm.L1(300.0)}),
    "l1 agpdmm weights": (
        p.squares,
        AG,
        {"rounds": 30, "regulariser": pdmm.L1(100.0), "weights": W, "tolerance": 1e-9},
    ),
    "l1 descent": (p.squares, SQUARES["descent"], {"rounds": 20, "regulariser": pdmm.L1(50.0)}),
    "ridge gpdmm": (
        p.squares,
        SQUARES["gpdmm mean"],
        {"rounds": 20, "regulariser": pdmm.SquaredL2(30.0)},
    ),
    "ridge descent weights": (
        p.softmax,
        SOFTMAX["descent"],
        {"rounds": 15, "regulariser": pdmm.SquaredL2(0.5), "weights": W},
    ),
    "box pdmm": (p.squares, SQUARES["pdmm"], {"rounds": 30, "regulariser": pdmm.Box(-0.5, 1.0)}),
    "box agpdmm float32": (
        p.squares32,
        AG,
        {"rounds": 20, "regulariser": pdmm.Box(np.linspace(-1, 0, p.D), np.inf)},
    ),
    "x0": (p.squares, AG, {"rounds": 10, "x0": np.arange(p.D) - 2.0}),
    "x0 gpdmm softmax": (
        p.softmax,
        SOFTMAX["gpdmm last"],
        {"rounds": 10, "x0": np.linspace(-1, 1, 10), "record_every": 3},
    ),
    "tolerance": (p.squares, SQUARES["pdmm"], {"rounds": 200, "tolerance": 1e-10}),
    "tolerance softmax": (
        p.softmax,
        pdmm.AGPDMM(rho="auto"),
        {"rounds": 80, "tolerance": 1e-6, "check_every": 3, "record_every": 4},
    ),
    "tolerance not reached": (p.squares, SQUARES["fedavg"], {"rounds": 22, "tolerance": 1e-12}),
    "record every": (p.squares, AG, {"rounds": 23, "record_every": 7}),
    "record at the end": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 9, "record_every": 100}),
    "optimum value": (p.softmax, SOFTMAX["pdmm"], {"rounds": 10, "optimum": 4.0}),
    "optimum point": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 10, "optimum": np.zeros(10)}),
    "optimum point l1": (
        p.squares,
        SQUARES["pdmm"],
        {"rounds": 10, "optimum": np.ones(p.D), "regulariser": pdmm.L1(10.0)},
    ),
    "optimum false": (p.squares, AG, {"rounds": 10, "optimum": False}),
    "optimum false wide": (p.wide, pdmm.PDMM(rho=2.0), {"rounds": 10, "optimum": False}),
    "callback stops": (
        p.squares,
        AG,
        {"rounds": 30, "callback": lambda r, x: r == 8, "record_every": 5},
    ),
    "callback stops tolerance": (
        p.softmax,
        pdmm.GPDMM(rho="auto"),
        {"rounds": 30, "callback": lambda r, x: r == 7, "tolerance": 1e-9},
    ),
    "diverges": (p.squares, pdmm.FedAvg(step_size=1.0, local_steps=9), {"rounds": 60}),
    "diverges agpdmm": (p.squares, pdmm.AGPDMM(step_size=1.0, local_steps=5), {"rounds": 60}),
    "diverges float32": (p.squares32, pdmm.Scaffold(step_size=0.5, local_steps=5), {"rounds": 60}),
    "diverges softmax": (p.softmax, pdmm.GradientDescent(step_size=1e6), {"rounds": 40}),
    "too long a step beside an auto": (
        p.squares,
        pdmm.GPDMM(step_size=0.01, rho="auto"),
        {"rounds": 15},
    ),
    "batches agpdmm": (p.batches, SOFTMAX["agpdmm"], {"rounds": 15, "record_every": 2}),
    "batches gpdmm": (p.batches, SOFTMAX["gpdmm mean"], {"rounds": 15, "weights": W}),
    "batches scaffold": (p.batches, SOFTMAX["scaffold"], {"rounds": 15}),
    "batches fedavg": (p.batches, SOFTMAX["fedavg"], {"rounds": 15}),
    "softmax32 pdmm": (p.softmax32, SOFTMAX["pdmm"], {"rounds": 10}),
    "softmax32 agpdmm": (p.softmax32, SOFTMAX["agpdmm"], {"rounds": 10}),
    "stacked agpdmm": (p.stacked, pdmm.AGPDMM(0.02, 5), {"rounds": 20}),
    "stacked pdmm": (p.stacked, pdmm.PDMM(rho=8.0), {"rounds": 20}),
    "wide pdmm": (p.wide, pdmm.PDMM(rho=2.0), {"rounds": 30}),
    "wide agpdmm": (p.wide, pdmm.AGPDMM(0.01, 7), {"rounds": 20}),
    "wide scaffold": (p.wide, pdmm.Scaffold(0.01, 3), {"rounds": 20}),
    "ragged pdmm": (p.ragged, pdmm.PDMM(rho=5.0), {"rounds": 20}),
    "ragged gpdmm": (p.ragged, pdmm.GPDMM(0.01, 5), {"rounds": 20}),
    "factorised pdmm": (p.factorised, pdmm.PDMM(rho=20.0), {"rounds": 20}),
    "factorised agpdmm": (p.factorised, pdmm.AGPDMM(0.01, 20), {"rounds": 20}),
    "factorised descent": (p.factorised, pdmm.GradientDescent(0.01), {"rounds": 20}),
    "functions pdmm": (p.functions, pdmm.PDMM(rho=1.1), {"rounds": 12}),
    "functions agpdmm": (p.functions, pdmm.AGPDMM(0.4, 3), {"rounds": 15}),
    "functions gpdmm": (p.functions, pdmm.GPDMM(0.4, 3), {"rounds": 15, "threads": 2}),
    "functions descent": (p.functions, pdmm.GradientDescent(0.4), {"rounds": 15}),
    "functions prox": (p.with_prox, pdmm.PDMM(rho=0.7, relaxation=0.8), {"rounds": 40}),
    "diagonals pdmm": (p.diagonals, pdmm.PDMM(rho=2.0), {"rounds": 20}),
    "diagonals agpdmm": (p.diagonals, pdmm.AGPDMM(0.08, 5), {"rounds": 20}),
    "matrices fedsplit": (p.matrices, pdmm.FedSplit(gamma=0.4), {"rounds": 20}),
    "matrices gpdmm float32": (p.matrices32, pdmm.GPDMM(0.05, 5), {"rounds": 20}),
    "averaging": (p.averaging, pdmm.PDMM(rho=1.0), {"rounds": 10}),
    "absolute": (p.absolute, pdmm.PDMM(rho=1.0, relaxation=0.9), {"rounds": 60}),
    "zero": (p.zero, pdmm.PDMM(rho=1.0), {"rounds": 3, "x0": np.array([1.0, -2.0, 3.0])}),
}
add_cases("options", OPTIONS)

for threads in (1, 2):
    given: dict[str, Any] = {"threads": threads}
    add_cases(
        f"threads {threads}",
        {
            "many agpdmm": (p.many, pdmm.AGPDMM(0.05, 4), {"rounds": 8, **given}),
            "many auto": (p.many, None, {"rounds": 8, **given}),
            "many participation": (
                p.many,
                pdmm.PDMM(rho=3.0),
                {"rounds": 10, "participation": 0.3, "loss": 0.1, "bits": 6, **given},
            ),
            "ragged auto": (p.ragged, None, given),
            "softmax": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 10, **given}),
            "functions": (p.functions, pdmm.AGPDMM(rho="auto"), {"rounds": 10, **given}),
        },
    )
