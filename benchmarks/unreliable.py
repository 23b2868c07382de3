"""Exact optima over bad links: participation, losses, bits; and what a byte buys.

Runs go over two processes. With ``--figures FOLDER`` the figures of docs/unreliable.md are drawn.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pdmm
from benchmarks.timing import heading
from pdmm.common.threads import available

CLIENTS, KAPPA, STEPS, ROUNDS = 50, 50.0, 20, 2000
PARTICIPATION = (1.0, 0.5, 0.2, 0.1)
LOSSES = (0.0, 0.3)
BITS: tuple[int | None, ...] = (None, 8, 4, 3)
METHODS = ("AGPDMM", "GPDMM", "SCAFFOLD", "FedAvg")
SCAFFOLD_STEPS = tuple(float(s) for s in np.geomspace(0.01, 1.0, 9))  # in units of 1/L


@cache
def problem(d: int = 20, dtype: str = "float64") -> pdmm.LeastSquares:
    """Heterogeneous least squares: every client its own basis, its own optimum, kappa = 50."""
    A, b = [], []
    for i in range(CLIENTS):
        rng = np.random.default_rng([7, i])
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        A.append(np.sqrt(np.geomspace(1.0, KAPPA, d))[:, None] * basis)
        b.append(A[-1] @ rng.standard_normal(d))
    stacked = np.array(A).astype(dtype), np.array(b).astype(dtype)
    return pdmm.LeastSquares(*stacked).factorise()


def method(name: str, step: float = 1.0) -> pdmm.Method:
    """With rho = sqrt(L mu) and the step size in units of 1/L."""
    eta, rho = step / KAPPA, float(np.sqrt(KAPPA))
    makers: dict[str, Callable[[], pdmm.Method]] = {
        "AGPDMM": lambda: pdmm.AGPDMM(eta, STEPS, rho),
        "GPDMM": lambda: pdmm.GPDMM(eta, STEPS, rho),
        "SCAFFOLD": lambda: pdmm.Scaffold(eta, STEPS),
        "FedAvg": lambda: pdmm.FedAvg(eta, STEPS),
    }
    return makers[name]()


class Cell(NamedTuple):
    """A run, as it is asked for."""

    name: str
    participation: float
    loss: float
    bits: int | None
    step: float = 1.0
    d: int = 20
    dtype: str = "float64"
    rounds: int = ROUNDS
    every: int = 5


class Curve(NamedTuple):
    """What came out of it."""

    rounds: npt.NDArray[Any]
    gap: npt.NDArray[Any]
    sent: npt.NDArray[Any]
    raised: int


def run(cell: Cell) -> Curve:
    result = pdmm.solve(
        problem(cell.d, cell.dtype),
        method(cell.name, cell.step),
        cell.rounds,
        participation=cell.participation,
        loss=cell.loss,
        bits=cell.bits,
        record_every=cell.every,
        threads=1,
    )
    h = result.history
    gap = h["gap"] / h["gap"][0]
    raised = sum("stopped getting smaller" in why for why in result.choices)
    return Curve(h["round"], gap, h["bytes_up"] + h["bytes_down"], raised)


def runs(cells: list[Cell]) -> dict[Cell, Curve]:
    with ProcessPoolExecutor(available()) as pool:
        return dict(zip(cells, pool.map(run, cells, chunksize=4), strict=True))


def reaches(curve: Curve, gap: float) -> int | None:
    """The first row from which on the gap is below this."""
    above = np.flatnonzero(~(curve.gap <= gap))
    first = int(above[-1]) + 1 if len(above) else 0
    return first if first < len(curve.gap) else None


def grid() -> dict[Cell, Curve]:
    heading(
        f"Relative gap after {ROUNDS} rounds: {CLIENTS} clients, kappa {KAPPA:g}, K = {STEPS}, "
        "rho = sqrt(L mu), eta = 1/L"
    )
    cells = [
        Cell(name, p, loss, bits)
        for name in METHODS
        for loss in LOSSES
        for p in PARTICIPATION
        for bits in BITS
    ]
    found = runs(cells)
    print("  (after ^: how often more bits were taken; rounds to 1e-10 in brackets)")
    print(f"  {'bits':26s}" + "".join(f"{'all' if b is None else b:>20}" for b in BITS))
    for name in METHODS:
        for loss in LOSSES:
            for p in PARTICIPATION:
                row = ""
                for bits in BITS:
                    c = found[Cell(name, p, loss, bits)]
                    k = reaches(c, 1e-10)
                    when = "" if k is None else f" ({c.rounds[k]})"
                    more = f"^{c.raised}" if c.raised else ""
                    row += f"{max(c.gap[-1], 1e-30):.0e}{more}{when}".rjust(20)
                print(f"  {name:9s} p={p:<4g} loss={loss:<4g} {row}", flush=True)
    missed = [
        cell
        for cell, c in found.items()
        if (cell.name == "AGPDMM" or (cell.name == "GPDMM" and cell.bits in (None, 8)))
        and reaches(c, 1e-10) is None
    ]
    print(f"  AGPDMM everywhere, GPDMM at 8 bits and more: {len(missed)} settings miss 1e-10")
    return found


def stalls() -> None:
    """Too few bits: what happens if nothing is done about it, and what the server does."""
    from pdmm.links.stall import Stall

    heading("Too few bits: relative gap after 2000 rounds, bits as asked for, and with more taken")
    watch = Stall.add
    rho, eta = float(np.sqrt(KAPPA)), 1 / KAPPA
    cases: list[tuple[str, pdmm.Method, int]] = [
        ("GPDMM, K = 1", pdmm.GPDMM(eta, 1, rho), 4),
        ("GPDMM, K = 1", pdmm.GPDMM(eta, 1, rho), 3),
        ("GPDMM, K = 2", pdmm.GPDMM(eta, 2, rho), 3),
        ("AGPDMM, K = 20", pdmm.AGPDMM(eta, STEPS, rho), 2),
        ("AGPDMM, K = 1", pdmm.AGPDMM(eta, 1, rho), 2),
    ]
    for label, chosen, bits in cases:
        ends = []
        for raising in (False, True):
            if not raising:
                Stall.add = lambda *_: None  # type: ignore[method-assign]
            result = pdmm.solve(problem(), chosen, ROUNDS, bits=bits, record_every=50)
            Stall.add = watch  # type: ignore[method-assign]
            ends.append(result.history["gap"][-1] / result.history["gap"][0])
        most = int(result.history["bits"].max())
        print(f"  {label:15s} {bits} bits: {ends[0]:.0e}; with up to {most} bits: {ends[1]:.0e}")


def bytes_to() -> None:
    d, gap = 200, 1e-6
    heading(f"Bytes to a relative gap of {gap:g}, d = {d}, float32: AGPDMM at 4 bits, SCAFFOLD")
    for p in (1.0, 0.2):
        rounds = 400 if p == 1 else 1500
        ours = Cell("AGPDMM", p, 0.0, 4, 1.0, d, "float32", rounds, 1)
        plain = ours._replace(bits=None)
        theirs = [
            Cell("SCAFFOLD", p, 0.0, None, step, d, "float32", rounds, 1) for step in SCAFFOLD_STEPS
        ]
        found = runs([ours, plain, *theirs])

        def sent(cell: Cell, found: dict[Cell, Curve] = found) -> float:
            k = reaches(found[cell], gap)
            return np.inf if k is None else float(found[cell].sent[k])

        best = min(theirs, key=sent)
        print(
            f"  participation {p:g}: AGPDMM 4 bits {sent(ours) / 1e6:.2f} MB, without rounding "
            f"{sent(plain) / 1e6:.2f} MB; SCAFFOLD {sent(best) / 1e6:.2f} MB at its best step "
            f"{best.step:.3g}/L of {len(theirs)}: {sent(best) / sent(ours):.1f} times as much"
        )
    print("  (target at full participation: 8 times)")


def many() -> None:
    import resource

    clients, d, each, rounds = 1_000_000, 1000, 1000, 10
    heading(f"{clients:,} lazy clients, d = {d}, {each} in a round, {rounds} rounds")
    x_star = np.random.default_rng(0).standard_normal(d)

    def make(i: int) -> pdmm.LeastSquares:
        rng = np.random.default_rng([1, i])
        A = rng.standard_normal((3, d))
        return pdmm.LeastSquares([A], [A @ x_star])

    lazy = pdmm.Lazy(clients, make, evaluate=lambda x: float((x - x_star) @ (x - x_star)))
    result = pdmm.solve(lazy, pdmm.AGPDMM(5e-4, 5, 100.0), rounds, participation=each)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"  peak memory {used:.2f} GB ({clients * d * 8 / 1e9:.0f} GB if every client had a z), "
        f"{result.history['seconds'][-1] / rounds:.2f} s a round"
    )


MNIST = {
    "AGPDMM, 4 bits": ("AGPDMM", 4),
    "AGPDMM, 8 bits": ("AGPDMM", 8),
    "AGPDMM": ("AGPDMM", None),
    "SCAFFOLD": ("SCAFFOLD", None),
    "FedAvg": ("FedAvg", None),
}


def mnist() -> dict[str, tuple[Any, Any]]:
    """Accuracy against bytes, a class a client, mini-batches of 300, as in the paper's Fig. 3."""
    from pdmm.data import DataError
    from pdmm.paper import fig3
    from pdmm.paper.jobs import METHODS as MAKE

    rounds, steps, every = 300, 10, 5
    heading(f"MNIST, softmax regression, a class a client, K = {steps}, batches of 300, eta 0.05")
    try:
        images, problem, _ = fig3.setting("mnist")
    except DataError as error:
        print(f"  left out: {error}")
        return {}
    curves: dict[str, tuple[Any, Any]] = {}
    for label, (name, bits) in MNIST.items():
        accuracy = [
            100 * problem.accuracy(np.zeros(problem.dimension), images.X_test, images.y_test)
        ]

        def evaluate(r: int, x: Any, accuracy: list[float] = accuracy) -> None:
            if r % every == 0:
                accuracy.append(100 * problem.accuracy(x, images.X_test, images.y_test))

        made = MAKE[name](step_size=0.05, local_steps=steps)
        result = pdmm.solve(
            problem, made, rounds, bits=bits, record_every=every, callback=evaluate, optimum=False
        )
        sent = result.history["bytes_up"] + result.history["bytes_down"]
        curves[label] = sent, np.array(accuracy)
        above = np.flatnonzero(curves[label][1] < 90)
        first = int(above[-1]) + 1
        to_90 = f"{sent[first] / 1e6:.1f} MB to 90%" if first < len(sent) else "90% not reached"
        print(f"  {label:16s} {accuracy[-1]:.2f}% after {rounds} rounds, {to_90}", flush=True)
    return curves


