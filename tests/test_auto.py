"""Parameters that choose themselves, adapting rho, and Anderson acceleration with its safeguard."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pdmm.engines.local import Local

import pdmm
import twins
from pdmm.common.threads import Threads
from pdmm.methods import Method, anderson, spectral
from pdmm.methods.adaptive import Adaptive
from twins import Matrix, Vector

untyped: Any = pdmm  # for what a type checker would not let pass
# Without shrinking: a run is too long to be repeated a hundred times.
some = settings(derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate))


def every_auto() -> dict[str, Method]:
    """Every method that has something to choose, with all of it "auto"."""
    accelerated: dict[str, Any] = {"rho": "auto", "acceleration": "anderson"}
    return {
        "PDMM": pdmm.PDMM("auto"),
        "PDMM, accelerated": pdmm.PDMM("auto", 0.9, "anderson"),
        "FedSplit": pdmm.FedSplit("auto", acceleration="anderson"),
        "InexactFedSplit": pdmm.InexactFedSplit("auto", "auto", "auto", start="server"),
        "InexactFedSplit, accelerated": pdmm.InexactFedSplit(
            "auto", "auto", "auto", start="server", acceleration="anderson"
        ),
        "GPDMM": pdmm.GPDMM("auto", "auto", "auto"),
        "GPDMM, accelerated": pdmm.GPDMM(**accelerated),
        "GPDMM, last, accelerated": pdmm.GPDMM(iterate="last", **accelerated),
        "GPDMM, the paper's rho": pdmm.GPDMM("auto", "auto"),
        "AGPDMM": pdmm.AGPDMM("auto", "auto", "auto"),
        "AGPDMM, accelerated": pdmm.AGPDMM(**accelerated),
        "AGPDMM, the paper's rho": pdmm.AGPDMM("auto", "auto"),
        "Scaffold": pdmm.Scaffold("auto", "auto"),
        "FedAvg": pdmm.FedAvg("auto", "auto"),
        "GradientDescent": pdmm.GradientDescent("auto"),
    }


def is_accelerated(method: Method) -> bool:
    return getattr(method, "acceleration", None) is not None


@dataclass
class Data:
    """Least squares, with what is known of it."""

    A: list[Any]
    b: list[Any]
    w: Vector
    x0: Vector

    def problem(self, dtype: Any = np.float64) -> pdmm.LeastSquares:
        return pdmm.LeastSquares(
            [a.astype(dtype) for a in self.A], [v.astype(dtype) for v in self.b]
        )

    @property
    def m(self) -> int:
        return len(self.A)

    @property
    def spectrum(self) -> Vector:
        return np.concatenate([np.linalg.eigvalsh(a.T @ a) for a in self.A])


def clients(seed: int = 0, m: int = 6, d: int = 5, kappa: float = 300.0) -> Data:
    """Clients whose optima and curvatures differ."""
    rng = np.random.default_rng(seed)
    A, b = [], []
    for scale in np.geomspace(0.5, 2, m):
        U, _, V = np.linalg.svd(rng.standard_normal((2 * d, d)), full_matrices=False)
        A.append(scale * U * np.sqrt(np.geomspace(1, kappa, d)) @ V)
        b.append(A[-1] @ (3 * rng.standard_normal(d)) + rng.standard_normal(2 * d))
    return Data(A, b, rng.uniform(0.3, 3, m), rng.standard_normal(d))


# --- what was chosen -------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(every_auto()))
def test_the_result_has_numbers_and_says_why(name: str) -> None:
    asked = every_auto()[name]
    result = pdmm.solve(clients().problem(), asked, 12)
    method: Any = result.method
    assert type(method).__name__ == type(asked).__name__
    assert method.unsettled == ()
    assert result.choices
    for parameter in asked.unsettled:
        value = getattr(method, parameter)
        assert np.isfinite(value)
        assert value > 0
        sentence = next(s for s in result.choices if s.startswith(parameter))
        assert len(sentence.split()) > 3
        stays = not isinstance(asked, pdmm.InexactFedSplit)  # its step follows gamma
        if parameter == "local_steps" or (parameter == "step_size" and stays):
            assert float(sentence.split()[1].strip(",:")) == pytest.approx(value, rel=0.01)
    if "local_steps" in asked.unsettled:
        assert isinstance(method.local_steps, int)
    for field in dataclasses.fields(asked):  # type: ignore[arg-type]
        given_value = getattr(asked, field.name)
        if given_value not in ("auto", None):
            assert getattr(method, field.name) == given_value
    # The same numbers, given, are the same method, and can be run again.
    assert dataclasses.replace(method) == method
    assert pdmm.solve(clients().problem(), method, 2).choices == ()


@pytest.mark.parametrize("name", list(every_auto()))
def test_the_rho_of_every_round_is_recorded_where_it_adapts(name: str) -> None:
    asked = every_auto()[name]
    result = pdmm.solve(clients().problem(), asked, 12)
    adapts = {"rho", "gamma"} & set(asked.unsettled)
    if not adapts and not is_accelerated(asked):
        assert "rho" not in result.history
        return
    rho = result.history["rho"]
    assert rho.shape == (13,)
    assert (rho > 0).all()
    assert rho[-1] == pytest.approx(result.method.penalty, rel=1e-6)  # type: ignore[attr-defined]
    factors = rho[1:] / rho[:-1]
    assert (factors <= spectral.LARGEST * (1 + 1e-6)).all()
    assert (factors >= 1 / spectral.LARGEST / (1 + 1e-6)).all()


def test_rho_adapts_to_what_it_should_be() -> None:
    # All clients alike, H_i = c I: the duals change c times as much as the points.
    rng = np.random.default_rng(0)
    for c in (1e-3, 1.0, 1e4):
        A = [np.sqrt(c) * np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(4)]
        problem = pdmm.LeastSquares(A, list(rng.standard_normal((4, 3))))
        rho = float(pdmm.solve(problem, pdmm.PDMM("auto"), 4).history["rho"][-1])
        assert max(rho / c, c / rho) <= spectral.SMALLEST
    # Given a bad L, it is found in spite of it.
    problem2 = pdmm.Functions(
        [lambda x: 50 * float(x @ x), lambda x: 50 * float((x - 1) @ (x - 1))],
        [lambda x: 100 * x, lambda x: 100 * (x - 1)],
        2,
        smoothness=1e8,
        strong_convexity=0.0,
    )
    history = pdmm.solve(problem2, pdmm.PDMM("auto", 0.9), 60).history
    assert history["rho"][0] > 1e6
    last = float(history["rho"][-1])
    assert max(last / 100, 100 / last) <= spectral.SMALLEST


def test_with_no_method_one_is_chosen() -> None:
    data = clients()
    result = pdmm.solve(data.problem())
    assert result.choices
    assert result.method.unsettled == ()
    assert type(result.method).__name__ in result.choices[0]
    assert result.reason.startswith("certified")
    assert result.rounds < 100
    assert result.history["gap"][-1] <= 1e-12 * result.history["gap"][0] * np.max(data.spectrum)
    assert result.smoothness is not None
    assert result.strong_convexity is not None
    assert result.smoothness.clients.max() == pytest.approx(data.spectrum.max())


def test_where_eigenbases_are_too_large_gradient_steps_are_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pdmm.run.choice.LARGEST_RANK", 4)
    result = pdmm.solve(clients().problem())
    assert isinstance(result.method, pdmm.AGPDMM)
    assert "AGPDMM" in result.choices[0]
    assert result.reason.startswith("certified")


def test_what_is_given_is_kept() -> None:
    data = clients()
    L = float(data.spectrum.max())
    cases: list[tuple[Any, dict[str, Any]]] = [
        (pdmm.AGPDMM(0.1 / L, "auto"), {"step_size": 0.1 / L}),
        (pdmm.AGPDMM("auto", 7, rho="auto"), {"local_steps": 7}),
        (pdmm.GPDMM("auto", 3, rho=12.5), {"local_steps": 3, "rho": 12.5}),
        (pdmm.Scaffold("auto", 4, server_step=0.5), {"local_steps": 4, "server_step": 0.5}),
        (pdmm.FedAvg(0.1 / L, "auto"), {"step_size": 0.1 / L, "local_steps": 1}),
        (
            pdmm.InexactFedSplit(0.25, "auto", 5, start="server"),
            {"gamma": 0.25, "local_steps": 5, "step_size": 1 / (L + 4)},
        ),
    ]
    for asked, expected in cases:
        method = pdmm.solve(data.problem(), asked, 3).method
        for name, value in expected.items():
            assert getattr(method, name) == pytest.approx(value, rel=1e-9), (asked, name)


def test_safe_steps_are_at_most_one_over_l() -> None:
    data = clients()
    L = float(data.spectrum.max())
    for name, asked in every_auto().items():
        method: Any = pdmm.solve(data.problem(), asked, 2).method
        if "step_size" not in asked.unsettled:
            continue
        if name == "GradientDescent":  # of the mean, with the weights
            method = pdmm.solve(data.problem(), asked, 2, weights=data.w).method
            H = sum(w * a.T @ a for w, a in zip(data.w, data.A, strict=True)) / data.w.sum()
            ends = np.linalg.eigvalsh(H)
            assert method.step_size == pytest.approx(2 / (ends[0] + ends[-1]))
        elif name.startswith("InexactFedSplit"):
            assert method.step_size <= 1.5 / (L + method.penalty)
        else:
            assert method.step_size == pytest.approx(1 / L)


@pytest.mark.parametrize("share", [1.0, 0.1, 0.01])
def test_local_steps_do_what_the_sentence_says(share: float) -> None:
    # Also where the step size was given, and is smaller than 1/L.
    data = clients(kappa=4.0)
    L, mu = float(data.spectrum.max()), float(data.spectrum.min())
    eta, rho = share / L, 3.0
    result = pdmm.solve(data.problem(), pdmm.AGPDMM(eta, "auto", rho=rho), 2)
    K = result.method.steps
    left = (1 - (mu + rho) / (1 / eta + rho)) ** K
    assert left <= 0.0501 or K == 100, (result.choices, left)
    result = pdmm.solve(data.problem(), pdmm.AGPDMM(eta, "auto"), 2)
    K = result.method.steps  # the paper's rho = 1/(K eta), "nearest to sqrt(L mu)"
    assert abs(np.log(1 / (K * eta) / np.sqrt(L * mu))) <= np.log(1.5) or K == 100, result.choices


# --- what it costs ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(every_auto()))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scalars_are_counted(name: str, dtype: Any) -> None:
    data = clients()
    asked, rounds, m, d = every_auto()[name], 3, data.m, len(data.x0)
    result = pdmm.solve(data.problem(dtype), asked, rounds)
    t, (down, up) = result.traffic, result.scalars
    np.testing.assert_array_equal(result.history["vectors_up"], t.up * m * np.arange(4))
    for way, vectors, scalars in (("up", t.up, up), ("down", t.down, down)):
        each = vectors * d * np.dtype(dtype).itemsize + 8 * scalars
        np.testing.assert_array_equal(result.history[f"bytes_{way}"], m * each * np.arange(4))
    adapts = {"rho", "gamma"} & set(asked.unsettled)
    if not adapts and not is_accelerated(asked):
        assert result.scalars == (0, 0)
        return
    # What the messages themselves hold beside the vectors.
    method = Adaptive(result.method, bool(adapts), is_accelerated(asked), 1e-16)  # type: ignore[arg-type]
    message = method.broadcast(method.server_start(data.x0, lambda v, s: v))
    f = data.problem().factorise().at(slice(0, m))
    memory = method.client_start(np.repeat(data.x0[None], m, axis=0))
    upload, _ = method.client(message, memory, f, method.steps)
    assert sum(np.size(field) for field in message) == d + down
    assert sum(np.size(field) // m for field in upload) == d + up


def test_a_chosen_method_pays_for_its_certificates() -> None:
    data = clients()
    result = pdmm.solve(data.problem())
    checks = 1 + -(-result.rounds // 5)
    assert result.history["vectors_up"][-1] == data.m * (result.rounds + checks)
    assert result.history["vectors_up"][0] == data.m


# --- the same optimum ------------------------------------------------------------------------

REGULARISERS: dict[str, pdmm.Regulariser | None] = {
    "none": None,
    "SquaredL2": pdmm.SquaredL2(5.0),
    "L1": pdmm.L1(40.0),
    "Box": pdmm.Box(-0.5, 1.0),
}


@cache
def plain_optimum(kind: str, dtype: Any = np.float64) -> Vector:
    data = clients()
    rho = float(np.sqrt(data.spectrum.min() * data.spectrum.max()))
    result = pdmm.solve(
        data.problem(),
        pdmm.PDMM(rho, 0.7),
        1500,
        weights=data.w,
        regulariser=REGULARISERS[kind],
        record_every=1500,
        threads=1,
    )
    assert result.certificate.stationarity < 1e-9
    return np.asarray(result.x, dtype=np.float64)


@pytest.mark.parametrize("kind", list(REGULARISERS))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adapted_and_accelerated_runs_reach_the_plain_optimum(kind: str, dtype: Any) -> None:
    data = clients()
    x_star = plain_optimum(kind)
    L = float(data.spectrum.max())
    fixed: dict[str, Method] = {
        "PDMM, fixed rho": pdmm.PDMM(30.0, 0.9, "anderson"),
        "FedSplit, fixed gamma": pdmm.FedSplit(1 / 30, 1.0, "anderson"),
        "InexactFedSplit, fixed": pdmm.InexactFedSplit(
            1 / 30, 0.9 / (L + 30), 10, start="server", acceleration="anderson"
        ),
        "GPDMM, fixed": pdmm.GPDMM(0.9 / L, 10, 30.0, acceleration="anderson"),
        "AGPDMM, fixed": pdmm.AGPDMM(0.9 / L, 10, 30.0, acceleration="anderson"),
    }
    chosen = {n: m for n, m in every_auto().items() if "accelerated" in n or n == "FedSplit"}
    for name, method in {**fixed, **chosen, "no method": None}.items():
        result = pdmm.solve(
            data.problem(dtype),
            method,
            250,
            x0=data.x0,
            weights=data.w,
            regulariser=REGULARISERS[kind],
            tolerance=1e-24 if dtype == np.float64 else 1e-10,
            record_every=250,
            threads=1,
        )
        error = np.linalg.norm(result.x - x_star) / np.linalg.norm(x_star)
        assert error <= (1e-10 if dtype == np.float64 else 1e-4), (name, error, result.reason)


def test_softmax_and_functions_reach_the_plain_optimum() -> None:
    rng = np.random.default_rng(3)
    y = [np.full(6, i % 3) for i in range(4)]
    X = [rng.standard_normal((6, 2)) + v[0] for v in y]
    problem = pdmm.SoftmaxRegression(X, y, classes=3, l2=1e-2)

    def parts(x: Vector) -> tuple[float, Vector, Matrix]:
        found = [twins.softmax_parts(a, v, 3, 1e-2, x) for a, v in zip(X, y, strict=True)]
        return (
            sum(p[0] for p in found),
            np.asarray(sum(p[1] for p in found)),
            np.asarray(sum(p[2] for p in found)),
        )

    x_star = twins.newton(parts, np.zeros(problem.dimension))
    for method in (None, pdmm.AGPDMM(rho="auto", acceleration="anderson")):
        result = pdmm.solve(problem, method, 80, tolerance=1e-22)
        np.testing.assert_allclose(result.x, x_star, rtol=1e-6, atol=1e-7)


# --- a literal twin --------------------------------------------------------------------------


def narrow(value: Any) -> Any:
    """Rounded as the library rounds what the server sends beside x_s."""
    return np.float64(np.float32(value))


@dataclass
class Twin:
    """PDMM with spectral rho and Anderson acceleration, everything stacked in one place."""

    data: Data
    rho: float
    relaxation: float
    adapt: bool = True
    accelerate: bool = True
    h: Any = None

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
        for r in range(1, rounds + 1):
            anchors = 2 * x_s - Z
            X = np.array([prox(i, a, self.rho) for i, a in enumerate(anchors)])
            lam = self.rho * (anchors - X)
            dx, dlam = self.square(X - X_last), self.square(lam - lam_last)
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
            kept = -anderson.DEPTH - 1
            Y, F = [*Y, Z + self.relaxation * f][kept:], [*F, f][kept:]
            accepted += combined
            first, last = (size if first == np.inf else first), size
            rho = self.rho
            if changes and r >= due and known and dx > (1e5 * 2.2e-16) ** 2 * self.square(X):
                rho = np.sqrt(dlam / dx)
                rho = np.clip(rho, self.rho / spectral.LARGEST, self.rho * spectral.LARGEST)
                rho = rho if max(rho / self.rho, self.rho / rho) > spectral.SMALLEST else self.rho
            known, due = True, 2 * r - 1 if r >= due else due
            Z, combined = Y[-1], False
            if rho != self.rho:
                rho = narrow(rho)
                x_s = self.server(Z)
                Z = x_s + (Z - x_s) * narrow(self.rho / rho)
                Y, F, self.rho, first, last, accepted = [], [], rho, np.inf, np.inf, 0
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
    with Threads(1) as threads:
        engine = Local(problem, method, data.x0.astype(dtype), data.w, rounds, threads)
        spies: list[Spy] = []

        class Source:
            def at(self, block: Any, cursor: Any = None) -> Any:
                spies.append(Spy(source.at(block, cursor)))
                return spies[-1]

        source, engine.source = engine.source, Source()
        server = method.server_start(data.x0.astype(dtype).astype(np.float64), prox)
        yield server, engine.memory, None
        for _ in range(rounds):
            message = method.broadcast(server)
            spies.clear()
            outcome = engine.round(message)
            server = method.server(server, outcome.mean, outcome.share, prox)
            anchors = np.concatenate([spy.anchor for spy in spies])
            z = 2 * message.x.astype(dtype) - anchors
            yield server, type(engine.memory)(*(v.copy() for v in engine.memory)), z


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


def logcosh(x: Vector, a: Vector, s: float = 1.0, w: float = 1.0) -> float:
    return float(w / s * (np.logaddexp(s * (x - a), -s * (x - a)) - np.log(2)).sum())


def logcosh_slope(x: Vector, a: Vector, s: float = 1.0, w: float = 1.0) -> Vector:
    return np.asarray(w * np.tanh(s * (x - a)))


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
    with Threads(1) as threads:
        engine = Local(problem, method, x0, data.w, 20, threads)
        server = method.server_start(x0, lambda v, t: v)
        for r in range(20):
            outcome = engine.round(method.broadcast(server))
            server = method.server(server, outcome.mean, outcome.share, lambda v, t: v)
            scale = max(1.0, float(np.abs(server.x).max()))
            assert np.abs(server.x - alone[r]).max() <= 1e-7 * scale, r


# --- never worse than the start --------------------------------------------------------------


def assert_safe(problem: pdmm.Problem, method: Method | None, rounds: int, **more: Any) -> None:
    result = pdmm.solve(problem, method, rounds, threads=1, record_every=rounds, **more)
    start, end = result.history["objective"][[0, -1]]
    rounding = 1e-12 if problem.dtype == np.float64 else 1e-5
    assert not result.diverged, result.reason
    assert np.isfinite(result.x).all()
    assert end <= start + rounding * max(1.0, abs(start)), (method, start, end)


GRADIENT_METHODS = [
    "AGPDMM",
    "AGPDMM, accelerated",
    "AGPDMM, the paper's rho",
    "GPDMM",
    "GPDMM, accelerated",
    "Scaffold",
    "FedAvg",
    "GradientDescent",
    "InexactFedSplit",
    "InexactFedSplit, accelerated",
]
start_scales = st.sampled_from([0.0, 1.0, 30.0])


@dataclass
class Recipe:
    """Least squares of any conditioning, rank and scale."""

    seed: int
    m: int
    d: int
    n: int
    kappa: float
    spread: float
    dtype: Any

    def problem(self) -> pdmm.LeastSquares:
        rng = np.random.default_rng(self.seed)
        A, b = [], []
        for scale in 10 ** (self.spread * rng.uniform(-1, 1, self.m)):
            shape = (self.n, self.d)
            U, s, V = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
            s = np.sqrt(np.geomspace(1, self.kappa, len(s)))
            s[0] *= rng.random() > 0.2  # now and then a rank is missing
            a = scale * U * s @ V
            target = a @ rng.standard_normal(self.d) + scale * rng.standard_normal(self.n)
            A.append(a.astype(self.dtype))
            b.append(target.astype(self.dtype))
        return pdmm.LeastSquares(A, b)


any_least_squares = st.builds(
    Recipe,
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 30),
    d=st.integers(1, 8),
    n=st.integers(1, 16),
    kappa=st.sampled_from([1.0, 30.0, 1e3, 1e6]),
    spread=st.sampled_from([0.0, 1.0, 3.0]),
    dtype=st.sampled_from([np.float64, np.float64, np.float32]),
)


@settings(some, max_examples=40)
@given(case=any_least_squares, far=start_scales)
def test_least_squares_never_diverge(case: Recipe, far: float) -> None:
    problem = case.problem()
    x0 = far * np.random.default_rng(case.seed).standard_normal(case.d)
    assert_safe(problem, None, 60, x0=x0)
    name = GRADIENT_METHODS[case.seed % len(GRADIENT_METHODS)]
    assert_safe(problem, every_auto()[name], 60, x0=x0)


@settings(some, max_examples=7)
@given(
    seed=st.integers(0, 2**32 - 1),
    apart=st.booleans(),
    l2=st.sampled_from([0.0, 1e-6, 1e-2]),
    scale=st.sampled_from([0.3, 1.0, 10.0]),
    far=start_scales,
)
def test_softmax_never_diverges(
    seed: int, apart: bool, l2: float, scale: float, far: float
) -> None:
    rng = np.random.default_rng(seed)
    m = 3 if apart else int(rng.integers(1, 6))
    X = [scale * (rng.standard_normal((5, 2)) + rng.standard_normal(2)) for _ in range(m)]
    y = [np.full(5, i) if apart else rng.integers(0, 3, 5) for i in range(m)]
    problem = pdmm.SoftmaxRegression(X, y, classes=3, l2=l2)
    x0 = far * rng.standard_normal(problem.dimension) / scale
    assert_safe(problem, None, 60, x0=x0)
    name = GRADIENT_METHODS[seed % len(GRADIENT_METHODS)]
    assert_safe(problem, every_auto()[name], 60, x0=x0)


def huber(x: Vector, a: Vector, s: float, w: float) -> float:
    away = np.abs(x - a)
    return float(w * np.where(away < 1 / s, s * away**2 / 2, away - 1 / (2 * s)).sum())


def huber_slope(x: Vector, a: Vector, s: float, w: float) -> Vector:
    return np.asarray(w * np.clip(s * (x - a), -1, 1))


def logistic(x: Vector, R: Matrix, w: float) -> float:
    return float(w * np.logaddexp(0, -R @ x).sum())


def logistic_slope(x: Vector, R: Matrix, w: float) -> Vector:
    return np.asarray(-w * np.exp(-np.logaddexp(0, R @ x)) @ R)


def smooth_functions(seed: int, most: int) -> tuple[pdmm.Functions, Vector]:
    """A few clients with functions of different kinds, steepnesses and weights."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    values: list[Callable[[Vector], float]] = []
    slopes: list[Callable[[Vector], Vector]] = []
    for _ in range(int(rng.integers(1, most + 1))):
        a = 10 ** rng.uniform(-1, 2) * rng.standard_normal(d)
        s, w = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)
        kind = int(rng.integers(3))
        if kind == 2:
            R = s * rng.standard_normal((3, d))
            values.append(partial(logistic, R=R, w=w))
            slopes.append(partial(logistic_slope, R=R, w=w))
        else:
            values.append(partial(huber if kind else logcosh, a=a, s=s, w=w))
            slopes.append(partial(huber_slope if kind else logcosh_slope, a=a, s=s, w=w))
    x0 = rng.standard_normal(d) * rng.choice([0.0, 1.0, 30.0])
    return pdmm.Functions(values, slopes, d), x0


