"""Models of all kinds, what the history has of them, and what comes back as a model."""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

import pdmm
from builders.torch_models import LOSS, clients, no_lists, problem, seeded  # noqa: F401
from pdmm.problems.torch_model import ways
from pdmm.problems.torch_model.block import TorchBlock

METHOD = pdmm.AGPDMM(0.1, 3)
DATA = clients("mlp")


def run(model: nn.Module, rounds: int = 4, **given: Any) -> pdmm.Result:
    arguments: dict[str, Any] = {"batch_size": 5, **given}
    own = pdmm.TorchProblem(model, LOSS, DATA, **arguments)
    return pdmm.solve(own, METHOD, rounds=rounds)


# --- one after the other, or at once ------------------------------------------------------------


class Branching(nn.Module):
    """Takes another way where its input is large: vmap cannot do that."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, X: Tensor) -> Tensor:
        found: Tensor = self.layer(X) if float(X.sum()) > -1e9 else self.layer(-X)
        return found


def test_what_vmap_cannot_do_is_done_one_by_one() -> None:
    model = Branching()
    result = run(model)
    assert "torch.func.vmap cannot do this model or loss (" in result.choices[-1]
    same = nn.Linear(5, 3)
    same.load_state_dict(model.layer.state_dict())
    at_once = run(same)
    assert at_once.choices[-1].startswith("the clients of a block are worked on at once")
    assert np.allclose(result.x, at_once.x, atol=1e-5)


class Fickle(nn.Module):
    """Another function in every call, so that both ways cannot give the same."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.scale = 1.0

    def forward(self, X: Tensor) -> Tensor:
        self.scale = -self.scale
        found: Tensor = self.layer(X) * self.scale
        return found


def test_a_model_for_which_vmap_gives_other_gradients_is_done_one_by_one() -> None:
    assert "gives other gradients" in run(Fickle()).choices[-1]


def test_large_batches_are_done_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "MOST_FLOP", 5 * 4 * 5 * 8.0)
    assert "takes" not in run(seeded("mlp"), batch_size=20).choices[-1]
    assert "one after the other: gradients of 20" in run(seeded("mlp"), batch_size=20).choices[-1]


