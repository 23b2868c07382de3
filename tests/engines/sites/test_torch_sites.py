"""A network whose clients are at sites: the run of one process, and what sites agree to."""

from typing import Any

import numpy as np
import pytest
import torch

import pdmm
from builders import torch_models as models
from builders.sites import OPEN, FakeSites, Fault
from builders.torch_models import no_lists  # noqa: F401  (one thread, one seed)
from pdmm.cli.federate.policy_words import problem_words
from pdmm.engines import Sites
from pdmm.engines.sites.roster import SiteError, SiteRefusedError
from pdmm.privacy.contents import contents_of
from pdmm.privacy.outlook import outlook
from pdmm.privacy.policy import Policy

SIZES = (60, 70, 80)
PLACES = {"ana": range(1), "ben": range(1, 2), "cyd": range(2, 3)}
METHODS: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(step_size=0.1, local_steps=5),
    "gpdmm": pdmm.GPDMM(step_size=0.1, local_steps=5),
    "scaffold": pdmm.Scaffold(step_size=0.1, local_steps=5),
    "fedavg": pdmm.FedAvg(step_size=0.1, local_steps=5),
    "fedprox": pdmm.FedProx(step_size=0.1, local_steps=5, mu=0.1),
    "feddyn": pdmm.FedDyn(step_size=0.1, local_steps=5, alpha=0.1),
}
METHOD = METHODS["agpdmm"]
ROUNDS = 4


def mlp(clients: Any, **given: Any) -> pdmm.TorchProblem:
    """Some of the clients of one problem."""
    data = models.clients("mlp", SIZES)
    chosen = [data[i] for i in clients]
    return pdmm.TorchProblem(models.seeded(), models.LOSS, chosen, **{"batch_size": 8, **given})


def fake(fault: Fault | None = None, make: Any = mlp, policy: Any = OPEN) -> FakeSites:
    return FakeSites(make, PLACES, fault, policy)


def apart(found: pdmm.Result, other: pdmm.Result) -> float:
    return float(np.abs(found.x - other.x).max())


# --- the run of one process ---------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"secure": True}, {"verify": "sites"}], ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_the_run_is_that_of_one_process(name: str, how: dict[str, Any]) -> None:
    """With the same mini-batches, though no site knows of the others."""
    one = pdmm.solve(mlp(range(3)), METHODS[name], ROUNDS, seed=5)
    found = pdmm.solve(Sites(fake(), **how), METHODS[name], ROUNDS, seed=5)
    assert apart(found, one) < 1e-5
    np.testing.assert_allclose(found.history["objective"], one.history["objective"], rtol=1e-5)
    other = pdmm.solve(Sites(fake(), **how), METHODS[name], ROUNDS, seed=6)
    assert apart(found, other) > 1e-4


@pytest.mark.parametrize("how", [{}, {"secure": True, "verify": "sites"}], ids=str)
def test_clients_are_numbered_through_where_a_site_has_several(how: dict[str, Any]) -> None:
    places = {"ana": range(2), "ben": range(2, 3), "cyd": range(3, 5)}
    sizes = (20, 25, 30, 35, 40)

    def make(clients: Any) -> pdmm.TorchProblem:
        data = models.clients("mlp", sizes)
        return pdmm.TorchProblem(models.seeded(), models.LOSS, [data[i] for i in clients], 8)

    one = pdmm.solve(make(range(5)), METHOD, ROUNDS, seed=5)
    found = pdmm.solve(Sites(FakeSites(make, places), **how), METHOD, ROUNDS, seed=5)
    assert apart(found, one) < 1e-5


def test_the_sites_draw_dropout_as_one_process_does() -> None:
    def make(clients: Any) -> pdmm.TorchProblem:
        data = models.clients("mlp", SIZES)
        model = torch.nn.Sequential(models.seeded(), torch.nn.Dropout(0.3))
        return pdmm.TorchProblem(model, models.LOSS, [data[i] for i in clients], batch_size=8)

    one = pdmm.solve(make(range(3)), METHOD, ROUNDS, seed=5)
    assert apart(pdmm.solve(Sites(fake(make=make)), METHOD, ROUNDS, seed=5), one) < 1e-5