@settings(some, max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_smooth_functions_never_diverge(seed: int) -> None:
    problem, x0 = smooth_functions(seed, most=8)
    assert_safe(problem, None, 60, x0=x0)


@pytest.mark.parametrize("seed", range(10))
def test_gradient_methods_never_diverge_on_smooth_functions(seed: int) -> None:
    problem, x0 = smooth_functions(seed, most=2)
    assert_safe(problem, every_auto()[GRADIENT_METHODS[seed]], 60, x0=x0)


@pytest.mark.parametrize(
    "method",
    [
        pdmm.PDMM(1.0, 0.9, "anderson"),
        pdmm.GPDMM(0.5, 8, 1.0, acceleration="anderson"),
        pdmm.GPDMM(rho="auto", acceleration="anderson"),
        pdmm.AGPDMM(0.5, 8, 1.0, acceleration="anderson"),
        pdmm.AGPDMM(rho="auto", acceleration="anderson"),
        pdmm.InexactFedSplit(1.0, 0.4, 8, start="server", acceleration="anderson"),
    ],
)
@pytest.mark.parametrize("rounds", [30, 60, 200])
def test_a_slope_that_does_not_change(method: Method, rounds: int) -> None:
    # Far from its centre a Huber function is a straight line: all residuals are alike there,
    # their differences are rounding, and so would be a combination that is made of them.
    shape: dict[str, Any] = {"a": np.array([100.0]), "s": 1.0, "w": 1.0}
    problem = pdmm.Functions([partial(huber, **shape)], [partial(huber_slope, **shape)], 1)
    assert_safe(problem, method, rounds)


@pytest.mark.parametrize("rounds", [60, 150])
def test_gpdmm_with_one_far_client(rounds: int) -> None:
    # Combinations whose ‖f‖ grew, each by less than it may, add up.
    shape: dict[str, Any] = {"a": np.array([-300.0, 100.0]), "s": 20.0, "w": 5.0}
    problem = pdmm.Functions([partial(huber, **shape)], [partial(huber_slope, **shape)], 2)
    method = pdmm.GPDMM(rho="auto", relaxation=0.9, acceleration="anderson")
    assert_safe(problem, method, rounds)


def absolute(x: Vector, a: Vector, w: float) -> float:
    return float(w * np.abs(x - a).sum())


def absolute_slope(x: Vector, a: Vector, w: float) -> Vector:
    return np.asarray(w * np.sign(x - a))


def absolute_prox(v: Vector, t: float, a: Vector, w: float) -> Vector:
    return np.asarray(a + np.sign(v - a) * np.maximum(np.abs(v - a) - t * w, 0))


def absolutes(centres: Sequence[Vector], w: Sequence[float]) -> pdmm.Functions:
    """The sum of w_i ‖x - a_i‖₁, with its prox."""
    pairs = list(zip(centres, w, strict=True))
    return pdmm.Functions(
        [partial(absolute, a=a, w=v) for a, v in pairs],
        [partial(absolute_slope, a=a, w=v) for a, v in pairs],
        len(centres[0]),
        prox=[partial(absolute_prox, a=a, w=v) for a, v in pairs],
    )


def test_two_kinks() -> None:
    # Away from the kinks every residual is the same, and an extrapolation may go anywhere.
    problem = absolutes([np.array([0.0]), np.array([2.4])], [0.5, 0.3])
    assert_safe(problem, None, 60, x0=[-6.3])


@settings(some, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 10), d=st.integers(1, 3))
def test_sums_of_absolute_values_never_diverge(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    centres = list(rng.standard_normal((m, d)) * 10 ** rng.uniform(0, 2, (m, 1)))
    problem = absolutes(centres, (10 ** rng.uniform(-1, 1, m)).tolist())
    assert_safe(problem, None, 60, x0=10 * rng.standard_normal(d))


def steeper(x: Vector, p: Vector, q: Vector, k: float) -> float:
    return float(max(p @ x, q @ x + k))


def steeper_slope(x: Vector, p: Vector, q: Vector, k: float) -> Vector:
    return p if p @ x >= q @ x + k else q


def steeper_prox(v: Vector, t: float, p: Vector, q: Vector, k: float) -> Vector:
    u = p - q
    share = ((u @ v - k) / t - u @ q) / (u @ u)  # on the kink p·x = q·x + k, between the two
    return np.asarray(v - t * (q + np.clip(share, 0, 1) * u))


@settings(some, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 12), d=st.integers(1, 3))
def test_piecewise_linear_functions_never_diverge(seed: int, m: int, d: int) -> None:
    # f_i = max(p_i·x, q_i·x + k_i), and one client whose |x| keeps the sum above zero.
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((2, m, d))
    k = rng.standard_normal(m)
    rows = [{"p": p[i], "q": q[i], "k": float(k[i])} for i in range(m)]
    hold: dict[str, Any] = {"a": np.zeros(d), "w": float(np.abs([p, q]).sum())}
    problem = pdmm.Functions(
        [*(partial(steeper, **r) for r in rows), partial(absolute, **hold)],
        [*(partial(steeper_slope, **r) for r in rows), partial(absolute_slope, **hold)],
        d,
        prox=[*(partial(steeper_prox, **r) for r in rows), partial(absolute_prox, **hold)],
    )
    assert_safe(problem, None, 60, x0=5 * rng.standard_normal(d))


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e20])
def test_units_do_not_matter(scale: float) -> None:
    # The data of a float64 problem may be in any unit; only the scalars travel narrower.
    data = clients(2)
    problem = pdmm.LeastSquares([scale * a for a in data.A], [scale * v for v in data.b])
    result = pdmm.solve(problem, rounds=60)
    plain = pdmm.solve(data.problem(), rounds=60)
    np.testing.assert_allclose(result.x, plain.x, rtol=1e-5, atol=1e-6)
    assert abs(result.rounds - plain.rounds) <= 5


