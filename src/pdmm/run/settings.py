"""What ``pdmm.solve`` is asked for: checked once, at the edge, and of what goes together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import client_weights, finite, one_of, positive, vector, whole
from pdmm.engines.clients import Clients
from pdmm.engines.in_process import InProcess
from pdmm.links.links import Links
from pdmm.links.quantise import MOST_BITS
from pdmm.methods.base import Method
from pdmm.regularisers import Regulariser

ROUNDS = 100
LEVELS = ("none", "diagonal", "full")  # of what clients may reveal of their Hessians
LARGEST_FULL = 4000  # entries of x: its Hessian takes 128 MB
AUTO_ROUNDS = 400  # where the method is chosen too, and so the tolerance


@dataclass(frozen=True)
class Settings:
    """What :func:`pdmm.solve` was asked for, checked."""

    method: Method | None
    rounds: int
    x0: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    regulariser: Regulariser | None
    tolerance: float | None
    check_every: int
    optimum: Any
    seed: int
    record_every: int
    participation: Any
    availability: Any
    loss: Any
    bits: int | None
    local_steps: Any
    state: str
    curvature: str = "auto"


def checked(clients: Clients, **given: Any) -> Settings:
    """The arguments of ``solve``, refused or made what a run needs."""
    method = given["method"]
    start = _start(clients, method, given["x0"], given["regulariser"])
    if not clients.convex:
        check_not_convex(method, given["tolerance"])
    rounds = given["rounds"]
    if rounds is None:
        rounds = AUTO_ROUNDS if method is None else ROUNDS
    check_curvature(given["curvature"], method, clients, given["regulariser"])
    known_optimum(given["optimum"], clients.dimension)
    one_of("state", given["state"], ("clients", "server"))
    bits = given["bits"]
    if bits is not None:
        bits = whole("bits", bits, at_least=2)
        if bits > MOST_BITS:
            raise ValueError(f"bits must be from 2 to {MOST_BITS}, got {bits!r}")
    tolerance = given["tolerance"]
    if tolerance is not None and not clients.reaches_all:
        raise ValueError("tolerance needs certificates, which ask all clients: not those of a Lazy")
    made = {
        "regulariser": fitting_regulariser(given["regulariser"], clients),
        "rounds": whole("rounds", rounds, at_least=1),
        "x0": start,
        "weights": client_weights(given["weights"], clients.count),
        "tolerance": None if tolerance is None else positive("tolerance", tolerance),
        "check_every": whole("check_every", given["check_every"], at_least=1),
        "record_every": whole("record_every", given["record_every"], at_least=1),
        "bits": bits,
        "seed": whole("seed", given["seed"], at_least=0),
    }
    settings = Settings(**{**given, **made})
    if not isinstance(clients, InProcess):
        _check_no_links(settings, clients.count)
    return settings


def check_not_convex(method: Method | None, tolerance: Any) -> None:
    """Refuse what makes sense of convex functions alone, whose L and mu are known."""
    why = "the loss of this problem need not be convex"
    if method is None:
        raise ValueError(
            f"method must be given, because {why}, and nothing is known to choose one by: take "
            "e.g. pdmm.AGPDMM(step_size=0.05, local_steps=20)"
        )
    if tolerance is not None:
        raise ValueError(
            f"tolerance needs certificates, and there are none, because {why}: give rounds=, and "
            "a callback that stops the run, if need be"
        )
    if method.unsettled:
        raise ValueError(
            f"{method.unsettled[0]} cannot be 'auto', because {why}, so that it has no L and mu to "
            "choose by: give a number, e.g. pdmm.AGPDMM(step_size=0.05, local_steps=20)"
        )
    name = type(method).__name__
    if method.exact:
        raise ValueError(
            f"{name} has clients minimise exactly, which they cannot, because {why}: take "
            "pdmm.AGPDMM or pdmm.GPDMM, which take gradient steps"
        )
    if method.knows_its_end or getattr(method, "acceleration", None) is not None:
        what = name if method.knows_its_end else "acceleration"
        raise ValueError(
            f"{what} is for convex functions and exact gradients, and {why}: take e.g. "
            "pdmm.AGPDMM(step_size=0.05, local_steps=20)"
        )


def check_curvature(
    curvature: Any, method: Method | None, clients: Clients, regulariser: Regulariser | None
) -> None:
    """Refuse a permission that is none, a method that asks for more, and what cannot be sent."""
    one_of("curvature", curvature, ("auto", *LEVELS))
    wanted = "none" if curvature == "auto" else curvature
    whose = f"curvature={curvature!r}"
    if method is not None:
        wanted = method.curvature
        whose = repr(method)
        if curvature != "auto" and LEVELS.index(wanted) > LEVELS.index(curvature):
            raise ValueError(
                f"{whose} needs curvature={wanted!r}, but curvature={curvature!r} permits clients "
                "to reveal less of their Hessians"
            )
    if wanted == "none":
        return
    if method is not None and regulariser is not None:
        regulariser.check_metric()
    if not clients.curved:
        raise ValueError(
            f"{whose} needs the clients' Hessians, which this problem does not know: take "
            "curvature='none', or a method without a metric"
        )
    if wanted == "full" and clients.guarded and method is not None:
        raise ValueError(
            f"{whose} needs whole Hessians, which the policies of the sites keep there: take a "
            "method that makes do with vectors, or leave the method out"
        )
    d = clients.dimension
    if wanted == "full" and d > LARGEST_FULL:
        numbers = d * (d + 3) // 2
        raise ValueError(
            f"{whose} would have each client send d (d + 3)/2 = {numbers:,} numbers "
            f"({8 * numbers / 1e9:.3g} GB) at a time, for d = {d:,}; at most d = {LARGEST_FULL:,} "
            f"is taken. curvature='diagonal' sends {2 * d:,}, once, and curvature='none' vectors "
            "alone"
        )


def links(settings: Settings, clients: int) -> Links:
    """The links between the server and its clients that were asked for."""
    return Links(
        clients,
        settings.participation,
        settings.availability,
        settings.loss,
        settings.seed,
        local_steps=settings.local_steps,
        bits=settings.bits,
        ships_memories=settings.state == "server",
    )


def _check_no_links(settings: Settings, clients: int) -> None:
    """Refuse simulated links to clients that have links of their own."""
    asked = links(settings, clients)
    if not asked.steady or asked.ships_memories:
        raise ValueError(
            "participation, availability, loss, bits, local_steps and state are for clients in "
            "this process: those of a federation take part, and answer, as they can"
        )


def _start(clients: Clients, method: Any, x0: Any, regulariser: Any) -> npt.NDArray[np.float64]:
    """Refuse what does not go together; returns the start in float64."""
    if method is not None and not isinstance(method, Method):
        raise ValueError(
            f"method must be a pdmm method, e.g. pdmm.AGPDMM(step_size, local_steps), or None "
            f"to have it chosen, got {method!r}"
        )
    if regulariser is not None:
        fitting_regulariser(regulariser, clients)
        if method is not None and method.no_regulariser:
            raise ValueError(
                f"{type(method).__name__} takes no regulariser: {method.no_regulariser}"
            )
    if x0 is None:
        x0 = np.zeros(clients.dimension) if clients.x0 is None else clients.x0
    start = vector("x0", x0, clients.dimension)
    with np.errstate(over="ignore"):  # clients and server start from what the clients can hold
        held = start.astype(clients.dtype).astype(np.float64)
    finite(f"x0 in the run's {clients.dtype}", held)
    return held


def fitting_regulariser(regulariser: Any, clients: Clients) -> Regulariser | None:
    """The regulariser as it applies to these clients; refuses what is none, or does not fit."""
    if regulariser is None:
        return None
    if not isinstance(regulariser, Regulariser):
        raise ValueError(
            f"regulariser must be L1, SquaredL2, ElasticNet or Box of pdmm, got {regulariser!r}"
        )
    intercepts = None if clients.intercepts is None else np.unique(clients.intercepts)
    return regulariser.for_problem(clients.dimension, intercepts)


def known_optimum(optimum: Any, dimension: int) -> float | npt.NDArray[np.float64] | None:
    """What the user knows of the optimum: F*, x* or nothing."""
    if optimum is None or optimum is False:
        return None
    if optimum is True:
        raise ValueError("optimum must be a number, a point x*, None or False, got True")
    if np.ndim(optimum) == 0:
        return float(vector("optimum", [optimum], 1)[0])
    return vector("optimum", optimum, dimension)
