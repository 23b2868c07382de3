"""``pdmm federate demo``: hospitals on this computer, none of which shows another its patients."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.common.whole_files import write_whole
from pdmm.flare.model_files import Model
from pdmm.flare.processes import LocalFederation
from pdmm.flare.runs import complete, settings
from pdmm.privacy.policy import Policy

PATIENTS = 1000
FEATURES = 20
CLASSES = 3
L2 = 1e-2
ROUNDS = 300
TOLERANCE = 1e-22
ROUNDING = 1e-9  # by so much of its largest entry the model may differ from the optimum
SITE_FILE = '''"""What this hospital keeps to itself: its patients. Nothing of it leaves."""

import numpy as np
import pdmm


def problem():
    with np.load({path!r}) as data:
        return pdmm.SoftmaxRegression([data["X"]], [data["y"]], classes={classes}, l2={l2})
'''

Data = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Outcome:
    """What the demonstration found."""

    model: Model
    apart: float
    """The largest difference from the optimum of all data, relative to the largest entry."""
    accuracy: dict[str, float]
    """Of the model, at every hospital."""
    own: dict[str, float]
    """Of a model made of a hospital's own patients alone, on the patients of all."""
    together: float
    """Of the model, on the patients of all."""
    seconds: float
    """Of the run itself."""

    def check(self) -> None:
        """Raise if the federation did not find what one process finds."""
        if not self.apart <= ROUNDING:
            raise RuntimeError("the federation's model is not that of all data in one place")


def hospital(k: int) -> Data:
    """Measurements and diagnoses at hospital k: its own mix of patients, its own instruments."""
    rng = np.random.default_rng([2026, k])
    truth = np.random.default_rng(2026).standard_normal((FEATURES, CLASSES))
    X = rng.standard_normal((PATIENTS + 150 * k, FEATURES)) * rng.uniform(0.5, 1.5, FEATURES)
    X += 0.5 * rng.standard_normal(FEATURES)
    scores = X @ truth + 2.0 * rng.gumbel(size=(len(X), CLASSES))
    scores[:, k % CLASSES] += 3.0  # one diagnosis is far more frequent here
    return X, scores.argmax(1)


def run(
    sites: int,
    show: Callable[[dict[str, Any]], object],
    say: Callable[[str], object],
) -> Outcome:
    """Provision a federation on this computer, run AGPDMM on it, and take it down again.

    Args:
        sites: how many hospitals.
        show: takes the progress.
        say: takes what happens besides, in words.
    """
    names = [f"hospital-{k + 1}" for k in range(sites)]
    data = dict(zip(names, map(hospital, range(sites)), strict=True))
    weights = {name: float(len(X)) for name, (X, _) in data.items()}
    whole = _problem([data[name] for name in sorted(names)])
    w = np.array([weights[name] for name in sorted(names)])
    best = pdmm.solve(whole, weights=w, tolerance=1e-25)
    policy = Policy(min_organisations=min(sites, Policy().min_organisations))
    with ExitStack() as stack:
        # removed here, or by the federation, which does so even if this process is killed
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pdmm-demo-")))
        problems = {name: _write_site(folder / "data" / name, data[name]) for name in names}
        say(f"provisioning a server and {sites} sites under {folder}")
        begun = perf_counter()
        federation = stack.enter_context(
            LocalFederation(names, problems, folder, temporary=True, policy=policy)
        )
        say(
            f"all connected after {perf_counter() - begun:.0f} s: {sites + 1} processes on "
            "127.0.0.1, each with a certificate of its own"
        )
        asked = settings(
            pdmm.AGPDMM(rho="auto"),
            rounds=ROUNDS,
            tolerance=TOLERANCE,
            weights=weights,
            optimum=float(best.history["objective"].min()),
        )
        begun = perf_counter()
        model = complete(federation.kits.admin, asked, sites=names, show=show, say=say)
        seconds = perf_counter() - begun
        say("taking everything down")
    return Outcome(
        model=model,
        apart=float(np.abs(best.x - model.x).max() / np.abs(best.x).max()),
        accuracy={name: whole.accuracy(model.x, [X], [y]) for name, (X, y) in data.items()},
        own={name: whole.accuracy(pdmm.solve(_problem([data[name]])).x) for name in names},
        together=whole.accuracy(model.x),
        seconds=seconds,
    )


def _problem(data: list[Data]) -> pdmm.SoftmaxRegression:
    return pdmm.SoftmaxRegression([X for X, _ in data], [y for _, y in data], CLASSES, l2=L2)


def _write_site(folder: Path, data: Data) -> str:
    """A site's data and its few lines of code; returns how its kit names them."""
    folder.mkdir(parents=True)
    X, y = data
    np.savez(folder / "patients.npz", X=X, y=y)
    text = SITE_FILE.format(path=str(folder / "patients.npz"), classes=CLASSES, l2=L2)
    write_whole(folder / "hospital.py", text.encode())
    return f"{folder / 'hospital.py'}:problem"