def test_one_client_and_nothing_to_do() -> None:
    alone = pdmm.LeastSquares([np.diag([1.0, 100.0])], [np.ones(2)])
    assert pdmm.solve(alone, rounds=60).history["gap"][-1] < 1e-10
    flat = pdmm.LeastSquares([np.zeros((2, 2))] * 2, [np.ones(2)] * 2)
    for method in (None, *every_auto().values()):
        result = pdmm.solve(flat, method, 5, x0=[1.0, -2.0])
        np.testing.assert_array_equal(result.x, [1.0, -2.0])


# --- how fast --------------------------------------------------------------------------------


def six_kinds() -> dict[str, Data]:
    """SPEC section 4: what they have in common is that no one rho suits them all."""
    m, d, n = 20, 20, 60
    kinds: dict[str, Data] = {}
    for k, name in enumerate(
        ("iid", "iid, kappa 150", "own optima", "well-conditioned sum", "scales", "kappa 1.5e4")
    ):
        rng = np.random.default_rng(k)
        common = rng.standard_normal(d)
        A, b = [], []
        for i in range(m):
            a = rng.standard_normal((n if k > 1 else 10 * n, d))
            if k == 1:
                a = a * np.sqrt(np.geomspace(1, 50, d))
            if k == 3:
                U, _, V = np.linalg.svd(a, full_matrices=False)
                a = U * np.sqrt(np.geomspace(1, 1e4, d)) @ V
            if k == 4:
                a = a * np.sqrt(100 ** (i / (m - 1)))
            if k == 5:
                a = a * np.sqrt(np.geomspace(1, 2e3, d))
            target = common if k < 2 else rng.standard_normal(d)
            A.append(a)
            b.append(a @ target + 0.5 * rng.standard_normal(len(a)))
        kinds[name] = Data(A, b, np.ones(m), np.zeros(d))
    return kinds