def test_a_site_that_lost_its_memory_draws_the_same_batches() -> None:
    def restart(r: int, x: Any) -> None:
        if r == 2:
            connection.restart("ben")

    connection = fake()
    found = pdmm.solve(Sites(connection), METHOD, ROUNDS, seed=5, callback=restart)
    assert apart(found, pdmm.solve(Sites(fake()), METHOD, ROUNDS, seed=5)) == 0


def test_a_checkpoint_goes_on_with_the_same_batches(tmp_path: Any) -> None:
    path = tmp_path / "run.safetensors"
    pdmm.solve(Sites(fake()), METHOD, ROUNDS, seed=5, checkpoint=path, callback=lambda r, x: r == 2)
    found = pdmm.resume(path, Sites(fake()))
    assert apart(found, pdmm.solve(Sites(fake()), METHOD, ROUNDS, seed=5)) == 0


# --- the start ----------------------------------------------------------------------------------


def test_a_run_starts_at_the_model_of_the_sites_which_one_tells_once() -> None:
    connection = fake()
    sites = Sites(connection)
    np.testing.assert_array_equal(sites.x0, mlp([0]).x0)
    assert [site for site, verb, _ in connection.asked if verb == "start"] == ["ana"]
    assert connection.sites["ana"].answer("start", {})["x0"].dtype == np.float32


def test_convex_problems_are_asked_for_no_start() -> None:
    connection = FakeSites(lambda _: pdmm.LeastSquares.random(2, 9, 3), {"ana": 0, "ben": 1})
    assert Sites(connection).x0 is None
    assert "start" not in {verb for _, verb, _ in connection.asked}


def test_sites_with_other_models_are_told_how_to_build_the_same() -> None:
    def make(clients: Any) -> pdmm.TorchProblem:
        torch.manual_seed(clients.start == 1)
        return pdmm.TorchProblem(models.mlp(), models.LOSS, models.clients("mlp", (60,)))

    says = "site ben has another start than site ana: .* the same torch.manual_seed"
    with pytest.raises(SiteError, match=says):
        Sites(fake(make=make))


def test_a_start_that_is_not_the_one_of_the_digest_is_an_error_of_the_site() -> None:
    def fault(site: str, verb: str, payload: Any) -> Any:
        return (lambda answer: {"x0": 2 * answer["x0"]}) if verb == "start" else None

    with pytest.raises(SiteError, match="site ana tells a start that is not the one"):
        Sites(fake(fault))


# --- what sites agree to ------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["seed", "first"])
def test_sites_that_are_told_other_seeds_or_numbers_do_not_begin(key: str) -> None:
    def fault(site: str, verb: str, payload: Any) -> None:
        if verb == "open" and site == "ben":
            payload[key] += 1

    with pytest.raises(SiteRefusedError, match="refused by policy"):
        pdmm.solve(Sites(fake(fault), verify="sites"), METHOD, ROUNDS)


