"""Nothing chosen but the problem: methods, parameters and tolerances that choose themselves."""

from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.registry import Case, M, add_cases

W = np.linspace(0.5, 2.0, M)


def nothing_chosen(make: Any, **given: Any) -> Case:
    """A case without a method."""
    return make, None, given


AUTOMATIC: dict[str, Case] = {
    "squares": nothing_chosen(p.squares),
    "squares float32": nothing_chosen(p.squares32),
    "squares weights": nothing_chosen(p.squares, weights=W),
    "squares l1": nothing_chosen(p.squares, regulariser=pdmm.L1(200.0)),
    "squares ridge": nothing_chosen(p.squares, regulariser=pdmm.SquaredL2(50.0)),
    "squares box": nothing_chosen(p.squares, regulariser=pdmm.Box(-0.3, 1.0), rounds=80),
    "squares x0": nothing_chosen(p.squares, x0=np.full(p.D, 100.0), check_every=2),
    "squares tolerance": nothing_chosen(p.squares, tolerance=1e-4),
    "squares few rounds": nothing_chosen(p.squares, rounds=4),
    "squares optimum false": nothing_chosen(p.squares, optimum=False),
    "stacked": nothing_chosen(p.stacked),
    "wide": nothing_chosen(p.wide),
    "ragged": nothing_chosen(p.ragged),
    "ragged weights ridge": nothing_chosen(p.ragged, weights=W, regulariser=pdmm.SquaredL2(2.0)),
    "factorised": nothing_chosen(p.factorised),
    "softmax": nothing_chosen(p.softmax),
    "softmax float32": nothing_chosen(p.softmax32),
    "softmax without l2": nothing_chosen(lambda c: p.softmax(c, l2=0.0), rounds=25),
    "softmax l1 weights": nothing_chosen(p.softmax, weights=W, regulariser=pdmm.L1(0.5), rounds=60),
    "functions": nothing_chosen(p.functions, tolerance=1e-10),
    "functions prox": nothing_chosen(p.with_prox, rounds=80),
    "functions known": nothing_chosen(p.known),
    "functions too convex": nothing_chosen(p.too_convex, rounds=30, x0=np.full(p.D, -3.0)),
    "functions not convex": nothing_chosen(p.not_convex, rounds=30, x0=np.full(2, 9.0)),
    "diagonals": nothing_chosen(p.diagonals),
    "matrices": nothing_chosen(p.matrices),
    "matrices float32": nothing_chosen(p.matrices32),
    "averaging": nothing_chosen(p.averaging),
    "absolute": nothing_chosen(p.absolute, rounds=80),
    "zero": nothing_chosen(p.zero, x0=np.array([1.0, 2.0, 3.0])),
    "some take part": nothing_chosen(p.squares, participation=0.5, rounds=120),
    "losses and bits": nothing_chosen(p.squares, loss=0.2, bits=6, rounds=120),
    "softmax some take part": nothing_chosen(p.softmax, participation=6, rounds=40, loss=0.1),
    "functions some take part": nothing_chosen(p.functions, participation=0.5, rounds=30),
    "state at the server": nothing_chosen(p.squares, state="server"),
}
add_cases("automatic", AUTOMATIC)

ESTIMATED: dict[str, Case] = {
    "agpdmm": (p.steepening, pdmm.AGPDMM(step_size="auto", local_steps=4), {"rounds": 20}),
    "agpdmm rho": (p.steepening, pdmm.AGPDMM(rho="auto"), {"rounds": 20, "tolerance": 1e-10}),
    "gpdmm anderson": (
        p.steepening,
        pdmm.GPDMM(rho="auto", acceleration="anderson"),
        {"rounds": 20},
    ),
    "inexact": (p.steepening, pdmm.InexactFedSplit(start="server"), {"rounds": 20}),
    "scaffold": (p.steepening, pdmm.Scaffold(), {"rounds": 20}),
    "fedavg": (p.steepening, pdmm.FedAvg(), {"rounds": 20}),
    "descent": (p.steepening, pdmm.GradientDescent(), {"rounds": 20}),
    "agpdmm links": (
        p.steepening,
        pdmm.AGPDMM(step_size="auto", local_steps=4),
        {"rounds": 40, "participation": 0.5, "loss": 0.2, "bits": 8},
    ),
    "functions agpdmm": (p.functions, pdmm.AGPDMM(rho="auto"), {"rounds": 20}),
    "functions known": (p.known, pdmm.AGPDMM(rho="auto"), {"rounds": 20, "tolerance": 1e-12}),
    "not convex, given": (
        lambda c: p.not_convex(c, strong_convexity=1.0, smoothness=3.0),
        pdmm.GradientDescent(0.3),
        {"rounds": 40, "x0": np.full(2, 9.0)},
    ),
    "not convex": (p.not_convex, pdmm.GPDMM(rho="auto"), {"rounds": 20, "x0": np.full(2, 9.0)}),
}
add_cases("estimated steps", ESTIMATED, traced=True)