@pytest.mark.parametrize("name", list(six_kinds()))
def test_at_most_twice_the_rounds_of_the_best_fixed_rho(name: str) -> None:
    data = six_kinds()[name]
    problem = data.problem().factorise()
    history = pdmm.solve(problem, rounds=200).history
    rounds = history.rounds_to(1e-6 * float(history["gap"][0]))
    assert rounds is not None
    fewer = (rounds - 1) // 2  # what a fixed rho would have to do it in, for auto to need more
    if fewer == 0:
        return
    middle = float(np.sqrt(data.spectrum.max() * data.spectrum.min()))
    for rho in middle * np.geomspace(1e-2, 1e3, 21):
        gap = pdmm.solve(problem, pdmm.PDMM(rho), fewer, record_every=fewer).history["gap"]
        assert gap[-1] > 1e-6 * gap[0], (name, rounds, rho)


def test_the_papers_problem_in_a_dozen_rounds() -> None:
    problem = pdmm.LeastSquares.random(clients=25, samples=1000, features=100)
    rounds = pdmm.solve(problem, rounds=12).history.rounds_to(1e-6)
    assert rounds is not None
    assert rounds <= 12


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: untyped.PDMM("automatic"), "rho"),
        (lambda: untyped.PDMM("AUTO"), "rho"),
        (lambda: untyped.FedSplit("automatic"), "gamma"),
        (lambda: untyped.InexactFedSplit("automatic", 0.1, 2), "gamma"),
        (lambda: untyped.InexactFedSplit(0.1, "automatic", 2), "step_size"),
        (lambda: untyped.GPDMM("automatic", 2), "step_size"),
        (lambda: untyped.GPDMM(0.1, 2, "automatic"), "rho"),
        (lambda: untyped.AGPDMM(0.1, "automatic"), "local_steps"),
        (lambda: untyped.AGPDMM(0.1, 2, rho="automatic"), "rho"),
        (lambda: untyped.FedAvg("automatic", 2), "step_size"),
        (lambda: untyped.Scaffold(0.1, "automatic"), "local_steps"),
        (lambda: untyped.Scaffold(0.1, 2, server_step="auto"), "server_step"),
        (lambda: untyped.GradientDescent("automatic"), "step_size"),
        (lambda: untyped.PDMM(1.0, relaxation="auto"), "relaxation"),
        (lambda: untyped.PDMM(1.0, acceleration="andersen"), "acceleration.*'anderson'"),
        (lambda: untyped.FedSplit(1.0, acceleration=True), "acceleration"),
        (lambda: untyped.GPDMM(0.1, 2, acceleration="andersen"), "acceleration"),
        (lambda: untyped.AGPDMM(0.1, 2, acceleration=5), "acceleration"),
        (lambda: untyped.InexactFedSplit(1.0, 0.1, 2, acceleration="Anderson"), "acceleration"),
    ],
)
def test_words_that_are_not_auto(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()


def test_only_solve_can_choose() -> None:
    methods: list[Any] = [
        pdmm.PDMM("auto"),
        pdmm.FedSplit("auto"),
        pdmm.GPDMM(0.1, 2, rho="auto"),
        pdmm.AGPDMM("auto", 2),
        pdmm.InexactFedSplit("auto", 0.1, 2),
    ]
    for method in methods:
        with pytest.raises(ValueError, match=r"only pdmm\.solve can choose it"):
            _ = method.penalty
    with pytest.raises(ValueError, match=r"only pdmm\.solve can choose it"):
        _ = pdmm.AGPDMM(0.1, "auto").steps


def test_too_long_a_step_beside_an_auto_warns() -> None:
    data = clients(kappa=4.0)
    problem, L = data.problem(), float(data.spectrum.max())
    too_long: list[Method] = [
        pdmm.AGPDMM(2.2 / L, "auto"),
        pdmm.AGPDMM(2.2 / L, 3, rho="auto"),
        pdmm.GPDMM(2.2 / L, "auto"),
        pdmm.FedAvg(2.2 / L, "auto"),
        pdmm.Scaffold(2.2 / L, "auto"),
        pdmm.InexactFedSplit("auto", 2.2 / L, 2, start="server"),
    ]
    for method in too_long:
        with pytest.warns(RuntimeWarning, match=r"step_size=.* is above 2/L") as caught:
            pdmm.solve(problem, method, 2)
        assert caught[0].filename == __file__  # it points at the call
    pdmm.solve(problem, pdmm.AGPDMM(1.9 / L, "auto"), 2)  # and no warning here


def test_fedavg_and_scaffold_still_take_no_regulariser() -> None:
    for method in (pdmm.FedAvg("auto", "auto"), pdmm.Scaffold("auto", "auto")):
        with pytest.raises(ValueError, match="no regulariser"):
            pdmm.solve(clients().problem(), method, 2, regulariser=pdmm.L1(1.0))


# --- the same bits ---------------------------------------------------------------------------


def bits(result: pdmm.Result) -> dict[str, Any]:
    columns = {name: c.tobytes() for name, c in result.history.items() if name != "seconds"}
    certificate = dataclasses.asdict(result.certificate)
    return columns | {"x": result.x.tobytes(), "method": result.method, **certificate}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_bits_every_time_and_on_any_number_of_threads(dtype: Any) -> None:
    data = clients(1)
    shared = data.problem(dtype)
    for name, method in {**every_auto(), "no method": None}.items():
        alone = bits(pdmm.solve(data.problem(dtype), method, 10, threads=1))
        assert bits(pdmm.solve(shared, method, 10)) == alone, name
        assert bits(pdmm.solve(shared, method, 10, threads=3)) == alone, name
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 5, 2)).astype(dtype), rng.integers(0, 2, (3, 5))
    runs = [
        bits(pdmm.solve(pdmm.SoftmaxRegression(X, y, classes=2, l2=0.1), rounds=6, threads=t))
        for t in (1, 2)
    ]
    assert runs[0] == runs[1]


def test_many_blocks_of_clients() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((1000, 15, 30)), rng.standard_normal((1000, 15))
    problem = pdmm.LeastSquares(A, b)
    assert len(problem.blocks()) > 1
    runs = [bits(pdmm.solve(problem, rounds=6, threads=t)) for t in (1, 3)]
    assert runs[0] == runs[1]