@pytest.mark.parametrize(
    ("method", "how", "says"),
    [
        (None, {}, "method must be given"),
        (METHOD, {"tolerance": 1e-3}, "tolerance needs certificates"),
        (pdmm.AGPDMM(), {}, "step_size cannot be 'auto'|cannot be 'auto'"),
        (pdmm.PDMM(rho=1.0), {}, "PDMM has clients minimise exactly"),
    ],
)
def test_what_needs_convex_functions_is_refused(method: Any, how: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        pdmm.solve(Sites(fake()), method, **how)


def test_no_certificate_is_asked_for() -> None:
    connection = fake()
    result = pdmm.solve(Sites(connection), METHOD, ROUNDS)
    assert np.isnan(result.certificate.stationarity)
    assert not {"gradient", "constants"} & {verb for _, verb, _ in connection.asked}


# --- policies -----------------------------------------------------------------------------------

NETWORK = {
    "problems": ["TorchProblem"],
    "max_parameters_per_row": float("inf"),
    "max_numbers_out_share": float("inf"),
}


def refusals(connection: FakeSites) -> set[str]:
    kept = [entry for site in connection.sites.values() for entry in site.audit.kept]
    return {entry.reason for entry in kept if entry.outcome == "refused"}


def full(clients: Any) -> pdmm.TorchProblem:
    return mlp(clients, batch_size=None)


def test_a_policy_of_three_keys_lets_a_network_run_from_its_own_start() -> None:
    connection = fake(make=full, policy=NETWORK)
    found = pdmm.solve(Sites(connection), METHOD, ROUNDS)
    assert apart(found, pdmm.solve(full(range(3)), METHOD, ROUNDS)) < 1e-5


def test_zero_is_no_chosen_start_either() -> None:
    sites = Sites(fake(make=full, policy=NETWORK))
    pdmm.solve(sites, METHOD, 1, x0=np.zeros(sites.dimension))


def test_any_other_start_is_refused() -> None:
    connection = fake(make=full, policy=NETWORK)
    with pytest.raises(SiteRefusedError, match="refused by policy"):
        pdmm.solve(Sites(connection), METHOD, 1, x0=mlp([0]).x0 * 1.001)
    assert refusals(connection) == {'the run begins at a point of its own, and x0 is "zero"'}


@pytest.mark.parametrize("left_out", ["problems", "max_parameters_per_row"])
def test_each_of_these_keys_is_needed(left_out: str) -> None:
    policy = {key: value for key, value in NETWORK.items() if key != left_out}
    connection = fake(make=full, policy=policy)
    with pytest.raises(SiteRefusedError):
        pdmm.solve(Sites(connection), METHOD, ROUNDS)
    assert left_out in " ".join(refusals(connection))


def test_a_budget_of_half_the_numbers_of_the_samples_is_spent_soon() -> None:
    """60 samples of 6 numbers, and uploads of 75."""
    policy = {**NETWORK, "max_numbers_out_share": 0.5}
    found = pdmm.solve(Sites(fake(make=full, policy=policy)), METHOD, ROUNDS)
    assert found.reason.startswith("stopped after round 2: the policy of site ana allows no more")


@pytest.mark.parametrize(
    ("sampling", "size", "fewest"),
    [
        ("shuffled", 50, 10),  # 60 samples: an epoch ends with a batch of 10
        ("shuffled", 30, 30),
        ("stored", 50, 50),
        ("replacement", 50, 50),
        ("shuffled", 500, 60),
        ("shuffled", None, 60),
    ],
)
def test_the_smallest_batch_counts(sampling: Any, size: Any, fewest: int) -> None:
    problem = mlp([0], sampling=sampling, batch_size=size)
    found = contents_of(problem)
    assert (found.fewest, found.rows, found.columns) == (fewest, 60, 6)
    steps = 2 * -(-60 // (size or 60))
    drawn = problem.batches.rows(0, 60, 0, steps)
    if drawn is not None:
        assert min(len(batch) for batch in drawn) == fewest


def test_small_batches_are_refused() -> None:
    connection = fake(policy=NETWORK)
    with pytest.raises(SiteRefusedError):
        pdmm.solve(Sites(connection), METHOD, 1)
    said = "the smallest client or mini-batch has 4 rows, and min_rows is 50"
    assert said in " ".join(refusals(connection))


def test_an_operator_is_told_that_nothing_is_counted() -> None:
    words = problem_words(outlook(full([0]), Policy.of_keys(NETWORK)))
    assert "- the table has 60 rows and 6 columns that vary; the model has 75 parameters" in words
    assert "- any number of numbers may leave" in words
    assert not any("squares" in line for line in words)
    least_squares = outlook(pdmm.LeastSquares.random(1, 90, 4), Policy())
    assert any("sums of squares" in line for line in problem_words(least_squares))