@pytest.mark.parametrize("size", [7, 11, "full"])
def test_ragged_batches_are_the_same_both_ways(size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an epoch's last step, some clients are at once, some alone, some with another size."""
    data = clients("mlp", [25, 25, 25, 18, 18, 18, 11, 7, 32])
    found = []
    for most in (ways.MOST_FLOP, 1.0):
        monkeypatch.setattr(ways, "MOST_FLOP", most)
        own = pdmm.TorchProblem(seeded("mlp"), LOSS, data, batch_size=size)
        result = pdmm.solve(own, pdmm.GPDMM(0.1, 5), rounds=6, seed=1)
        found.append((result.x, result.choices[-1]))
    assert found[0][1] != found[1][1]
    assert np.allclose(found[0][0], found[1][0], atol=2e-6)


# --- gradients and values -----------------------------------------------------------------------


def test_a_gradient_is_that_of_the_batch_and_of_all_samples() -> None:
    given = problem("mlp", sampling="stored", weight_decay=0.2)
    x = np.random.default_rng(0).standard_normal(given.dimension).astype(np.float32)
    wide = torch.from_numpy(x)
    for cursor, rows in ((None, slice(None)), (np.array([1, 1, 1, 1]), slice(5, 10))):
        gradients = given.at(slice(0, 4), cursor).gradient(x)
        for i, (X, y) in enumerate(DATA):
            model = given.model(x)
            loss = LOSS(model(X[rows]), y[rows])
            loss.backward()
            g = torch.cat([p.grad.ravel() for p in model.parameters()]) + 0.2 * wide  # type: ignore
            assert np.allclose(gradients[i], g.numpy(), rtol=1e-4, atol=5e-6)
            if cursor is None:
                value = given.at(slice(i, i + 1)).value(x)[0]
                assert value == pytest.approx(float(loss.detach() + 0.1 * wide @ wide), rel=1e-5)


def test_values_at_a_row_for_each_client() -> None:
    given = problem("mlp")
    rows = np.random.default_rng(1).standard_normal((4, given.dimension)).astype(np.float32)
    block = given.at(slice(0, 4))
    assert isinstance(block, TorchBlock)
    alone = [given.at(slice(i, i + 1)).value(rows[i])[0] for i in range(4)]
    assert np.allclose(block.value(rows), alone)


def test_steps_do_not_change_what_they_are_given() -> None:
    given = problem("mlp")
    start = np.ones((4, given.dimension), np.float32)
    pull = np.full((4, given.dimension), 0.1, np.float32)
    given.at(slice(0, 4), np.zeros(4, np.int64)).steps(start, step=0.1, count=3, shift=pull)
    assert (start == 1).all()
    assert (pull == np.float32(0.1)).all()


# --- dropout ------------------------------------------------------------------------------------


def dropping() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def test_dropout_draws_by_the_seed_and_nothing_else() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    own = pdmm.TorchProblem(dropping(), LOSS, DATA, batch_size=5)
    first = pdmm.solve(own, METHOD, rounds=4, seed=1)
    assert "the model draws random numbers" in first.choices[-1]
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    assert (pdmm.solve(own, METHOD, rounds=4, seed=1, threads=2).x == first.x).all()
    assert (pdmm.solve(own, METHOD, rounds=4, seed=2).x != first.x).any()


def test_each_client_and_step_has_a_mask_of_its_own() -> None:
    alike = [(DATA[0][0][:5], DATA[0][1][:5])] * 3
    own = pdmm.TorchProblem(dropping(), LOSS, alike, batch_size=5, sampling="stored")
    x = np.asarray(own.x0, np.float32)
    gradients = [own.at(slice(0, 3), np.full(3, k)).gradient(x) for k in range(2)]
    rows = np.concatenate(gradients)
    assert len({row.tobytes() for row in rows}) == 6
    again = own.at(np.array([2]), np.array([1])).gradient(x)
    assert (again[0] == rows[5]).all()


def test_dropout_takes_its_mask_from_pytorch() -> None:
    """The twin: seed PyTorch by the step's number, and take a step of SGD."""
    from pdmm.problems.torch_model.batches import mask_seed

    own = pdmm.TorchProblem(dropping(), LOSS, DATA, batch_size=5, sampling="stored")
    x = np.asarray(own.x0, np.float32)
    found = own.at(slice(1, 2), np.array([2])).gradient(x)[0]
    model = own.model(x)
    X, y = DATA[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mask_seed(0, 1, 2))
        LOSS(model(X[10:15]), y[10:15]).backward()
    g = torch.cat([p.grad.ravel() for p in model.parameters()])  # type: ignore[union-attr]
    assert np.allclose(found, g.numpy(), atol=1e-7)


def test_values_and_predictions_have_no_dropout() -> None:
    own = pdmm.TorchProblem(dropping(), LOSS, DATA, batch_size=5)
    assert own.x0 is not None
    judge = own.model(own.x0).eval()
    truth = sum(float(LOSS(judge(X), y).detach()) for X, y in DATA)
    assert own.objective(own.x0) == pytest.approx(truth, rel=1e-6)


def test_dropout_that_is_switched_off_is_none() -> None:
    assert run(dropping().eval()).choices[-1].startswith("the clients of a block")


def test_l_bfgs_takes_all_samples() -> None:
    given = problem("linear", batch_size=None, weight_decay=0.1)
    best = pdmm.solve(given, pdmm.LBFGS(), rounds=60).history["objective"][-1]
    steps = pdmm.solve(given, pdmm.AGPDMM(0.3, 10), rounds=100).history["objective"][-1]
    assert best == pytest.approx(steps, rel=1e-5)


# --- parameters and buffers ---------------------------------------------------------------------


def test_frozen_parameters_stay() -> None:
    model = seeded("mlp")
    for parameter in model[0].parameters():  # type: ignore[index]
        parameter.requires_grad_(False)
    own = pdmm.TorchProblem(model, LOSS, DATA, batch_size=5)
    assert own.dimension == 8 * 3 + 3
    result = pdmm.solve(own, METHOD, rounds=4)
    trained = own.model(result.x)
    assert torch.equal(trained[0].weight, model[0].weight)  # type: ignore[index]
    assert not torch.equal(trained[2].weight, model[2].weight)  # type: ignore[index]


class Tied(nn.Module):
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(5, 5, bias=False)
        self.again = nn.Linear(5, 5, bias=False)
        self.again.weight = self.inside.weight
        self.out = nn.Linear(5, 3)
        self.register_buffer("scale", torch.full((5,), 2.0))

    def forward(self, X: Tensor) -> Tensor:
        found: Tensor = self.out(self.again(torch.relu(self.inside(X))) * self.scale)
        return found


def test_tied_parameters_are_one_and_buffers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Tied()
    at_once = run(model)
    assert at_once.choices[-1].startswith("the clients of a block")
    assert len(at_once.x) == 25 + 15 + 3
    monkeypatch.setattr(ways, "MOST_FLOP", 1.0)
    assert np.allclose(run(model).x, at_once.x, atol=5e-6)
    trained = pdmm.TorchProblem(model, LOSS, DATA, batch_size=5).model(at_once.x)
    assert trained.again.weight is trained.inside.weight  # type: ignore[union-attr]


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, X: Tensor) -> Tensor:
        self.calls.add_(1)
        found: Tensor = self.layer(X)
        return found


def test_a_buffer_that_changes_is_refused() -> None:
    with pytest.raises(ValueError, match="the buffer 'calls' changes when the model is called"):
        run(Counting())


def test_batch_norm_without_running_statistics_is_taken() -> None:
    for norm in (nn.BatchNorm1d(8, track_running_stats=False), nn.BatchNorm1d(8).eval()):
        model = nn.Sequential(nn.Linear(5, 8), norm, nn.Linear(8, 3))
        assert np.isfinite(run(model).x).all()


