"""Networks: FedAvg and AGPDMM beside a plain PyTorch loop over clients with torch.optim.SGD.

Before that, the memory that they take.

One thread each, in seconds of the processor: what other processes do counts less then. Both draw a
new order of a client's samples in each epoch.
"""

import copy
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import torch
from torch import Tensor, nn

import pdmm
from benchmarks.timing import Rounds, heading, peak_gigabytes, side_by_side
from pdmm.common.threads import Threads

ETA = 0.05
LOSS = nn.CrossEntropyLoss()


class Case(NamedTuple):
    name: str
    model: nn.Module
    shape: tuple[int, ...]
    clients: int
    samples: int
    batch: int
    steps: int
    repeats: int
    target: float


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 49, 10)),
    )


ROW, IMAGE = (784,), (1, 28, 28)
CASES = (
    Case("784-64-10, batches of 10", mlp(), ROW, 10, 600, 10, 20, 30, 0.6),
    Case("784-64-10, batches of 50", mlp(), ROW, 10, 600, 50, 20, 30, 0.6),
    Case("784-64-10, batches of 300", mlp(), ROW, 10, 600, 300, 20, 12, 1.05),
    Case("two convolutions, batches of 10", cnn(), IMAGE, 10, 600, 10, 10, 10, 1.05),
    Case("two convolutions, batches of 50", cnn(), IMAGE, 10, 600, 50, 5, 10, 1.05),
    Case("784-64-10, 1,000 clients", mlp(), ROW, 1000, 30, 10, 10, 5, 0.3),
)


def data(case: Case) -> list[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(0)
    return [
        (
            torch.rand(case.samples, *case.shape, generator=random),
            torch.randint(10, (case.samples,), generator=random),
        )
        for _ in range(case.clients)
    ]


def plain_loop(case: Case, clients: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    """A round of FedAvg, as one writes it."""
    model = copy.deepcopy(case.model)
    parameters = list(model.parameters())
    server = [p.detach().clone() for p in parameters]
    rounds = 0

    def round_of_all() -> None:
        nonlocal rounds
        total = [torch.zeros_like(p) for p in server]
        per_epoch = case.samples // case.batch
        for X, y in clients:
            with torch.no_grad():
                for p, start in zip(parameters, server, strict=True):
                    p.copy_(start)
            optimiser = torch.optim.SGD(parameters, lr=ETA)
            order = torch.randperm(len(X))
            for k in range(case.steps):
                place = (rounds * case.steps + k) % per_epoch
                if place == 0:
                    order = torch.randperm(len(X))
                rows = order[place * case.batch : (place + 1) * case.batch]
                optimiser.zero_grad()
                LOSS(model(X[rows]), y[rows]).backward()
                optimiser.step()
            with torch.no_grad():
                for sum_of_all, p in zip(total, parameters, strict=True):
                    sum_of_all += p / len(clients)
        server[:] = total
        rounds += 1

    return round_of_all


def measure(case: Case) -> None:
    clients = data(case)
    reference = plain_loop(case, clients)
    problem = pdmm.TorchProblem(case.model, LOSS, clients, batch_size=case.batch)
    with Threads(1) as one:
        average = Rounds(problem, pdmm.FedAvg(ETA, case.steps), 1000, one)
        primal_dual = Rounds(problem, pdmm.AGPDMM(ETA, case.steps), 1000, one)
        for _ in range(2):
            reference()
            average.step()
            primal_dual.step()
        best = side_by_side(
            case.repeats,
            clock=process_time,
            reference=reference,
            average=average.step,
            primal_dual=primal_dual.step,
        )
    unit = best["reference"]
    print(
        f"  {case.name:32s} {unit * 1e3:8.1f} ms a round, FedAvg {best['average'] / unit:.2f}, "
        f"AGPDMM {best['primal_dual'] / unit:.2f} of it (target {case.target})"
    )
    print(f"      {problem.remarks[0]}")


def memory() -> None:
    """The peak of each method, those that remember more after those that remember less."""
    model = nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 200), nn.ReLU())
    model.append(nn.Linear(200, 10))
    clients = data(Case("memory", model, ROW, 60, 60, 20, 2, 1, 3.0))
    small = pdmm.TorchProblem(model, LOSS, clients[:1], batch_size=20)
    pdmm.solve(small, pdmm.AGPDMM(ETA, 2), rounds=1)  # what libraries take
    problem = pdmm.TorchProblem(model, LOSS, clients, batch_size=20)
    before = peak_gigabytes()
    unit = problem.clients * problem.dimension * 4 / 1e9
    print(f"  peak memory, {problem.clients} clients with {problem.dimension:,} parameters each:")
    for method in (pdmm.FedAvg(ETA, 2), pdmm.AGPDMM(ETA, 2), pdmm.GPDMM(ETA, 2)):
        pdmm.solve(problem, method, rounds=2, record_every=2, threads=2)
        more = peak_gigabytes() - before
        print(f"      {type(method).__name__} {more / unit:.1f} times the clients' parameters")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    memory()
    heading("PyTorch models beside a plain loop with torch.optim.SGD, one thread each")
    for case in CASES:
        measure(case)


if __name__ == "__main__":
    main()
