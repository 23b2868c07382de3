"""Why a run stopped and what to do about it, in words."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from pdmm.engines.clients import Clients
from pdmm.methods.base import Method
from pdmm.problems.block import Block
from pdmm.result import Certificate
from pdmm.run.certificate import refuted_client


def grows(objective: npt.NDArray[Any]) -> bool:
    """Whether the objective ended far above where it began, and was still growing."""
    middle = objective[len(objective) // 2]
    last = objective[-1]
    return bool(last > 10 * abs(objective[0]) and last > middle and len(objective) > 2)


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
        return "Are all f_i convex?"
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


def certified(certificate: Certificate, r: int, tolerance: float | None) -> str:
    """Why a run with a tolerance stopped."""
    why = f"below tolerance={tolerance:g} times its first value"
    if certificate.size <= certificate.rounding:
        why = "which is rounding"
    word = "certified stationary" if certificate.gap is None else "certified"
    return f"{word} after round {r}: {what_is_known(certificate)}, {why}"


def what_is_known(certificate: Certificate) -> str:
    """What a certificate says of x, in words."""
    if certificate.gap is None:
        return f"‖grad F(x)‖ is {certificate.size:.3g}"
    return f"F(x) - F* is proven to be at most {certificate.size:.3g}"


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