def figures(found: dict[Cell, Curve], curves: dict[str, tuple[Any, Any]], folder: Path) -> None:
    """Gap against rounds and bytes: every method, participation, losses, bits; MNIST."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from pdmm.report.figures import look

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    folder.mkdir(parents=True, exist_ok=True)
    shades = dict(zip(PARTICIPATION, ("#08306b", "#2171b5", "#6baed6", "#b5cfe8"), strict=True))
    dashes: dict[int | None, Any] = dict(
        zip(BITS, ("-", (0, (6, 2)), (0, (3, 1.5)), (0, (1, 1.2))), strict=True)
    )
    plot, axes = plt.subplots(
        4, 4, figsize=(11, 9), sharey="row", sharex="col", layout="constrained"
    )
    for row, name in zip(axes, METHODS, strict=True):
        for k, loss in enumerate(LOSSES):
            for p in PARTICIPATION:
                for bits in BITS:
                    c = found[Cell(name, p, loss, bits)]
                    y = np.where(c.gap > 1e-20, c.gap, np.nan)
                    for axis, x in zip(row[2 * k :], (c.rounds, c.sent / 1e6), strict=False):
                        axis.loglog(x[1:], y[1:], color=shades[p], linestyle=dashes[bits], lw=1.2)
        row[0].set_ylabel(f"{name}\nrelative gap")
    for k, loss in enumerate(LOSSES):
        axes[-1][2 * k].set_xlabel("round")
        axes[-1][2 * k + 1].set_xlabel("megabytes, all clients")
        for axis in axes[0][2 * k : 2 * k + 2]:
            axis.set_title(f"{loss:.0%} of the messages lost" if loss else "no losses", fontsize=9)
    for axis in axes.flat:
        axis.grid(color="#e8e8e8", lw=0.6)
        axis.set_axisbelow(True)
    lines = [Line2D([], [], color=shades[p]) for p in PARTICIPATION]
    lines += [Line2D([], [], color="#444444", linestyle=dashes[b]) for b in BITS]
    names = [f"{p:.0%} of the clients" for p in PARTICIPATION]
    names += ["all bits" if b is None else f"{b} bits" for b in BITS]
    plot.legend(lines, names, loc="outside lower center", ncols=4, frameon=False)
    plot.savefig(folder / "unreliable.png", dpi=130)
    plt.close(plot)
    if not curves:
        return
    plot, axis = plt.subplots(figsize=(6.2, 3.8), layout="constrained")
    for label, (sent, accuracy) in curves.items():
        style: dict[str, Any] = {**look(label), "linewidth": 1.6}
        if "8 bits" in label:
            style["linestyle"] = (0, (1, 1.2))
        axis.semilogx(sent[1:] / 1e6, accuracy[1:], label=label, **style)
    axis.set(xlabel="megabytes, up and down, all clients", ylabel="accuracy, %", ylim=(70, 93))
    axis.grid(color="#e8e8e8", lw=0.6)
    axis.legend(frameon=False)
    plot.savefig(folder / "unreliable_mnist.png", dpi=150)
    plt.close(plot)


def main() -> None:
    found = grid()
    stalls()
    bytes_to()
    curves = mnist()
    many()
    if "--figures" in sys.argv:
        figures(found, curves, Path(sys.argv[sys.argv.index("--figures") + 1]))


if __name__ == "__main__":
    main()
