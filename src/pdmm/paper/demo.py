"""All methods side by side on the paper's least-squares problem, at its full size."""

from collections.abc import Callable, Iterator

import pdmm

CLIENTS = 25
SAMPLES = 5000
FEATURES = 500
STEP = 1e-4  # the step size of all methods that have one
STEPS = 5  # local steps in a round
RHO = float(SAMPLES - FEATURES)  # sqrt(L mu) of such random data is close to n - d


def problem() -> pdmm.LeastSquares:
    """The problem of Section VI-A with 25 clients: half a gigabyte, of which moments are kept."""
    return pdmm.LeastSquares.random(CLIENTS, SAMPLES, FEATURES, noise=0.5, seed=0)


def methods() -> dict[str, pdmm.Method | None]:
    """Every method of the paper, with its defaults; rho = sqrt(L mu) where one is needed.

    The last is none: ``pdmm.solve`` chooses, and stops when it is done.
    """
    return {
        "gradient descent": pdmm.GradientDescent(STEP),
        "FedAvg": pdmm.FedAvg(STEP, STEPS),
        "SCAFFOLD": pdmm.Scaffold(STEP, STEPS),
        "Inexact FedSplit": pdmm.InexactFedSplit(1 / RHO, STEP, STEPS),
        "Inexact FedSplit, from x_s": pdmm.InexactFedSplit(1 / RHO, STEP, STEPS, start="server"),
        "GPDMM": pdmm.GPDMM(STEP, STEPS),
        "AGPDMM": pdmm.AGPDMM(STEP, STEPS),
        "AGPDMM, rho = √(L mu)": pdmm.AGPDMM(STEP, STEPS, rho=RHO),
        "PDMM = FedSplit": pdmm.PDMM(RHO),
        "auto": None,
    }


def run(rounds: int, after_round: Callable[[str], object]) -> Iterator[tuple[str, pdmm.Result]]:
    """Run every method, and yield (name, result) as it finishes."""
    data = problem().factorise()
    for name, method in methods().items():

        def step(r: int, x: object, name: str = name) -> None:
            after_round(name)

        yield name, pdmm.solve(data, method, rounds=rounds, callback=step)
