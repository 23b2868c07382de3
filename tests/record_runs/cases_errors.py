"""Runs that end in an error: its type, its words, its notes, and the history until then."""

from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.cases_methods import SQUARES
from record_runs.registry import Case, M, add_cases


def not_finite(clients: Any) -> pdmm.Functions:
    """Functions of which client 3's gradient is no number beyond a point."""
    values, gradients = p.smooth(clients)
    plain = gradients[3]
    gradients[3] = lambda x: plain(x) if x[0] > -0.6 else np.nan * x
    return pdmm.Functions(values, gradients, p.D)


def wrong_shape(clients: Any) -> pdmm.Functions:
    """Functions of which client 2's gradient is too short."""
    values, gradients = p.smooth(clients)
    plain = gradients[2]
    gradients[2] = lambda x: plain(x)[:-1]
    return pdmm.Functions(values, gradients, p.D)


def raises(r: int, x: Any) -> None:
    """A callback of a user that fails."""
    if r == 4:
        raise KeyError("no such round")


def not_made(clients: Any) -> pdmm.Lazy:
    """Clients of which one cannot be made."""

    def make(i: int) -> pdmm.Problem:
        if i == 7:
            raise OSError("no such phone")
        return p.squares([i])

    return pdmm.Lazy(M, make)


AG, EXACT = SQUARES["agpdmm"], SQUARES["pdmm"]
ERRORS: dict[str, Case] = {
    "gradient": (lambda c: p.breaking(c, 30), pdmm.AGPDMM(0.3, 3), {"rounds": 20}),
    "gradient pdmm": (lambda c: p.breaking(c, 30), pdmm.PDMM(rho=1.0), {"rounds": 20}),
    "gradient of some": (
        lambda c: p.breaking(c, 12),
        pdmm.GPDMM(0.3, 3),
        {"rounds": 30, "participation": 0.5, "loss": 0.2, "bits": 8},
    ),
    "gradient in a certificate": (
        lambda c: p.breaking(c, 16),
        pdmm.GradientDescent(0.3),
        {"rounds": 20, "tolerance": 1e-12, "check_every": 1, "record_every": 100},
    ),
    "gradient automatic": (lambda c: p.breaking(c, 40), None, {"tolerance": 1e-14}),
    "gradient at the start": (lambda c: p.breaking(c, 0), pdmm.AGPDMM(0.3, 3), {"rounds": 5}),
    "value": (lambda c: p.breaking(c, 6, "value"), pdmm.AGPDMM(0.3, 3), {"rounds": 20}),
    "value at the end": (
        lambda c: p.breaking(c, 3, "value"),
        pdmm.AGPDMM(0.3, 3),
        {"rounds": 8, "record_every": 4},
    ),
    "gradient not finite": (not_finite, pdmm.AGPDMM(0.3, 3), {"rounds": 20}),
    "gradient not finite pdmm": (not_finite, pdmm.PDMM(rho=1.0), {"rounds": 20}),
    "gradient of wrong shape": (wrong_shape, pdmm.AGPDMM(0.3, 3), {"rounds": 5}),
    "callback": (p.squares, AG, {"rounds": 10, "callback": raises}),
    "client not made": (not_made, AG, {"rounds": 20, "participation": [[0, 1], [2], [6, 7, 8]]}),
    "scaffold regulariser": (p.squares, SQUARES["scaffold"], {"regulariser": pdmm.L1(1.0)}),
    "anderson of some": (p.squares, pdmm.PDMM(acceleration="anderson"), {"participation": 0.5}),
    "steps of pdmm": (p.squares, EXACT, {"local_steps": [1] * M}),
    "bits": (p.squares, AG, {"bits": 17}),
    "weights": (p.squares, AG, {"weights": [1.0, 2.0]}),
    "x0": (p.squares, AG, {"x0": np.ones(3)}),
    "participation": (p.squares, AG, {"participation": 1.5}),
    "clients nobody knows": (p.squares, AG, {"participation": [[0], [12]]}),
    "optimum outside the box": (
        p.squares,
        EXACT,
        {"optimum": np.full(p.D, 2.0), "regulariser": pdmm.Box(0.0, 1.0)},
    ),
}
add_cases("errors", ERRORS)
