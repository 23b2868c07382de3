"""Why a run stopped and what to do about it, in words."""

import warnings
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy.typing as npt

from pdmm.engines.clients import Clients
from pdmm.methods.base import Method
from pdmm.problems.block import Block
from pdmm.result import Certificate
from pdmm.run.certificate import refuted_client


class Ended(Enum):
    """Where an objective ended."""

    BELOW = "at its start or below"
    ABOVE = "above its start"
    FAR_ABOVE = "far above its start"


def ended(objective: npt.NDArray[Any]) -> Ended:
    """Where the objective ended, compared with where it began and how far it had come down."""
    first = float(objective[0])
    rise = float(objective[-1]) - first
    fall = first - float(objective.min())
    if not rise > 1e-3 * fall + 1e-9 * abs(first):
        return Ended.BELOW
    return Ended.FAR_ABOVE if rise > 9 * max(abs(first), fall) else Ended.ABOVE


def last_third(objective: npt.NDArray[Any]) -> float:
    """By how much the last third of the rows is better than those before, at its best."""
    third = max(1, len(objective) // 3)
    return float(objective[:-third].min() - objective[-third:].min())


def stands_still(objective: npt.NDArray[Any], slope: float, L: float) -> bool:
    """Whether the last third of a run has lowered F by less than one safe step would.

    Args:
        objective: F along the run.
        slope: ‖grad F‖ at its end, from where a gradient step of 1/L lowers F by ‖grad F‖²/(2 L).
        L: of F.
    """
    if len(objective) < 6 or not L > 0:
        return False
    one_step = slope * (slope / (2 * L))
    return last_third(objective) < one_step and one_step > 1e-9 * float(
        objective[0] - objective.min()
    )


def steps_too_long(method: Method, clients: Clients) -> bool:
    """Whether the method's step size is above what is safe, as far as L is known."""
    step = getattr(method, "step_size", None)
    if step is None:
        return False
    try:
        L = float(clients.smoothness().clients.max())
    except ValueError:  # a client that fails by now, or of which it is not known
        return False
    return L > 0 and step > method.step_limit(1 / L)[1] * (1 + 1e-9)


def why_diverged(r: int, size: float, client: int | None, method: Method, clients: Clients) -> str:
    """What was seen when the run diverged, and what to do."""
    what = f"‖x_s‖ = {size:.3g}"
    if client is not None:
        what += f", the upload of client {client} is not finite"
    return f"diverged in round {r}: {what}. " + advice(method, clients)


def advice(method: Method, clients: Clients) -> str:
    """What step size would be safe, if the method has one and L is known."""
    step = getattr(method, "step_size", None)
    if step is None:
        return "Are all f_i convex? If they are, more rounds or another rho will bring it down"
    try:
        smoothness = clients.smoothness()
        one_over_l = 1 / float(smoothness.clients.max())
    except (ValueError, ZeroDivisionError):  # a client that fails by now, or nothing but constants
        return f"step_size={step:g} may be too large: it should be at most 1/L"
    if smoothness.kind == "estimate":
        about = method.step_limit(one_over_l)[1]
        return f"step_size={step:g} may be too large: at most 1/L, about {about:.2g}, is safe"
    name, safe = method.step_limit(one_over_l)
    if step <= safe:
        doubt = " and the given smoothness right" if smoothness.kind == "given" else ""
        return f"step_size={step:g} is within {name} = {safe:.3g}: are all f_i convex{doubt}?"
    return f"step_size={step:g} is too large: at most {name} = {safe:.3g} is safe"


def start_is_optimal(certificate: Certificate) -> str:
    """Why a run did not begin."""
    assumed = f", {certificate.proviso}" if certificate.proviso else ""
    return f"the start is optimal, to rounding{assumed}"


def certified(
    certificate: Certificate, r: int, tolerance: float | None, likelihood: bool = False
) -> str:
    """Why a run with a tolerance stopped.

    Args:
        certificate: of its last point.
        r: its last round.
        tolerance: None is that of a likelihood, in standard errors.
        likelihood: whether F is one, which need not have a minimum.
    """
    if tolerance is None:
        why = (
            ""
            if certificate.gap is None or not certificate.at_rounding
            else (", which is rounding")
        )
        return f"certified after round {r}: {what_is_known(certificate)}{why}"
    why = f"the gap below tolerance={tolerance:g} times its first value"
    if certificate.gap is None:
        why = f"below tolerance={tolerance:g} times its first value"
    if certificate.at_rounding:
        why = "which is rounding"
    if certificate.gap is None and likelihood:
        return (
            f"stopped after round {r}: {what_is_known(certificate)}, {why}. That proves no "
            "optimum, and where outcomes are separated there is none: a proof needs "
            "curvature='full', or an l2 penalty on every entry of x"
        )
    word = "certified stationary" if certificate.gap is None else "certified"
    return f"{word} after round {r}: {what_is_known(certificate)}, {why}"


def what_is_known(certificate: Certificate) -> str:
    """What a certificate says of x, in words, with what it assumes before it."""
    assumed = f"{certificate.proviso}, " if certificate.proviso else ""
    return f"{assumed}{_proven(certificate)}"


def _proven(certificate: Certificate) -> str:
    if certificate.gap is None:
        return f"‖grad F(x)‖ is {certificate.stationarity:.3g}"
    if certificate.standard_errors is not None:
        return (
            f"F(x) - F* is proven to be at most {certificate.gap:.3g}, and no coefficient further "
            f"from its optimum than {certificate.standard_errors:.3g} of its standard errors"
        )
    return (
        f"F(x) - F* is proven to be at most {certificate.gap:.3g}, and ‖x - x*‖ at most "
        f"{certificate.distance:.3g}"
    )


def warn(clients: Clients, method: Method, worst: float, quiet: bool = False) -> None:
    """Warn of exact steps that were not, and of functions that are not what they should be.

    Of the members of a team, who all find the same, only one is not ``quiet``.
    """
    for doubt in _doubts(clients, method, worst):
        if not quiet:
            warnings.warn(doubt, RuntimeWarning, stacklevel=5)  # the call of pdmm.solve


def _doubts(clients: Clients, method: Method, worst: float) -> Iterator[str]:
    if worst > Block.tolerance:
        yield (
            f"an exact step of {type(method).__name__} stopped at a relative residual of "
            f"{worst:.1e}, above the tolerance {Block.tolerance:.0e}: "
            "see history['exact_error']"
        )
        return  # gradients that are only noisy look bent too
    bent = clients.negative_curvature()
    refuted = refuted_client(clients) if bent is None else None
    if refuted is not None:
        yield (
            f"strong_convexity of client {refuted} was given as "
            f"{clients.strong_convexity().clients[refuted]:g}, but its gradients show less: "
            "the certificate has no bound"
        )
    if bent is not None:
        client, curvature = bent
        yield (
            f"f_{client} (client {client}) is not convex: between two of its gradients the "
            f"curvature was {curvature:.2g}. What was found is at best a stationary point; "
            f"check gradient[{client}], or add a strongly convex term"
        )
