"""rho that adapts while clients are missing: its twin, its optimum, every way a round can go."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.ranks import close, on_ranks
from builders.sites import Absence, FakeSites
from pdmm.common import trees
from pdmm.methods.patient import Patient
from twins.patient import Twin

Vector = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
M, D = 9, 6
WEIGHTS = np.linspace(0.5, 2.0, M)


def data() -> tuple[Vector, Vector]:
    """Turned bases, so that the mean bends far more evenly than any client."""
    rng = np.random.default_rng(4)
    A = []
    for _ in range(M):
        turn, _ = np.linalg.qr(rng.standard_normal((D, D)))
        A.append(np.sqrt(np.geomspace(1e-2, 1e2, D))[:, None] * turn)
    return np.array(A), rng.standard_normal((M, D)) * 3


def problem(some: Any = None, dtype: Any = np.float64) -> pdmm.LeastSquares:
    A, b = data()
    chosen = list(range(M) if some is None else some)
    return pdmm.LeastSquares(A[chosen].astype(dtype), b[chosen].astype(dtype))


def softmax(some: Any = None) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((M, 12, 3)) + rng.standard_normal((M, 1, 3))
    y = rng.integers(0, 3, (M, 12))
    chosen = list(range(M) if some is None else some)
    return pdmm.SoftmaxRegression(list(X[chosen]), list(y[chosen]), classes=3, l2=1e-3)


def patient(inner: Any = None, precision: float = EPS) -> Patient:
    return Patient(pdmm.PDMM(1.0, 0.9) if inner is None else inner, precision)


def last_gap(result: pdmm.Result) -> float:
    gap = result.history["gap"]
    return float(gap[-1] / gap[0])


def changes(result: pdmm.Result) -> int:
    return int((np.diff(result.history["rho"]) != 0).sum())


# --- the mathematics ------------------------------------------------------------------------


def absolute(v: Vector, t: float) -> Vector:
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - 4 * t, 0))


def twin(h: Any) -> Twin:
    A, b = data()

    def prox(i: int, a: Vector, rho: float) -> Vector:
        return np.linalg.solve(A[i].T @ A[i] + rho * np.eye(D), A[i].T @ b[i] + rho * a)

    def gradient(i: int, x: Vector) -> Vector:
        return np.asarray(A[i].T @ (A[i] @ x - b[i]))

    return Twin(prox, gradient, WEIGHTS, h, np.linspace(-1, 1, D), 1.0, 0.9)


@pytest.mark.parametrize("h", [lambda v, t: v, absolute], ids=["none", "l1"])
def test_it_is_the_naive_twin_that_rescales_absent_clients(h: Any) -> None:
    naive = twin(h)
    method = patient()
    f = problem()
    rng = np.random.default_rng(0)
    total = WEIGHTS.sum()

    def prox(v: Vector, t: float) -> Vector:
        return np.asarray(h(v, t / total))

    server = method.server_start(naive.x0.copy(), prox)
    memory = method.client_start(np.tile(naive.x0, (M, 1)))
    rhos = []
    for _ in range(160):
        there = np.sort(rng.choice(M, 3, replace=False))
        there = there[rng.random(len(there)) < 0.8]
        if not len(there):
            continue
        naive.step(there)
        message = method.broadcast(server)
        held = trees.rows(memory, there)
        upload, draft = method.client(message, held, f.at(there), 0)
        trees.put(memory, there, method.accept(held, draft, upload))
        w = WEIGHTS[there]
        mean = trees.scaled(trees.weighted_sum(w, upload), float(w.sum()))
        server = method.server(server, mean, float(w.sum() / total), prox)
        np.testing.assert_allclose(server.x, naive.x, rtol=1e-8, atol=1e-9)
        z = server.shift + server.balance.scale * memory.w
        np.testing.assert_allclose(z, naive.z, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(server.w, WEIGHTS @ memory.w / total, rtol=1e-9, atol=1e-10)
        assert server.balance.rho == naive.rho
        rhos.append(naive.rho)
    assert len(set(rhos)) >= 3


def test_a_change_of_rho_leaves_x_and_all_duals_as_they_are() -> None:
    method = patient()
    rng = np.random.default_rng(1)
    w = rng.standard_normal((M, D))
    start = method.server_start(np.zeros(D), absolute)
    server = start._replace(w=w.mean(0), shift=rng.standard_normal(D))
    server = method._placed(server, absolute)
    for power in (-3, 2, 1, -1):
        balance = server.balance
        old = balance.rho * (server.shift + balance.scale * w - server.x)
        moved = method._with_rho(server, balance._replace(rho=balance.rho * 2.0**power), absolute)
        assert moved.balance.rho != balance.rho
        new = moved.balance.rho * (moved.shift + moved.balance.scale * w - moved.x)
        np.testing.assert_allclose(new, old, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moved.x, server.x, rtol=1e-12, atol=1e-12)
        server = moved


def test_single_vectors_are_rows_of_a_block() -> None:
    method = patient(pdmm.GPDMM(0.005, 3, rho=2.0))
    f = problem()
    server = method.server_start(np.zeros(D), lambda v, t: v)
    block = method.client_start(np.zeros((M, D)))
    singles = [method.client_start(np.zeros(D)) for _ in range(M)]
    for _ in range(30):
        message = method.broadcast(server)
        upload, draft = method.client(message, block, f.at(slice(0, M)), 3)
        block = method.accept(block, draft, upload)
        for i in range(M):
            alone, own = method.client(message, singles[i], f.client(i), 3)
            singles[i] = method.accept(singles[i], own, alone)
            for row, field in zip(singles[i], block, strict=True):
                np.testing.assert_allclose(row, field[i], rtol=1e-9, atol=1e-11)
        mean = trees.each(lambda field: field.mean(axis=0), upload)
        server = method.server(server, mean, 1.0, lambda v, t: v)
    assert server.balance.look == 4
    assert server.balance.rho != 2.0


def test_until_rho_changes_it_is_the_method_inside_to_the_last_bit() -> None:
    links: dict[str, Any] = {"participation": 0.5, "loss": 0.2, "seed": 3}
    for inner in (pdmm.PDMM(2.0, 0.9), pdmm.AGPDMM(0.005, 3, rho=2.0), pdmm.GPDMM(0.005, 3)):
        plain = pdmm.solve(problem(), inner, 3, **links)
        adapting = pdmm.solve(problem(), patient(inner), 3, **links)
        assert (plain.x == adapting.x).all()
        assert adapting.method == inner


def test_it_keeps_what_methods_promise() -> None:
    report = pdmm.methods.check(patient(pdmm.PDMM(0.01)))
    # Its scalars are float64 in every run, and it has as many as the trial's vectors have entries.
    known = {"float32 stays float32", "what travels is what is stated"}
    assert {finding.name for finding in report.broken} == known
    assert len(report.findings) == 8


# --- through the public call ----------------------------------------------------------------


def test_auto_knows_mu_of_least_squares_and_learns_that_of_others() -> None:
    links: dict[str, Any] = {"participation": 0.5, "rounds": 60}
    known = pdmm.solve(problem(), pdmm.PDMM(), **links)
    assert "rho" not in known.history
    assert any("x_s and the duals are equally slow" in why for why in known.choices)
    learnt = pdmm.solve(softmax(), pdmm.PDMM(relaxation=0.9), **links)
    assert changes(learnt) >= 1
    assert any("and adapts" in why for why in learnt.choices)
    assert isinstance(learnt.method, pdmm.PDMM)
    assert learnt.method.penalty == learnt.history["rho"][-1]
    given = pdmm.solve(softmax(), pdmm.PDMM(0.1), **links)
    assert "rho" not in given.history


def test_with_everyone_there_nothing_changes() -> None:
    result = pdmm.solve(problem(), pdmm.PDMM(), 5)
    assert any("from sqrt(L mu) of the mean client, and adapts" in why for why in result.choices)


LINKS: dict[str, dict[str, Any]] = {
    "participation": {"participation": 0.4},
    "loss": {"loss": 0.3},
    "both": {"participation": 0.5, "loss": 0.2, "state": "server"},
    "bits": {"participation": 0.5, "bits": 8},
}
INNER: dict[str, Any] = {
    "pdmm": pdmm.PDMM(0.5, 0.9),
    "fedsplit": pdmm.FedSplit(2.0, 0.9),
    "gpdmm": pdmm.GPDMM(0.009, 40, rho=0.5, relaxation=0.9),
    "agpdmm": pdmm.AGPDMM(0.009, 40, rho=0.5, relaxation=0.9),
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_it_is_exact_whatever_is_missing(links: dict[str, Any], inner: Any) -> None:
    result = pdmm.solve(problem(), patient(inner), rounds=700, seed=5, record_every=1, **links)
    assert changes(result) >= 2
    assert last_gap(result) <= 1e-11
    assert result.certificate.gap is not None
    assert result.history["gap"][-1] <= result.certificate.gap


@pytest.mark.parametrize("h", [pdmm.L1(3.0), pdmm.SquaredL2(2.0), pdmm.Box(-0.3, 0.3)])
def test_weights_and_a_regulariser(h: Any) -> None:
    more: dict[str, Any] = {"weights": WEIGHTS, "regulariser": h}
    best = pdmm.solve(problem(), rounds=400, **more)
    links: dict[str, Any] = {"participation": 0.4, "loss": 0.2}
    result = pdmm.solve(problem(), patient(), rounds=900, **links, **more)
    assert changes(result) >= 2
    np.testing.assert_allclose(result.x, best.x, rtol=1e-5, atol=2e-6)
    assert result.certificate.dual_sum is not None
    assert result.certificate.dual_sum < 1e-5


def test_rho_adapts_to_its_profit() -> None:
    links: dict[str, Any] = {"participation": 0.4, "loss": 0.2, "rounds": 250}
    fixed = pdmm.solve(problem(), pdmm.PDMM(1.0, 0.9), **links)
    learnt = pdmm.solve(problem(), patient(), **links)
    assert last_gap(learnt) < 1e-3 * last_gap(fixed)


def test_float32_arrives_where_float32_does() -> None:
    single = float(np.finfo(np.float32).eps)
    links: dict[str, Any] = {"participation": 0.5, "loss": 0.2, "rounds": 400}
    for rho in (0.1, 1.0, 100.0):
        method = patient(pdmm.PDMM(rho, 0.9), single)
        result = pdmm.solve(problem(dtype=np.float32), method, **links)
        assert changes(result) >= 1
        assert last_gap(result) <= 1e-8


# --- accounts, checkpoints, ranks and sites -------------------------------------------------


@pytest.mark.parametrize(("dtype", "numbers"), [(np.float64, D), (np.float32, D // 2)])
def test_the_shift_is_counted_once_rho_has_changed(dtype: Any, numbers: int) -> None:
    method = patient(precision=float(np.finfo(dtype).eps))
    result = pdmm.solve(problem(dtype=dtype), method, 40, participation=4)
    size = np.dtype(dtype).itemsize
    each = np.diff(result.history["bytes_down"]) / 4
    plain = size * D + 8 * 4  # a sequence number, rho, scale, and the number of the look
    moved = result.history["rho"][:-1] != result.history["rho"][0]
    assert moved.any()
    np.testing.assert_array_equal(each, plain + 8 * numbers * np.maximum.accumulate(moved))
    up = np.diff(result.history["bytes_up"]) / 4
    assert (up == size * D + 8 * 7).all()


@pytest.mark.parametrize("links", [LINKS["both"], LINKS["bits"]], ids=["both", "bits"])
@pytest.mark.parametrize("stop", [7, 25, 60])
def test_a_checkpoint_goes_on_to_the_same_bits(
    links: dict[str, Any], stop: int, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"rounds": 80, "weights": WEIGHTS, **links}
    method = pdmm.GPDMM(rho="auto", relaxation=0.9)
    whole = pdmm.solve(softmax(), method, **more)
    path = tmp_path / "run.safetensors"
    pdmm.solve(softmax(), method, **more, checkpoint=path, callback=lambda r, x: r == stop)
    resumed = pdmm.resume(path, softmax())
    assert changes(whole) >= 1
    assert (resumed.x == whole.x).all()
    for column in ("rho", "bytes_down", "bytes_up", "gradient_calls"):
        assert (resumed.history[column] == whole.history[column]).all()


def test_ranks_and_state_at_the_server_find_the_same() -> None:
    links: dict[str, Any] = {"rounds": 60, "participation": 0.5, "loss": 0.2}
    method = pdmm.PDMM(relaxation=0.9)
    one = pdmm.solve(softmax(), method, **links)
    assert changes(one) >= 1

    def work(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.solve(softmax(mpi.range(M)), method, engine=mpi, **links)

    for result in on_ranks(2, work):
        assert close(one.x, result.x, 1e-9)  # exact steps end at a tolerance of their own
        assert (result.history["rho"] == one.history["rho"]).all()
    kept = pdmm.solve(softmax(), method, state="server", **links)
    assert (kept.x == one.x).all()


def test_sites_that_may_be_silent_learn_it_too() -> None:
    shares = {"ana": range(0, 2), "ben": range(2, 5), "cyd": range(5, M)}

    absence = Absence("ben", range(2, 9))
    sites = pdmm.engines.Sites(FakeSites(problem, shares, absence.fault), absent="skip")
    best = pdmm.solve(problem()).x
    method = pdmm.PDMM(relaxation=0.9)
    result = pdmm.solve(sites, method, rounds=200, callback=absence.callback)
    assert any("ben did not answer in rounds 2 to 8" in why for why in result.choices)
    assert changes(result) >= 1
    np.testing.assert_allclose(result.x, best, rtol=1e-5, atol=1e-6)
