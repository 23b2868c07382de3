"""Random method, problem, weights, regulariser and links: the iterates of the literal twins."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pdmm
from builders.unreliable import contacts, own_steps, trace
from fuzz.attempts import about
from fuzz.draws import Generator, chance, pick, spread, whole
from fuzz.twice import Twice, some_problem
from pdmm.links.links import Links
from pdmm.methods import Method
from twins import methods as twins
from twins import plain_steps, unreliable
from twins.methods import Network, Vector

ROUNDS = 14
MORE_BITS = re.compile(r"bits \d+ -> \d+ after round (\d+)")


class Variant(NamedTuple):
    """A method, the twin of its messages as published, and the twin that links can lose them of."""

    method: Method
    perfect: Callable[[Network, int], list[Vector]]
    lossy: Any
    gradient_steps: bool
    regularised: bool = True


def _relaxation(rng: Generator) -> float:
    return 1.0 if chance(rng, 0.5) else float(rng.uniform(0.3, 1))


def _exact(rng: Generator, L: float) -> Variant:
    rho, a = spread(rng, 0.03 * L, 5 * L), _relaxation(rng)
    lossy = unreliable.Family(rho, relaxation=a)
    if chance(rng, 0.5):
        return Variant(pdmm.PDMM(rho, a), lambda net, R: twins.pdmm(net, R, rho, a), lossy, False)
    gamma = 1 / rho
    return Variant(
        pdmm.FedSplit(gamma, a), lambda net, R: twins.fedsplit(net, R, gamma, a), lossy, False
    )


def _inexact(rng: Generator, L: float) -> Variant:
    gamma = spread(rng, 0.2 / L, 20 / L)
    K, a = whole(rng, 1, 6), _relaxation(rng)
    eta = float(rng.uniform(0.1, 1)) / (L + 1 / gamma)
    start: Any = pick(rng, ["anchor", "server"])
    return Variant(
        pdmm.InexactFedSplit(gamma, eta, K, start, a),
        lambda net, R: twins.inexact_fedsplit(net, R, gamma, eta, K, start, a),
        plain_steps.InexactFedSplit(1 / gamma, eta, relaxation=a, from_anchor=start == "anchor"),
        True,
    )


def _gpdmm(rng: Generator, L: float) -> Variant:
    eta = float(rng.uniform(0.1, 1)) / L
    K, a = whole(rng, 1, 8), _relaxation(rng)
    rho = None if chance(rng, 0.5) else spread(rng, 0.03 * L, 5 * L)
    iterate: Any = pick(rng, ["mean", "last"])
    return Variant(
        pdmm.GPDMM(eta, K, rho, iterate, a),
        lambda net, R: twins.gpdmm(net, R, eta, K, rho, iterate, a),
        unreliable.Family(rho or 1 / (K * eta), eta, "own", iterate, a),
        True,
    )


def _agpdmm(rng: Generator, L: float) -> Variant:
    eta = float(rng.uniform(0.1, 1)) / L
    K, a = whole(rng, 1, 8), _relaxation(rng)
    rho = None if chance(rng, 0.5) else spread(rng, 0.03 * L, 5 * L)
    return Variant(
        pdmm.AGPDMM(eta, K, rho, a),
        lambda net, R: twins.agpdmm(net, R, eta, K, rho, a),
        unreliable.Family(rho or 1 / (K * eta), eta, relaxation=a),
        True,
    )


def _scaffold(rng: Generator, L: float) -> Variant:
    K, eta_g = whole(rng, 1, 6), float(rng.uniform(0.3, 1))
    eta = float(rng.uniform(0.05, 0.3)) / (L * K)
    both = chance(rng, 0.5)
    return Variant(
        pdmm.Scaffold(eta, K, eta_g, both),
        lambda net, R: twins.scaffold(net, R, eta, K, eta_g),
        unreliable.Scaffold(eta, K, both, eta_g),
        True,
        regularised=False,
    )


def _fedprox(rng: Generator, L: float) -> Variant:
    K, mu = whole(rng, 1, 6), spread(rng, 0.03 * L, 3 * L)
    eta = float(rng.uniform(0.1, 1)) / (L + mu)
    return Variant(
        pdmm.FedProx(eta, K, mu),
        lambda net, R: twins.fedprox(net, R, eta, K, mu),
        unreliable.FedProx(eta, mu),
        True,
        regularised=False,
    )


def _feddyn(rng: Generator, L: float) -> Variant:
    K, alpha = whole(rng, 1, 8), spread(rng, 0.1 * L, 3 * L)
    eta = float(rng.uniform(0.3, 1)) / (L + alpha)
    return Variant(
        pdmm.FedDyn(eta, K, alpha),
        lambda net, R: twins.feddyn(net, R, eta, K, alpha),
        unreliable.FedDyn(eta, alpha),
        True,
        regularised=False,
    )


def _fedavg(rng: Generator, L: float) -> Variant:
    eta, K = float(rng.uniform(0.1, 1)) / L, whole(rng, 1, 6)
    return Variant(
        pdmm.FedAvg(eta, K),
        lambda net, R: twins.fedavg(net, R, eta, K),
        unreliable.FedAvg(eta),
        True,
        regularised=False,
    )


def _descent(rng: Generator, L: float) -> Variant:
    eta = float(rng.uniform(0.1, 1.5)) / L
    return Variant(
        pdmm.GradientDescent(eta),
        lambda net, R: twins.gradient_descent(net, R, eta),
        plain_steps.GradientDescent(eta),
        False,
    )


def _regulariser(rng: Generator, L: float, d: int) -> tuple[Any, Callable[[Vector, float], Vector]]:
    kind = pick(rng, ["none", "L1", "SquaredL2", "Box"])
    c = spread(rng, 0.01 * L, L)
    lo, hi = -rng.uniform(0, 1, d), rng.uniform(0, 1, d)
    choices: dict[str, tuple[Any, Callable[[Vector, float], Vector]]] = {
        "none": (None, twins.no_regulariser),
        "L1": (pdmm.L1(c), lambda v, t: v - np.clip(v, -c * t, c * t)),
        "SquaredL2": (pdmm.SquaredL2(c), lambda v, t: v / (1 + c * t)),
        "Box": (pdmm.Box(lo, hi), lambda v, t: np.minimum(np.maximum(v, lo), hi)),
    }
    return choices[kind]


def _links(rng: Generator, m: int) -> dict[str, Any]:
    """Who takes part, who is there, what is lost: all of it as ``solve`` takes it."""
    named = [sorted(set(rng.integers(0, m, 2).tolist())), whole(rng, 1, m), 0.7]
    there = rng.random((3, m)) < 0.7
    there[0, 0] = True
    return {
        "participation": pick(rng, [1.0, float(rng.uniform(0.1, 1)), whole(rng, 1, m), named]),
        "loss": pick(rng, [0.0, float(rng.uniform(0, 0.6)), pdmm.Bursts(0.2, 0.4, 0.9, 0.05)]),
        "availability": pick(rng, [None, None, pdmm.OnOff(0.3, 0.5), there, np.full(m, 0.8)]),
    }


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    dtype = np.float32 if chance(rng, 0.2) else np.float64
    two = some_problem(rng, dtype)
    m, d = two.problem.clients, two.problem.dimension
    makers = [
        _inexact,
        _gpdmm,
        _gpdmm,
        _agpdmm,
        _agpdmm,
        _scaffold,
        _fedavg,
        _fedprox,
        _feddyn,
        _descent,
    ]
    maker = pick(rng, [_exact, *makers]) if two.smooth else _exact
    variant = maker(rng, two.L)
    h, prox = _regulariser(rng, two.L, d) if variant.regularised else (None, twins.no_regulariser)
    weights = rng.uniform(0.2, 3, m) if chance(rng, 0.6) else np.ones(m)
    settings: dict[str, Any] = {
        "x0": two.x0,
        "weights": weights,
        "regulariser": h,
        "threads": pick(rng, [1, 1, 2]),
        "seed": whole(rng, 0, 999),
        "state": pick(rng, ["clients", "clients", "server"]),
    }
    slow = variant.method.exact and two.exact_tolerance > 1e-8
    rounds = 4 if slow else whole(rng, 1, ROUNDS)
    links = _links(rng, m) if chance(rng, 0.6) else None
    bits = whole(rng, 2, 16) if links and dtype == np.float64 and chance(rng, 0.4) else None
    steps = own_steps if links and variant.gradient_steps and chance(rng, 0.4) else None
    words = f"{variant.method!r} on {two.problem!r}, {rounds} rounds, {settings}, {links}"
    with about(f"{words}, bits={bits}, {'own' if steps else 'equal'} steps"):
        if links is None:
            return _compared(two, variant, rounds, settings, prox)
        more = {**settings, "bits": bits, "local_steps": steps, **links}
        return _behind_links(two, variant, rounds, more, prox)


def _compared(
    two: Twice, variant: Variant, rounds: int, settings: dict[str, Any], prox: Any
) -> str:
    result, xs = trace(two.problem, variant.method, rounds, optimum=False, **settings)
    net = two.network(two.x0, weights=list(settings["weights"]), server_prox=prox)
    far = _apart(xs, variant.perfect(net, rounds))
    assert far < _tolerance(two, variant), f"{far:.1e} from its twin ({result.reason})"
    return "equal"


def _behind_links(
    two: Twice, variant: Variant, rounds: int, settings: dict[str, Any], prox: Any
) -> str:
    result, xs = trace(two.problem, variant.method, rounds, optimum=False, **settings)
    links = {name: settings[name] for name in ("participation", "loss", "availability", "seed")}
    twin = variant.lossy
    if isinstance(twin, unreliable.Scaffold):
        twin.both = result.method.send_control
    steps = settings["local_steps"] or (lambda r, i: max(1, variant.method.steps))

    def expected(x0: Vector) -> unreliable.Run:
        net = two.network(x0, weights=list(settings["weights"]), server_prox=prox)
        drawn = contacts(two.problem.clients, rounds, **links)
        return unreliable.run(net, twin, drawn, steps, settings["bits"], item=_item(two))

    theirs = expected(two.x0)
    grown = [int(found[1]) for why in result.choices if (found := MORE_BITS.search(why))]
    until = min([rounds, *grown])
    far = _apart(xs[:until], theirs.x[:until])
    tolerance = _tolerance(two, variant)
    if settings["bits"] is not None:
        tolerance = max(tolerance, 1e-6)  # scales travel in float32, and may just round either way
    if far >= tolerance:
        nearby = expected(two.x0 * (1 + 1e-14) + 1e-14)
        unstable = settings["bits"] is not None and _apart(nearby.x, theirs.x) > 0.1 * far
        assert unstable, f"{far:.1e} from its twin ({result.reason})"
        return "equal but for a rounding that may go either way"
    # Where nothing can get lost, messages have no numbers, which the twin counts.
    numbered = not Links(two.problem.clients, **links).perfect
    if numbered and settings["state"] == "clients" and until == len(xs) == rounds:
        _same_bytes(result, theirs, settings["bits"])
    return "equal behind links"


def _same_bytes(result: pdmm.Result, theirs: unreliable.Run, bits: int | None) -> None:
    up = result.history["bytes_up"][-1]
    assert up == theirs.bytes_up[-1], f"{up} bytes up, {theirs.bytes_up[-1]} by its twin"
    if bits is None:
        down = result.history["bytes_down"][-1]
        assert down == theirs.bytes_down[-1], f"{down} bytes down, {theirs.bytes_down[-1]} by twin"


def _item(two: Twice) -> int:
    return int(two.problem.dtype.itemsize)


def _tolerance(two: Twice, variant: Variant) -> float:
    if two.problem.dtype == np.float32:
        return 1e-3
    return two.exact_tolerance if variant.method.exact else 1e-9


def _apart(ours: list[Any], theirs: list[Vector]) -> float:
    """The largest difference in any round, relative to the largest entry of any iterate."""
    if len(ours) != len(theirs):
        return np.inf
    both = np.array([ours, theirs], dtype=np.float64)
    return float(np.abs(both[0] - both[1]).max() / max(np.abs(both[1]).max(), 1e-3))
