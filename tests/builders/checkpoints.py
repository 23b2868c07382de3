"""Runs with checkpoints: problems to make anew, runs that break off, and what is in a file."""

import json
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors import safe_open

import pdmm

Make = Callable[[], pdmm.Problem]
AG = pdmm.AGPDMM(step_size=0.02, local_steps=3)


class HaltError(Exception):
    """Raised by a callback: the run ends wherever it is."""


# --- problems, made anew for every process that would have to make them ---------------------


def squares(seed: int = 0, dtype: Any = np.float64, clients: int = 6) -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(clients=clients, samples=12, features=4, seed=seed, dtype=dtype)


def rows() -> pdmm.LeastSquares:
    """Clients with different numbers of rows, which are kept as they are."""
    rng = np.random.default_rng(3)
    A = [rng.standard_normal((n, 5)) for n in (3, 7, 4, 9)]
    return pdmm.LeastSquares(A, [a @ np.arange(5.0) + rng.standard_normal(len(a)) for a in A])


def images(seed: int = 0, batch_size: int | None = 4, l2: float = 0.1) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((10, 2)) + c for c in range(4)]
    y = [rng.integers(0, 3, 10) for _ in range(4)]
    return pdmm.SoftmaxRegression(X, y, classes=3, l2=l2, batch_size=batch_size)


def hinges() -> pdmm.Functions:
    """Functions, one of which is steeper where the run goes than on the way to its own optimum."""

    def hinge(c: float) -> float:
        return 4.0 if c < 15 else 0.0

    def value(x: Any, c: float) -> float:
        over = np.maximum(x - 15, 0)
        return 0.5 * float(np.sum((x - c) ** 2)) + hinge(c) * float(over @ over)

    def gradient(x: Any, c: float) -> Any:
        return (x - c) + 2 * hinge(c) * np.maximum(x - 15, 0)

    centres = (10.0, 60.0, 80.0)
    return pdmm.Functions(
        value=[partial(value, c=c) for c in centres],
        gradient=[partial(gradient, c=c) for c in centres],
        dimension=3,
    )


def absolute() -> pdmm.Functions:
    """Functions with a prox and kinks."""
    centres = [np.array([0.0, 1.0]), np.array([2.0, -1.0]), np.array([5.0, 3.0])]

    def value(x: Any, c: Any) -> float:
        return float(np.abs(x - c).sum())

    def gradient(x: Any, c: Any) -> Any:
        return np.sign(x - c)

    def prox(v: Any, t: float, c: Any) -> Any:
        return c + np.sign(v - c) * np.maximum(np.abs(v - c) - t, 0)

    return pdmm.Functions(
        value=[partial(value, c=c) for c in centres],
        gradient=[partial(gradient, c=c) for c in centres],
        dimension=2,
        prox=[partial(prox, c=c) for c in centres],
    )


# --- runs --------------------------------------------------------------------------------------


def assert_same(found: pdmm.Result, whole: pdmm.Result) -> None:
    """The same bits of all but the seconds."""
    assert found.x.dtype == whole.x.dtype
    assert found.x.tobytes() == whole.x.tobytes()
    assert list(found.history) == list(whole.history)
    for name, column in whole.history.items():
        assert found.history[name].dtype == column.dtype, name
        assert found.history[name].shape == column.shape, name
        if name != "seconds":
            np.testing.assert_array_equal(found.history[name], column, err_msg=name)
    for name in ("reason", "diverged", "rounds", "method", "choices", "seed", "traffic", "scalars"):
        assert getattr(found, name) == getattr(whole, name), name
    assert found.optimum == whole.optimum
    # As words: NaN is not equal to itself.
    assert repr(astuple(found.certificate)) == repr(astuple(whole.certificate))


def halt_at(stop: int) -> Callable[[int, Any], None]:
    def callback(r: int, x: Any) -> None:
        if r == stop:
            raise HaltError

    return callback


def never(r: int, x: Any) -> None:
    raise AssertionError(f"round {r} was run")


def header(path: Path) -> dict[str, Any]:
    """What the checkpoint says beside its arrays."""
    with safe_open(path, framework="numpy") as file:
        found: dict[str, Any] = json.loads(file.metadata()["run"])
    return found


def arrays_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def done(path: Path) -> int:
    return int(header(path)["state"]["dict"]["done"])


def history_of(path: Path) -> Path:
    return path.with_name(path.name + ".history")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}


def laid_down(path: Path, **given: Any) -> None:
    """A run of 20 rounds, broken off after 9 of them, whose checkpoint is of round 8."""
    settings: dict[str, Any] = {"rounds": 20, "every": 4, "participation": 0.5, **given}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), AG, checkpoint=path, callback=halt_at(9), **settings)
    assert done(path) == 8
