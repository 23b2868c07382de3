"""Adapting rho and Anderson acceleration: a literal twin, and the method's own functions."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.automatic import (
    REGULARISERS,
    Data,
    clients,
    logcosh,
    logcosh_slope,
)
from builders.engine import stepped
from pdmm.methods import Method, anderson, spectral
from pdmm.methods.adaptive import Adaptive
from twins import methods as twins
from twins.methods import Vector

# --- a literal twin --------------------------------------------------------------------------


def narrow(value: Any) -> Any:
    """Rounded as the library rounds what the server sends beside x_s."""
    return np.float64(np.float32(value))


def same_way(factors: list[float]) -> int:
    """How many of the last changes of rho were large and went the same way."""
    ways = [np.sign(np.log(f)) if max(f, 1 / f) >= spectral.LARGE else 0 for f in factors]
    alike = itertools.takewhile(lambda way: way != 0 and way == ways[-1], reversed(ways))
    return len(list(alike))


@dataclass
class Twin:
    """PDMM with spectral rho and Anderson acceleration, everything stacked in one place."""

    data: Data
    rho: float
    relaxation: float
    adapt: bool = True
    accelerate: bool = True
    h: Any = None
    flat: bool = False

    def mean(self, rows: Any) -> Any:
        return np.average(rows, axis=0, weights=self.data.w)

    def square(self, rows: Any) -> float:
        """Of all clients stacked, each with its weight."""
        return float(self.mean((rows**2).sum(1)))

    def server(self, Z: Any) -> Any:
        mean = self.mean(Z)
        return mean if self.h is None else self.h.prox(mean, 1 / (self.rho * self.data.w.sum()))

    def combination(self, Y: list[Any], F: list[Any]) -> Any:
        """The affine combination of the Y whose F is shortest, None if there is no good one."""
        if len(F) < 2:
            return None
        roots = np.sqrt(self.data.w / self.data.w.sum())[:, None]
        stacked = np.stack([(roots * f).ravel() for f in F])
        steps = np.diff(stacked, axis=0)
        lengths, sizes = (np.linalg.norm(v, axis=1) for v in (steps, stacked))
        still = np.flatnonzero(lengths <= anderson.STILL * np.maximum(sizes[1:], sizes[:-1]))
        if len(still):  # a change that is rounding says nothing, nor do those before it
            return self.combination(Y[still[-1] + 1 :], F[still[-1] + 1 :])
        cut = anderson.CUT
        while cut < 1:  # the smallest singular values go first, until the coefficients are small
            unit = (steps / lengths[:, None]).T
            theta = np.linalg.lstsq(unit, stacked[-1], rcond=np.sqrt(cut))[0] / lengths
            c = np.append(np.zeros(len(F) - 1), 1.0)
            c[1:] -= theta
            c[:-1] += theta
            if np.abs(c).sum() < anderson.COEFFICIENTS:
                break
            cut *= 100
        else:
            return None
        others = zip(narrow(c)[:-1], Y[:-1], strict=True)
        return Y[-1] + sum(k * (y - Y[-1]) for k, y in others)

    def run(self, rounds: int) -> Iterator[tuple[Any, float, bool]]:
        """x_s, rho and whether a combination was taken back, after every round."""
        data = self.data
        _, prox = twins.least_squares(data.A, data.b)
        self.rho, self.relaxation = narrow(self.rho), narrow(self.relaxation)
        Z = np.repeat(data.x0[None], data.m, axis=0)
        x_s = self.server(Z)
        X_last, lam_last = Z.copy(), 0 * Z
        Y: list[Any] = []
        F: list[Any] = []
        first = last = np.inf
        combined = known = False
        accepted, due, changes = 0, 2, spectral.CHANGES if self.adapt else 0
        factors: list[float] = []
        for r in range(1, rounds + 1):
            anchors = 2 * x_s - Z
            X = np.array([prox(i, a, self.rho) for i, a in enumerate(anchors)])
            lam = self.rho * (anchors - X)
            dx, dlam = self.square(X - X_last), self.square(lam - lam_last)
            product = self.mean(((X - X_last) * (lam - lam_last)).sum(1))
            X_last, lam_last = X, lam
            f = 2 * (X - x_s)
            size = self.square(f)
            most = min(
                anderson.GROWTH * np.sqrt(last),
                anderson.BOUND * np.sqrt(first) / (accepted + 1) ** 1.1,
            )
            if combined and np.sqrt(size) > most:
                Y, F, Z = Y[-1:], F[-1:], Y[-1]
                combined = known = False
                x_s = self.server(Z)
                yield x_s, self.rho, True
                continue
            kept = -(anderson.FLAT_DEPTH if self.flat else anderson.DEPTH) - 1
            Y, F = [*Y, Z + self.relaxation * f][kept:], [*F, f][kept:]
            accepted += combined
            first, last = (size if first == np.inf else first), size
            rho = self.rho
            if changes and r >= due and known and dx > (1e5 * 2.2e-16) ** 2 * self.square(X):
                rho = np.sqrt(dlam / dx)
                rho = np.clip(rho, self.rho / spectral.LARGEST, self.rho * spectral.LARGEST)
                rho = rho if max(rho / self.rho, self.rho / rho) > spectral.SMALLEST else self.rho
                if self.flat and rho < self.rho and product < 0.3 * np.sqrt(dx * dlam):
                    rho = self.rho
            known, due = True, 2 * r - 1 if r >= due else due
            Z, combined = Y[-1], False
            if rho != self.rho:
                rho = narrow(rho)
                x_s = self.server(Z)
                Z = x_s + (Z - x_s) * narrow(self.rho / rho)
                factors.append(rho / self.rho)
                Y, F, self.rho, first, last, accepted = [], [], rho, np.inf, np.inf, 0
                if spectral.COUNTED < same_way(factors) <= spectral.FOLLOWED:
                    due = 0
                else:
                    changes -= 1
            elif self.accelerate and (better := self.combination(Y, F)) is not None:
                Z, combined = better, True
            x_s = self.server(Z)
            yield x_s, self.rho, False


@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
@pytest.mark.parametrize(
    ("seed", "rho", "relaxation", "adapt", "accelerate"),
    [
        (0, 30.0, 0.9, True, True),
        (1, 1.0, 1.0, True, True),
        (2, 1e4, 0.7, True, True),
        (3, 30.0, 1.0, False, True),
        (4, 0.01, 0.9, True, False),
        (5, 3.0, 0.5, False, True),
    ],
)
def test_a_literal_twin(
    kind: str, seed: int, rho: float, relaxation: float, adapt: bool, accelerate: bool
) -> None:
    data, h = clients(seed), REGULARISERS[kind]
    # With h, x_s moves a little when rho changes, by the rounding of old rho / new rho; and
    # what is rounded to float32 is rounded the other way once in a while.
    close = 1e-8 if h is None else 2e-6
    twin = list(Twin(data, rho, relaxation, adapt, accelerate, h).run(25))
    method = Adaptive(pdmm.PDMM(rho, relaxation), adapt, accelerate, 2.2e-16)
    server, states = None, list(states_of(method, data, h, 25))
    for r, ((x_s, twin_rho, _), (server, _, _)) in enumerate(
        zip(twin, states[1:], strict=True), start=1
    ):
        assert server.penalty.rho == pytest.approx(twin_rho, rel=1e-6), r
        error = np.abs(server.x - x_s).max()
        assert error <= close * max(1.0, float(np.abs(x_s).max())), (r, error)
    assert server is not None
    assert server.guard.rejected == sum(back for _, _, back in twin)


@pytest.mark.parametrize("accelerate", [False, True])
def test_a_literal_twin_where_functions_are_flat(accelerate: bool) -> None:
    data = clients(6, m=12, d=24)
    data = replace(data, A=[a[:2] for a in data.A], b=[v[:2] for v in data.b])
    runs = {}
    for flat in (False, True):
        twin = list(Twin(data, 60.0, 0.9, True, accelerate, None, flat).run(25))
        method = Adaptive(pdmm.PDMM(60.0, 0.9), True, accelerate, 2.2e-16, flat)
        states = list(states_of(method, data, None, 25))[1:]
        for (x_s, rho, _), (server, _, _) in zip(twin, states, strict=True):
            assert server.penalty.rho == pytest.approx(rho, rel=1e-6)
            np.testing.assert_allclose(server.x, x_s, atol=1e-7)
        runs[flat] = [rho for _, rho, _ in twin]
    assert min(runs[False]) < 60 / spectral.SMALLEST  # the rule makes a difference here
    assert min(runs[True]) > min(runs[False])


def test_the_twin_sees_every_kind_of_round() -> None:
    """Between them the runs above change rho, combine rounds and take combinations back."""
    changes = back = 0
    for seed in range(6):
        twin = list(Twin(clients(seed), 30.0, 1.0, True, True, REGULARISERS["L1"]).run(25))
        changes += len({rho for _, rho, _ in twin}) - 1
        back += sum(b for _, _, b in twin)
    assert changes > 5
    assert back > 0


# --- the method's own functions --------------------------------------------------------------


class Spy:
    """An oracle that remembers the anchors that it was asked about."""

    def __init__(self, f: Any) -> None:
        self.f, self.tally = f, f.tally
        self.anchor, self.rho = np.zeros(0), 0.0

    def gradient(self, x: Any) -> Any:
        return self.f.gradient(x)

    def steps(self, start: Any, **more: Any) -> Any:
        self.anchor, self.rho = more["anchor"], more["rho"]
        return self.f.steps(start, **more)

    def prox(self, anchor: Any, rho: float, start: Any, slack: Any = None) -> Any:
        self.anchor, self.rho = anchor, rho
        return self.f.prox(anchor, rho, start, slack)


def states_of(
    method: Method, data: Data, h: Any, rounds: int, dtype: Any = np.float64
) -> Iterator[tuple[Any, Any, Any]]:
    """(server, all clients' memory, all clients' z of the last round), from the start on."""
    W = float(data.w.sum())

    def prox(v: Any, t: float) -> Any:
        return v if h is None else h.prox(v, t / W)

    problem = data.problem(dtype)
    x0 = data.x0.astype(dtype).astype(np.float64)
    with stepped(problem, method, x0, data.w, rounds, prox) as run:
        spies: list[Spy] = []
        source = run.clients.here.source

        class Source:
            def at(self, block: Any, cursor: Any = None) -> Any:
                spies.append(Spy(source.at(block, cursor)))
                return spies[-1]

        run.clients.here.source = Source()
        yield run.server, run.memory, None
        for _ in range(rounds):
            message = method.broadcast(run.server)
            spies.clear()
            run.step()
            anchors = np.concatenate([spy.anchor for spy in spies])
            z = 2 * message.x.astype(dtype) - anchors
            yield run.server, run.memory, z


@pytest.mark.parametrize("kind", list(REGULARISERS))
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize(
    "inner",
    [
        pdmm.PDMM(0.05),
        pdmm.PDMM(1e5, 0.8),
        pdmm.AGPDMM(1e-3, 3, 5e4),
        pdmm.GPDMM(1e-3, 3, 0.1),
        pdmm.InexactFedSplit(1.0, 1e-3, 3, start="server"),
    ],
)
def test_when_rho_changes_the_duals_stay(kind: str, accelerate: bool, inner: Any) -> None:
    data = clients(7)
    method = Adaptive(inner, True, accelerate, 2.2e-16)
    states = list(states_of(method, data, REGULARISERS[kind], 40))
    seen = 0
    for (before, memory, _), (_, _, z) in itertools.pairwise(states):
        rho, scale = before.penalty.rho, before.penalty.scale
        old = rho * scale  # scale is old rho / new rho
        if scale == 1:
            continue
        seen += 1
        x_s, y = before.x, memory.y[:, before.history.base, : len(data.x0)]
        lam_before, lam_after = old * (y - x_s), rho * (z - x_s)
        size = float(np.abs(lam_before).max())
        np.testing.assert_allclose(lam_after, lam_before, rtol=0, atol=1e-6 * size)
    assert 1 <= seen <= spectral.CHANGES


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["none", "L1"])
@pytest.mark.parametrize(
    "inner", [pdmm.PDMM(3.0, 0.9), pdmm.AGPDMM(1e-3, 3, 300.0), pdmm.GPDMM(1e-3, 3, 30.0)]
)
def test_the_server_knows_the_mean_of_what_the_clients_hold(
    dtype: Any, kind: str, inner: Any
) -> None:
    data = clients(8)
    eps = float(np.finfo(dtype).eps)
    method = Adaptive(inner, True, True, eps)
    largest, d = 0.0, len(data.x0)
    for server, memory, z in states_of(method, data, REGULARISERS[kind], 100, dtype):
        held = memory.y[..., :d].astype(np.float64)
        largest = max(largest, float(np.abs(held).max()))
        for slot in {server.history.base, *(int(k) for k in server.history.kept)}:
            mean = np.average(held[:, slot], axis=0, weights=data.w)
            assert np.abs(server.history.y[slot] - mean).max() <= 4 * eps * largest
        if z is not None:
            assert np.isfinite(z).all()


def one_by_one(
    method: Method, problem: pdmm.Problem, w: Vector, x0: Vector, rounds: int
) -> list[Vector]:
    """The same method with every client on its own, on vectors of shape (d,)."""
    server = method.server_start(x0, lambda v, t: v)
    memories = [method.client_start(x0.astype(problem.dtype)) for _ in range(problem.clients)]
    found = []
    for _ in range(rounds):
        message = method.broadcast(server)
        delivered = type(message)(*(np.asarray(f, dtype=problem.dtype) for f in message))
        uploads = []
        for i, memory in enumerate(memories):
            upload, draft = method.client(delivered, memory, problem.client(i), method.steps)
            memories[i] = method.accept(memory, draft, upload)
            uploads.append(upload)
        fields = zip(*uploads, strict=True)
        mean = type(uploads[0])(*(np.average(np.stack(f), axis=0, weights=w) for f in fields))
        server = method.server(server, mean, 1.0, lambda v, t: v)
        found.append(server.x)
    return found


@pytest.mark.parametrize("kind", ["least squares", "softmax", "functions"])
@pytest.mark.parametrize(
    "inner",
    [
        pdmm.PDMM(3.0, 0.9),
        pdmm.FedSplit(0.3),
        pdmm.AGPDMM(2e-3, 3, 30.0),
        pdmm.GPDMM(2e-3, 3, 30.0),
        pdmm.InexactFedSplit(0.1, 1e-3, 3, start="server"),
    ],
)
def test_one_client_at_a_time_gives_the_same_iterates(kind: str, inner: Any) -> None:
    data = clients(9, m=3, d=3)
    problem: pdmm.Problem = data.problem().factorise()
    rng = np.random.default_rng(0)
    if kind == "softmax":
        X = list(rng.standard_normal((3, 5, 2)))
        problem = pdmm.SoftmaxRegression(X, [rng.integers(0, 2, 5)] * 3, classes=2, l2=0.1)
    if kind == "functions":
        centres = list(rng.standard_normal((3, 3)))
        problem = pdmm.Functions(
            [partial(logcosh, a=a) for a in centres],
            [partial(logcosh_slope, a=a) for a in centres],
            3,
        )
    x0 = rng.standard_normal(problem.dimension)
    method = Adaptive(inner, True, True, 2.2e-16)
    alone = one_by_one(method, problem, data.w, x0, 20)
    with stepped(problem, method, x0, data.w, 20) as run:
        for r in range(20):
            run.step()
            scale = max(1.0, float(np.abs(run.x).max()))
            assert np.abs(run.x - alone[r]).max() <= 1e-7 * scale, r
