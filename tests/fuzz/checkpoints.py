"""A random run with a checkpoint, of which something is damaged: refused, or the same bits.

What is asked: ``pdmm.resume`` raises a ValueError or an OSError with a sentence, and nothing else,
or the result is that of the run that never stopped, bit for bit. With other data, or the same
data in another order, only a refusal will do.
"""

import copy
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pdmm
from builders.checkpoints import HaltError, assert_same, halt_at
from fuzz.attempts import about
from fuzz.damage import damage
from fuzz.draws import Array, Generator, chance, pick, whole

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # every write waits for its disk


class Data(NamedTuple):
    """The clients' data, and what is made of them."""

    X: list[Array]
    y: list[Array]
    build: Callable[[list[Array], list[Array]], pdmm.Problem]
    ordered: bool = False
    """Whether the order of a client's rows matters, as it does for mini-batches."""

    def problem(self) -> pdmm.Problem:
        return self.build([rows.copy() for rows in self.X], [part.copy() for part in self.y])


def _least_squares(rng: Generator) -> Data:
    dtype = pick(rng, [np.float64, np.float64, np.float32])
    equal = chance(rng, 0.5)
    sizes = [6 if equal else whole(rng, 2, 8) for _ in range(whole(rng, 2, 5))]
    A = [rng.standard_normal((n, 3)).astype(dtype) for n in sizes]
    b = [(a @ np.arange(3.0) + rng.standard_normal(len(a))).astype(dtype) for a in A]
    return Data(A, b, pdmm.LeastSquares)


def _softmax(rng: Generator) -> Data:
    X = [rng.standard_normal((8, 2)) + i / 2 for i in range(3)]
    y = [rng.integers(0, 2, 8) for _ in X]
    batch_size = pick(rng, [None, 3])

    def build(X: list[Array], y: list[Array]) -> pdmm.Problem:
        return pdmm.SoftmaxRegression(X, y, 2, 0.1, batch_size)

    return Data(X, y, build, ordered=batch_size is not None)


def _value(c: Array, x: Array) -> float:
    return float(np.logaddexp(x - c, c - x).sum())


def _slope(c: Array, x: Array) -> Array:
    return np.asarray(np.tanh(x - c))


def _functions(rng: Generator) -> Data:
    centres = [rng.standard_normal((1, 2)) for _ in range(3)]

    def build(X: list[Array], y: list[Array]) -> pdmm.Functions:
        c = [rows[0] for rows in X]
        return pdmm.Functions(
            [partial(_value, centre) for centre in c],
            [partial(_slope, centre) for centre in c],
            2,
        )

    return Data(centres, [np.zeros(1)] * 3, build)


def _settings(rng: Generator, m: int, steady: bool) -> dict[str, Any]:
    """Options of a run; some may be those of links, unless all clients have to take part."""
    settings: dict[str, Any] = {"seed": whole(rng, 0, 99), "record_every": whole(rng, 1, 4)}
    if chance(rng, 0.4):
        settings["weights"] = rng.uniform(0.5, 2, m)
    if chance(rng, 0.3):
        settings["tolerance"] = 1e-9
    if chance(rng, 0.3):
        settings["regulariser"] = pick(rng, [pdmm.L1(0.1), pdmm.SquaredL2(0.2), pdmm.Box(-1, 1)])
    if steady or chance(rng, 0.4):
        return settings
    settings["participation"] = pick(rng, [1.0, 0.5, 1, [1, 2]])
    settings["loss"] = pick(rng, [0.0, 0.3, pdmm.Bursts(0.2, 0.5)])
    settings["availability"] = pick(rng, [None, pdmm.OnOff(0.2, 0.5)])
    settings["bits"] = pick(rng, [None, 6])
    settings["state"] = pick(rng, ["clients", "server"])
    return settings


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    data = pick(rng, [_least_squares, _least_squares, _softmax, _functions])(rng)
    method: Any = pick(
        rng,
        [
            None,
            pdmm.AGPDMM(0.02, 3),
            pdmm.GPDMM(0.02, 2, iterate="last"),
            pdmm.GPDMM(0.02, 2, rho="auto", acceleration="anderson"),
            pdmm.PDMM(2.0),
            pdmm.InexactFedSplit(2.0, 0.02, 2, start="server"),
            pdmm.GradientDescent(0.02),
        ],
    )
    rounds = whole(rng, 4, 14)
    steady = method is None or getattr(method, "acceleration", None) is not None
    settings = {"rounds": rounds, **_settings(rng, len(data.X), steady)}
    every, stop = whole(rng, 1, 4), whole(rng, 1, rounds + 2)  # beyond the end, it finishes
    words = f"{method!r} on {data.problem()!r}, {settings}, every {every}, halted after {stop}"
    with about(words), tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.safetensors"
        old = Path(folder) / "before"
        more: dict[str, Any] = {"threads": 1, "checkpoint": path, "every": every}
        with suppress(HaltError):
            pdmm.solve(
                data.problem(), method, callback=_halt(rng, stop, path, old), **settings, **more
            )
        whole_run = pdmm.solve(data.problem(), method, threads=1, **settings)
        if chance(rng, 0.2):
            what, problem = _other_data(rng, data)
            with about(what):
                return _refused(path, problem)
        what = damage(rng, path, old)
        with about(what):
            return _refused_or_same(path, data.problem(), whole_run)


