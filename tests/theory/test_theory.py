"""What theory says of the methods: reductions, invariants and proven rates."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.engine import stepped
from pdmm.methods import Method
from pdmm.methods.scaffold import Upload
from twins import methods as twins
from twins.methods import Vector

random_problems = settings(derandomize=True, deadline=None, max_examples=20)


@dataclass
class Instance:
    """A random least-squares problem and what theory wants to know of it."""

    problem: pdmm.LeastSquares
    A: list[Any]
    b: list[Any]
    x0: Vector
    weights: Vector

    @property
    def m(self) -> int:
        return self.problem.clients

    @property
    def eigenvalues(self) -> Vector:
        return np.concatenate([np.linalg.eigvalsh(a.T @ a) for a in self.A])

    @property
    def L(self) -> float:
        return float(self.eigenvalues.max())

    @property
    def mu(self) -> float:
        return float(self.eigenvalues.min())

    @property
    def optimum(self) -> Vector:
        """A minimiser of the unweighted sum."""
        A, b = np.concatenate(self.A), np.concatenate(self.b)
        return np.asarray(np.linalg.lstsq(A, b)[0], dtype=np.float64)

    def gradients(self, x: Vector) -> Vector:
        """Of every client at x, or each at its own row of x."""
        rows = np.broadcast_to(x, (self.m, len(self.x0)))
        pairs = zip(self.A, self.b, rows, strict=True)
        return np.array([a.T @ (a @ row - v) for a, v, row in pairs])


def instances(tall: bool = False, dtype: type = np.float64) -> st.SearchStrategy[Instance]:
    """Random problems; the tall ones are well conditioned, so that mu > 0."""

    def build(seed: int, m: int, d: int, n: int, scale: float) -> Instance:
        rng = np.random.default_rng(seed)
        if tall:
            n = 3 * d + n
        scales = np.exp(scale * rng.standard_normal(m)) / np.sqrt(n)
        A = [(s * rng.standard_normal((n, d))).astype(dtype) for s in scales]
        b: list[Any] = [rng.standard_normal(n).astype(dtype) for _ in range(m)]
        x0 = rng.standard_normal(d).astype(dtype).astype(np.float64)
        weights = rng.uniform(0.3, 3, m)
        return Instance(pdmm.LeastSquares(A, b), A, b, x0, weights)

    return st.builds(
        build,
        seed=st.integers(0, 2**32 - 1),
        m=st.integers(1, 5),
        d=st.integers(1, 6),
        n=st.integers(1, 8),
        scale=st.floats(0, 1),
    )


fractions = st.floats(0.05, 1.0)
scales = st.floats(0.05, 20.0)


def iterates(case: Instance, method: Method, rounds: int = 40, **more: Any) -> Vector:
    xs: list[Any] = []

    def keep(r: int, x: Any) -> None:
        xs.append(x)

    more = {"optimum": False, "record_every": rounds, "threads": 1, **more}
    pdmm.solve(case.problem, method, rounds, x0=case.x0, callback=keep, **more)
    return np.array(xs, dtype=np.float64)


def assert_same(ours: Vector, theirs: Vector, tolerance: float = 1e-11) -> None:
    assert len(ours) == len(theirs) > 0
    assert np.abs(ours - theirs).max() <= tolerance * max(1.0, float(np.abs(theirs).max()))


def states(
    case: Instance, method: Method, rounds: int, weights: Vector | None = None
) -> Iterator[tuple[Any, Any]]:
    """(server, memory of all clients) at the start and after every round."""

    def prox(v: Vector, t: float) -> Vector:
        return v

    w = np.ones(case.m) if weights is None else weights
    with stepped(case.problem, method, case.x0, w, rounds, prox) as run:
        yield run.server, run.memory
        for _ in range(rounds):
            run.step()
            yield run.server, run.memory


# --- reductions -------------------------------------------------------------------------------


@random_problems
@given(instances(), scales, st.sampled_from([1.0, 0.8, 0.5]))
def test_pdmm_is_fedsplit_with_rho_one_over_gamma(
    case: Instance, scale: float, relaxation: float
) -> None:
    gamma = scale / case.L
    assert_same(
        iterates(case, pdmm.PDMM(1 / gamma, relaxation), weights=case.weights),
        iterates(case, pdmm.FedSplit(gamma, relaxation), weights=case.weights),
    )


@random_problems
@given(instances(), fractions, scales)
def test_agpdmm_with_one_step_is_gradient_descent(
    case: Instance, fraction: float, scale: float
) -> None:
    eta, rho = fraction / case.L, scale * case.L
    step = 2 / (1 / eta + rho)
    assert_same(
        iterates(case, pdmm.AGPDMM(eta, 1, rho), weights=case.weights),
        iterates(case, pdmm.GradientDescent(step), weights=case.weights),
    )


@random_problems
@given(instances(), fractions, st.booleans())
def test_agpdmm_with_one_step_and_rho_one_over_eta_is_gradient_descent_with_eta(
    case: Instance, fraction: float, default: bool
) -> None:
    eta = fraction / case.L
    method = pdmm.AGPDMM(eta, 1, None if default else 1 / eta)
    assert_same(iterates(case, method), iterates(case, pdmm.GradientDescent(eta)))


@random_problems
@given(instances(), fractions, fractions)
def test_scaffold_with_one_step_is_gradient_descent(
    case: Instance, fraction: float, server_step: float
) -> None:
    eta = fraction / case.L
    assert_same(
        iterates(case, pdmm.Scaffold(eta, 1, server_step), weights=case.weights),
        iterates(case, pdmm.GradientDescent(server_step * eta), weights=case.weights),
    )


@random_problems
@given(instances(), st.floats(0.05, 0.9), scales)
def test_inexact_fedsplit_from_the_server_with_one_step_is_gradient_descent(
    case: Instance, fraction: float, scale: float
) -> None:
    # The clients' anchors stay bounded only while |1 - 2 eta / gamma| <= 1; x_s does not see them,
    # but their rounding errors would.
    eta = fraction / case.L
    gamma = max(scale / case.L, eta)
    assert_same(
        iterates(case, pdmm.InexactFedSplit(gamma, eta, 1, start="server"), weights=case.weights),
        iterates(case, pdmm.GradientDescent(2 * eta), weights=case.weights),
    )


@random_problems
@given(instances(), fractions)
def test_fedavg_with_one_step_is_gradient_descent(case: Instance, fraction: float) -> None:
    eta = fraction / case.L
    assert_same(
        iterates(case, pdmm.FedAvg(eta, 1), weights=case.weights),
        iterates(case, pdmm.GradientDescent(eta), weights=case.weights),
    )


def consensus_admm(case: Instance, rho: float, c: float, rounds: int) -> Vector:
    """Boyd et al., "Distributed optimization ... ADMM" (2011), Section 7.1, with h = c ‖x‖₁."""
    _, prox = twins.least_squares(case.A, case.b)
    z = case.x0 if c == 0 else 0 * case.x0
    u = [np.zeros_like(z) for _ in range(case.m)]
    result = []
    for _ in range(rounds):
        x = [prox(i, z - u[i], rho) for i in range(case.m)]
        mean = sum((x[i] + u[i] for i in range(case.m)), np.zeros_like(z)) / case.m
        z = np.sign(mean) * np.maximum(np.abs(mean) - c / (rho * case.m), 0)
        u = [u[i] + x[i] - z for i in range(case.m)]
        result.append(z)
    return np.array(result)


@random_problems
@given(instances(), scales, st.sampled_from([0.0, 0.3]))
def test_pdmm_relaxed_by_half_is_admm(case: Instance, scale: float, share: float) -> None:
    rho = scale * case.L
    c = share * float(np.abs(case.gradients(0 * case.x0).sum(0)).max())
    # Soft thresholding keeps 0 at 0, so that ADMM's start u = 0 is PDMM's too.
    start = case.x0 if c == 0 else 0 * case.x0
    same = Instance(case.problem, case.A, case.b, start, case.weights)
    ours = iterates(same, pdmm.PDMM(rho, relaxation=0.5), regulariser=pdmm.L1(c))
    assert_same(ours, consensus_admm(case, rho, c, len(ours)))


# --- invariants -------------------------------------------------------------------------------

FAMILY = ["PDMM", "FedSplit", "inexact anchor", "inexact server", "GPDMM", "GPDMM last", "AGPDMM"]


def member(name: str, L: float, K: int, scale: float, relaxation: float) -> Method:
    rho, eta = scale * L, 0.9 / L
    methods: dict[str, Method] = {
        "PDMM": pdmm.PDMM(rho, relaxation),
        "FedSplit": pdmm.FedSplit(1 / rho, relaxation),
        "inexact anchor": pdmm.InexactFedSplit(1 / rho, 1 / (L + rho), K, "anchor", relaxation),
        "inexact server": pdmm.InexactFedSplit(1 / rho, 1 / (L + rho), K, "server", relaxation),
        "GPDMM": pdmm.GPDMM(eta, K, rho, "mean", relaxation),
        "GPDMM last": pdmm.GPDMM(eta, K, rho, "last", relaxation),
        "AGPDMM": pdmm.AGPDMM(eta, K, rho, relaxation),
    }
    return methods[name]


def _duals_sum_to_zero(case: Instance, method: Method, rounds: int, eps: float) -> None:
    w = case.weights / case.weights.sum()
    seen = 0
    for server, memory in states(case, method, rounds, case.weights):
        z = memory.z.astype(np.float64)
        # lam_{s|i} / rho = z_i - x_s, eq. server_update
        dual = z - server.x
        size = max(1.0, float(np.abs(z).max()), float(np.abs(case.x0).max()))
        assert np.abs(w @ dual).max() <= eps * size
        seen += 1
    assert seen == rounds + 1


@pytest.mark.parametrize("name", FAMILY)
@settings(random_problems, max_examples=8)
@given(instances(), st.integers(1, 6), st.floats(0.1, 2), st.sampled_from([1.0, 0.5]))
def test_server_duals_sum_to_zero(
    name: str, case: Instance, K: int, scale: float, relaxation: float
) -> None:
    _duals_sum_to_zero(case, member(name, case.L, K, scale, relaxation), 60, 1e-13)


@pytest.mark.parametrize("name", FAMILY)
@settings(random_problems, max_examples=8)
@given(instances(dtype=np.float32), st.integers(1, 6), st.floats(0.1, 2))
def test_server_duals_sum_to_zero_in_float32(
    name: str, case: Instance, K: int, scale: float
) -> None:
    _duals_sum_to_zero(case, member(name, case.L, K, scale, 1.0), 60, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILY)
def test_float32_errors_do_not_add_up_over_the_rounds(name: str) -> None:
    # A mean of ten problems, because one may be lucky. Measured: 2e-8, and 9e-8 or more if
    # clients sent a change that their own z_i could not hold.
    drifts = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A: list[Any] = [rng.standard_normal((8, 5)).astype(np.float32) / 3 for _ in range(4)]
        b: list[Any] = [rng.standard_normal(8).astype(np.float32) for _ in range(4)]
        x0 = rng.standard_normal(5).astype(np.float32).astype(np.float64)
        case = Instance(pdmm.LeastSquares(A, b), A, b, x0, np.ones(4))
        *_, (server, memory) = states(case, member(name, case.L, 3, 0.5, 1.0), 150)
        drifts.append(np.abs(memory.z.mean(0, dtype=np.float64) - server.z).max())
    assert np.mean(drifts) < 3e-8


@random_problems
@given(instances(), st.integers(1, 6))
def test_scaffold_control_variates_average_to_the_servers(case: Instance, K: int) -> None:
    w = case.weights / case.weights.sum()
    method = pdmm.Scaffold(0.3 / case.L, K)
    for server, memory in states(case, method, 40, case.weights):
        size = max(1.0, float(np.abs(memory.c).max()))
        assert np.abs(w @ memory.c - server.c).max() <= 1e-12 * size


# --- rates ------------------------------------------------------------------------------------


@random_problems
@given(instances(tall=True), st.floats(0.05, 20))
def test_exact_pdmm_contracts_by_delta(case: Instance, scale: float) -> None:
    L, mu = case.L, case.mu
    rho = scale * np.sqrt(L * mu)
    delta = max(abs(L - rho) / (L + rho), abs(rho - mu) / (rho + mu))
    x_star = case.optimum
    z_star = x_star - case.gradients(x_star) / rho
    far = [
        float(np.linalg.norm(memory.z - z_star)) for _, memory in states(case, pdmm.PDMM(rho), 30)
    ]
    noise = 1e-12 * max(1.0, float(np.abs(z_star).max()), far[0])
    for before, after in itertools.pairwise(far):
        assert after <= delta * before + noise
    assert far[-1] <= delta**30 * far[0] + noise / (1 - delta)


@pytest.mark.parametrize("rho", [0.1, 0.9, 5.0, 40.0])
def test_the_contraction_of_exact_pdmm_is_tight(rho: float) -> None:
    # With one client, z' = (rho - e)/(rho + e) z along an eigenvector of eigenvalue e.
    mu, L = 0.5, 8.0
    delta = max(abs(L - rho) / (L + rho), abs(rho - mu) / (rho + mu))
    A, b = np.diag(np.sqrt([mu, L]))[None], np.zeros((1, 2))
    case = Instance(pdmm.LeastSquares(A, b), list(A), list(b), np.ones(2), np.ones(1))
    far = [np.abs(memory.z[0]).max() for _, memory in states(case, pdmm.PDMM(rho), 30)]
    np.testing.assert_allclose(far[20] / far[19], delta, rtol=1e-9)


@pytest.mark.parametrize(
    "method",
    [pdmm.PDMM(2.0), pdmm.GPDMM(0.05, 3), pdmm.AGPDMM(0.05, 3, relaxation=0.7)],
    ids=repr,
)
def test_absent_clients_contribute_nothing(method: Method) -> None:
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((5, 8, 3)), rng.standard_normal((5, 8))
    problem = pdmm.LeastSquares(A, b).factorise()
    weights = rng.uniform(0.5, 2, 5)

    def prox(v: Vector, t: float) -> Vector:
        return v

    server = method.server_start(np.ones(3), prox)
    memories = [method.client_start(np.ones(3)) for _ in range(5)]
    for _ in range(300):
        message = method.broadcast(server)
        chosen = rng.choice(5, size=2, replace=False)
        uploads = {}
        for i in chosen:
            uploads[i], draft = method.client(message, memories[i], problem.client(i), method.steps)
            memories[i] = method.accept(memories[i], draft, uploads[i])
        arrived = weights[chosen].sum()
        mean = sum(weights[i] * uploads[i].dz for i in chosen) / arrived
        upload = type(uploads[chosen[0]])(dz=mean)
        server = method.server(server, upload, float(arrived / weights.sum()), prox)
        z = np.average([memory.z for memory in memories], axis=0, weights=weights)
        np.testing.assert_allclose(server.z, z, atol=1e-13)
    result = pdmm.solve(problem, pdmm.PDMM(5.0), 200, weights=weights)
    np.testing.assert_allclose(server.x, result.x, atol=1e-6)


def test_scaffolds_variate_stays_the_mean_when_clients_are_absent() -> None:
    rng = np.random.default_rng(4)
    problem = pdmm.LeastSquares(rng.standard_normal((5, 8, 3)), rng.standard_normal((5, 8)))
    method = pdmm.Scaffold(0.02, 3)

    def prox(v: Vector, t: float) -> Vector:
        return v

    server = method.server_start(np.ones(3), prox)
    memories = [method.client_start(np.ones(3)) for _ in range(5)]
    for _ in range(40):
        message = method.broadcast(server)
        chosen = rng.choice(5, size=2, replace=False)
        uploads = []
        for i in chosen:
            upload, draft = method.client(message, memories[i], problem.client(i), 3)
            memories[i] = method.accept(memories[i], draft, upload)
            uploads.append(upload.dx)
        mean = Upload(dx=np.mean(uploads, axis=0))
        server = method.server(server, mean, 2 / 5, prox)
        np.testing.assert_allclose(server.c, np.mean([m.c for m in memories], axis=0), atol=1e-12)