def test_a_parameter_that_is_not_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 3)
            self.idle = nn.Parameter(torch.ones(2))

        def forward(self, X: Tensor) -> Tensor:
            found: Tensor = self.layer(X)
            return found

    for most in (ways.MOST_FLOP, 1.0):
        monkeypatch.setattr(ways, "MOST_FLOP", most)
        x = run(Idle()).x
        own = pdmm.TorchProblem(Idle(), LOSS, DATA, batch_size=5)
        place = sum(own.layout.sizes[: own.layout.names.index("idle")])
        assert np.allclose(x[place : place + 2], 1, atol=5e-6)
        assert "idle" in own.layout.names


def test_the_users_model_is_left_alone() -> None:
    model = seeded("mlp")
    before = copy.deepcopy(model.state_dict())
    own = pdmm.TorchProblem(model, LOSS, DATA, batch_size=5)
    result = pdmm.solve(own, METHOD, rounds=3)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    first, second = own.model(result.x), own.model(result.x)
    with torch.no_grad():
        next(first.parameters()).zero_()
    assert own.objective(result.x) == pdmm.TorchProblem(second, LOSS, DATA, batch_size=5).objective(
        result.x
    )


# --- data, history, predictions -----------------------------------------------------------------


class OneByOne(Dataset[Any]):
    def __init__(self, X: Tensor, y: Tensor) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        return self.X[k], int(self.y[k])


def test_datasets_of_every_kind_are_the_same() -> None:
    truth = run(seeded("mlp")).x
    X, y = (torch.cat(parts) for parts in zip(*DATA, strict=True))
    edges = np.cumsum([0, *(len(own) for own, _ in DATA)])
    whole = TensorDataset(X, y)
    kinds: list[Any] = [
        [TensorDataset(*pair) for pair in DATA],
        [OneByOne(*pair) for pair in DATA],
        [Subset(whole, range(a, b)) for a, b in pairwise(edges)],
        {f"client {i}": list(pair) for i, pair in enumerate(DATA)},
    ]
    for datasets in kinds:
        own = pdmm.TorchProblem(seeded("mlp"), LOSS, datasets, batch_size=5)
        assert (pdmm.solve(own, METHOD, rounds=4).x == truth).all()


def test_the_history_has_loss_gradient_norm_and_the_users_evaluation() -> None:
    X, y = DATA[0]

    def evaluate(model: nn.Module) -> dict[str, Any]:
        assert not model.training
        return {"accuracy": (model(X).argmax(1) == y).float().mean(), "size": 3}

    own = problem("mlp", evaluate=evaluate, gradient_norm=True)
    result = pdmm.solve(own, METHOD, rounds=6, record_every=3)
    history = result.history
    assert history["round"].tolist() == [0, 3, 6]
    assert history["objective"][-1] == own.objective(result.x)
    assert history["accuracy"][-1] == pytest.approx(own.accuracy(result.x, X, y))
    assert history["size"].tolist() == [3, 3, 3]
    gradient = own.at(slice(0, 4)).gradient(result.x).sum(0)
    assert history["gradient_norm"][-1] == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
    assert result.certificate.gap is None
    assert np.isnan(result.certificate.stationarity)
    assert "gradient_norm" not in pdmm.solve(problem("mlp"), METHOD, rounds=1).history


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (lambda model: 0.5, "evaluate must return a dict of numbers"),
        (lambda model: {"a": "much"}, "evaluate must return a dict of numbers"),
        (lambda model: {"objective": 1.0}, "evaluate cannot return 'objective'"),
        (lambda model: 1 / 0, "evaluate raised ZeroDivisionError"),
    ],
)
def test_an_evaluation_that_is_none(evaluate: Any, message: str) -> None:
    with pytest.raises(pdmm.ClientError, match=message):
        pdmm.solve(problem("mlp", evaluate=evaluate), METHOD, rounds=2)


def test_an_evaluation_must_have_the_same_names_every_time() -> None:
    for names in (["a", "b"], ["ab", "a"]):
        left = list(names)
        own = problem("mlp", evaluate=lambda model, left=left: dict.fromkeys(left.pop(0), 1.0))
        with pytest.raises(pdmm.ClientError, match="evaluate must return the same names"):
            pdmm.solve(own, METHOD, rounds=2)


def test_accuracy_counts_the_largest_output() -> None:
    own = problem("mlp")
    result = pdmm.solve(own, METHOD, rounds=30)
    X, y = (torch.cat(parts) for parts in zip(*DATA, strict=True))
    right = own.model(result.x).eval()(X).argmax(1) == y
    assert own.accuracy(result.x, X, y) == pytest.approx(float(right.float().mean()))
    flat = pdmm.TorchProblem(
        nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)),
        nn.MSELoss(),
        [(X, y.float()) for X, y in DATA],
        batch_size=5,
    )
    assert flat.x0 is not None
    with pytest.raises(ValueError, match="accuracy is for models with an output for each class"):
        flat.accuracy(flat.x0, *DATA[0])


def test_a_run_that_diverges_says_so() -> None:
    result = pdmm.solve(problem("mlp", weight_decay=1.0), pdmm.FedAvg(1e6, 5), rounds=20)
    assert result.diverged
    assert "step_size=1e+06 may be too large" in result.reason
