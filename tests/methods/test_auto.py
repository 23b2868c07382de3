"""Parameters that choose themselves: which numbers, why, what they cost, what is refused."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.automatic import (
    clients,
    every_auto,
    is_accelerated,
)
from pdmm.methods import Method, spectral
from pdmm.methods.adaptive import Adaptive

untyped: Any = pdmm  # for what a type checker would not let pass

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
        elif name in ("FedProx", "FedDyn"):
            weight = method.mu if name == "FedProx" else method.alpha
            assert method.step_size == pytest.approx(1 / (L + weight))
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


def test_scalars_where_functions_are_flat() -> None:
    data = clients(d=12)
    narrow = pdmm.LeastSquares([a[:3] for a in data.A], [v[:3] for v in data.b])
    method = pdmm.PDMM("auto", acceleration="anderson")
    assert pdmm.solve(narrow, method, 3).scalars == (28, 27)
    assert pdmm.solve(data.problem(), method, 3).scalars == (18, 17)
    assert pdmm.solve(narrow, pdmm.PDMM("auto"), 3).scalars == (8, 7)


def test_a_chosen_method_pays_for_its_certificates() -> None:
    data = clients()
    result = pdmm.solve(data.problem())
    checks = 1 + -(-result.rounds // 5)
    assert result.history["vectors_up"][-1] == data.m * (result.rounds + checks)
    assert result.history["vectors_up"][0] == data.m


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