def _halt(rng: Generator, stop: int, path: Path, old: Path) -> Callable[[int, Any], None]:
    """A callback that keeps an earlier state of the files, and then ends the run."""
    keep = whole(rng, 1, stop)
    end = halt_at(stop)

    def callback(r: int, x: Any) -> None:
        if r == keep:
            shutil.copytree(path.parent, old, ignore=lambda *_: [old.name])
        end(r, x)

    return callback


def _refused(path: Path, problem: pdmm.Problem) -> str:
    try:
        result = pdmm.resume(path, problem, threads=1)
    except (ValueError, OSError) as error:
        _sentence(error)
        return "other data refused"
    raise AssertionError(f"it went on with other data, to {result.x}")


def _refused_or_same(path: Path, problem: pdmm.Problem, expected: pdmm.Result) -> str:
    try:
        result = pdmm.resume(path, problem, threads=1)
    except (ValueError, OSError) as error:
        _sentence(error)
        return "refused"
    off = float(np.abs(result.x - expected.x).max())
    try:
        assert_same(result, expected)
    except AssertionError as error:
        where = " ".join(str(error).split())[:100]
        raise AssertionError(f"it went on to another result, x is {off:.1e} off: {where}") from None
    return "same bits"


def _sentence(error: Exception) -> None:
    assert len(str(error)) > 15, f"no sentence: {error!r}"


def _other_data(rng: Generator, data: Data) -> tuple[str, pdmm.Problem]:
    """The same shapes, but not the same problem; returns what is different."""
    X, y = copy.deepcopy(data.X), copy.deepcopy(data.y)
    i, j = rng.permutation(len(X))[:2].tolist()
    ways = ["two clients swapped", "one number changed"]
    if len(X[i]) > 1:
        ways += ["a row moved", "a row exchanged"]
    if data.ordered:
        ways += ["rows of a client reversed"]
    way = pick(rng, ways)
    if way == "two clients swapped":
        X[i], X[j], y[i], y[j] = X[j], X[i], y[j], y[i]
    elif way == "one number changed":
        X[i][-1, 0] += 1  # rounding is forgiven, as it must be between machines
    elif way == "rows of a client reversed":
        X[i], y[i] = X[i][::-1].copy(), y[i][::-1].copy()
    elif way == "a row moved":  # from one client to another
        X[j], y[j] = np.concatenate([X[j], X[i][-1:]]), np.append(y[j], y[i][-1])
        X[i], y[i] = X[i][:-1], y[i][:-1]
    else:
        for parts in (X, y):
            parts[i][0], parts[j][0] = copy.copy(parts[j][0]), copy.copy(parts[i][0])
    return way, Data(X, y, data.build).problem()
