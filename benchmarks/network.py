"""PDMM on graphs: against plain NumPy and sparse mat-vecs; rho="auto" against a sweep."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

import pdmm
from benchmarks.timing import agree, heading, seconds, side_by_side
from pdmm.common.threads import Threads
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.nodes.grouping import grouped
from pdmm.graphs.penalty import choose_rho
from pdmm.graphs.run import Run
from pdmm.graphs.schedule import Activations

Vector = npt.NDArray[np.float64]
SIZES = (1_000, 10_000, 100_000)
NEIGHBOURS = 14


def small() -> None:
    n, edges, d, rows, iterations, rho = 50, 305, 20, 30, 200, 10.0
    heading(f"Least squares, {n} nodes, {edges} edges, d={d}, {iterations} iterations, float64")
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((n, rows, d)), rng.standard_normal((n, rows))
    graph = nx.gnm_random_graph(n, edges, seed=0)
    network = pdmm.Network(graph, pdmm.LeastSquares(A, b))

    def hand() -> Vector:
        """The same by hand, factors made once, no loop over nodes or edges."""
        u, v = np.array(graph.edges).T
        holder = np.concatenate([u, v])
        degree = np.bincount(holder, minlength=n)
        by_node, first = np.argsort(holder, kind="stable"), np.cumsum(degree) - degree
        swap = np.concatenate([np.arange(edges, 2 * edges), np.arange(edges)])
        H, c = np.einsum("kni,knj->kij", A, A), np.einsum("kni,kn->ki", A, b)
        P = np.linalg.inv(H + rho * degree[:, None, None] * np.eye(d))
        z, x = np.zeros((2 * edges, d)), np.zeros((n, d))
        for _ in range(iterations):
            r = np.add.reduceat(z[by_node], first, axis=0)
            x = np.matmul(P, (c + rho * r)[..., None])[..., 0]
            z = (2 * x[holder] - z)[swap]
        return x

    def ours(**more: Any) -> pdmm.NetworkResult:
        return pdmm.solve_network(network, rho, iterations, **more)

    agree(np.asarray(ours().x).ravel(), hand().ravel(), 1e-12)
    with Threads(1):  # one BLAS thread for all of them
        best = side_by_side(
            15,
            hand=hand,
            ours=ours,
            bare=lambda: ours(record_every=iterations, optimum=False),
        )
    unit = best["hand"]
    print(f"  NumPy by hand                           {unit * 1e3:6.1f} ms")
    for label, name in (
        ("solve_network, history every iteration", "ours"),
        ("solve_network, history at the end", "bare"),
    ):
        print(f"  {label:39s} {best[name] * 1e3:6.1f} ms = {best[name] / unit:.2f} of it")
    print("  (target: at most 2)")


def geometric(n: int) -> Any:
    """The largest component of a random geometric graph."""
    radius = float(np.sqrt(NEIGHBOURS / (np.pi * n)))
    graph = nx.random_geometric_graph(n, radius, seed=0)
    largest = max(nx.connected_components(graph), key=len)
    return nx.convert_node_labels_to_integers(graph.subgraph(largest))


def large() -> None:
    heading(f"Averaging on random geometric graphs, {NEIGHBOURS} neighbours, float64")
    print(
        "  nodes    edges    one iteration    two mat-vecs  ratio  ns an edge"
        "   asynchronous   memory an edge  rho=auto"
    )
    for n in SIZES:
        _averaging_speed(geometric(n))
    print("  (target: ratio at most 3; memory: the most that network and run held, without graph)")


def _averaging_speed(graph: Any) -> None:
    A = nx.to_scipy_sparse_array(graph, format="csr", dtype=np.float64)
    A = sparse.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)))
    count, edges = len(graph), graph.number_of_edges()
    readings = np.random.default_rng(0).standard_normal((count, 1))
    x = readings[:, 0].copy()

    def products() -> None:
        for _ in range(2):
            A @ x

    def start() -> tuple[Run, list[Group]]:
        network = pdmm.Network(graph, pdmm.Quadratic(1.0, readings))
        with Threads(1) as threads:
            groups = grouped(network, threads)
        updates = [group.exact(network, 1.0) for group in groups]
        run = Run(network, updates, np.zeros(count), 1.0, 1.0, 0.0, 0)
        run.synchronous()
        return run, groups

    tracemalloc.start()
    run, groups = start()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plans = iter(Activations(run.network.incidence, None, 0))
    with Threads(1):
        best = side_by_side(30, ours=run.synchronous, two=products)
        one_by_one = min(seconds(lambda: run.asynchronous(next(plans))) for _ in range(5))
    chosen = seconds(lambda: choose_rho(run.network, groups))
    print(
        f"  {count:6d} {edges:8d} {best['ours'] * 1e3:13.3f} ms {best['two'] * 1e3:12.3f} ms "
        f"{best['ours'] / best['two']:6.2f} {best['ours'] / edges * 1e9:10.1f}"
        f" {one_by_one * 1e3:11.1f} ms {held / edges:10.0f} bytes {chosen:8.2f} s"
    )


LONG: dict[str, Callable[[int], Any]] = {
    "path": nx.path_graph,
    "cycle": lambda n: nx.cycle_graph(n + 1),
    "star": nx.star_graph,
    "tree": lambda n: nx.random_labeled_tree(n, seed=1),
    "grid": lambda n: nx.grid_2d_graph(int(n**0.5), int(n**0.5)),
    "geometric": geometric,
    "scale-free": lambda n: nx.barabasi_albert_graph(n, 3, seed=1),
}


def eigenvalues() -> None:
    heading("1 - theta, theta the slowest eigenvalue of graphs of 100,000 nodes, for rho=auto")
    for name, make in LONG.items():
        edges = _averaging(make(SIZES[-1])).edges
        with Threads(1):
            taken = seconds(edges.modes)
            found = edges.modes()
        print(f"  {name:12s} {found.gap[0]:10.4g}  {taken:6.2f} s  {found.doubt}", flush=True)


def _averaging(graph: Any) -> pdmm.Network:
    readings = np.random.default_rng(1).standard_normal((len(graph), 1))
    return pdmm.Network(graph, pdmm.Quadratic(1.0, readings))


def _least_squares(
    graph: Any, d: int, rows: int, kappa: float = 1.0, scales: float = 0.0
) -> pdmm.Network:
    rng, n = np.random.default_rng(2), len(graph)
    A = rng.standard_normal((n, rows, d)) * np.logspace(0, np.log10(kappa) / 2, d)
    b = A @ rng.standard_normal(d) + rng.standard_normal((n, rows))
    A *= np.exp(scales * rng.standard_normal(n))[:, None, None]
    return pdmm.Network(graph, pdmm.LeastSquares(A, b))


def _rgg(n: int, neighbours: float = 12) -> Any:
    radius = float(np.sqrt(neighbours / (np.pi * n)))
    for seed in range(100):
        graph = nx.random_geometric_graph(n, radius, seed=seed)
        if nx.is_connected(graph):
            return graph
    raise SystemExit("no connected graph found")


NETWORKS: dict[str, Callable[[], pdmm.Network]] = {
    "averaging, path of 20": lambda: _averaging(nx.path_graph(20)),
    "averaging, cycle of 30": lambda: _averaging(nx.cycle_graph(30)),
    "averaging, complete, 10": lambda: _averaging(nx.complete_graph(10)),
    "averaging, grid 8 x 8": lambda: _averaging(nx.grid_2d_graph(8, 8)),
    "averaging, star of 20": lambda: _averaging(nx.star_graph(20)),
    "averaging, tree of 63": lambda: _averaging(nx.balanced_tree(2, 5)),
    "averaging, geometric, 100": lambda: _averaging(_rgg(100)),
    "averaging, geometric, 1000": lambda: _averaging(_rgg(1000, 16)),
    "averaging, scale-free, 100": lambda: _averaging(nx.barabasi_albert_graph(100, 3, seed=1)),
    "averaging, clique with tail": lambda: _averaging(nx.lollipop_graph(15, 10)),
    "least squares, d = 20": lambda: _least_squares(_rgg(50), 20, 30),
    "least squares, cycle": lambda: _least_squares(nx.cycle_graph(30), 5, 10),
    "least squares, one row a node": lambda: _least_squares(_rgg(80), 5, 1),
    "least squares, kappa 100": lambda: _least_squares(_rgg(50), 10, 20, 100.0),
    "least squares, scales differ": lambda: _least_squares(_rgg(50), 10, 20, 1.0, 1.0),
}


def automatic() -> None:
    heading('Iterations to 1e-6 of the first error: rho="auto" and the best rho of a sweep')
    most, sweep = 1500, np.logspace(-1.5, 1.5, 19)
    print(f"  (synchronous, at most {most}; the sweep: {len(sweep)} rho within 30 times auto's)")
    print(f"  {'':31s}{'relaxation 1':>22s}{'relaxation 0.9':>22s}")
    print(f"  {'':31s}{'auto':>10s}{'best':>12s}{'auto':>10s}{'best':>12s}")
    for name, make in NETWORKS.items():
        network = make()
        first = pdmm.solve_network(network, "auto", 1)
        assert first.optimum is not None
        scale = 1e-6 * float(np.sqrt(np.mean(np.sum(np.asarray(first.optimum) ** 2, 1))))
        cells = []
        for relaxation in (1.0, 0.9):

            def needs(rho: float, at_most: int, relaxation: float = relaxation) -> int | None:
                run = pdmm.solve_network(network, rho, at_most, relaxation=relaxation)  # noqa: B023
                return run.history.iterations_to(scale)  # noqa: B023

            auto = needs(first.rho, most)
            best = auto
            for rho in first.rho * sweep:
                found = needs(rho, best or most)
                best = found if best is None else min(best, found or best)
            cells += [str(auto or "more"), str(best or "more")]
        print("  {:31s}{:>10s}{:>12s}{:>10s}{:>12s}".format(name, *cells), flush=True)


def relaxed() -> None:
    heading("Relaxation 1 and 0.9: iterations to 1e-6, least squares, one row a node")
    network = NETWORKS["least squares, one row a node"]()
    ways: dict[str, tuple[int, dict[str, Any]]] = {
        "synchronous": (15_000, {}),
        "fixed order": (1500, {"schedule": "asynchronous", "order": network.nodes}),
        "random order": (1500, {"schedule": "asynchronous"}),
        "20% lost": (1500, {"loss": 0.2}),
    }
    for name, (most, way) in ways.items():
        found = []
        for relaxation in (1.0, 0.9):
            run = pdmm.solve_network(network, "auto", most, relaxation=relaxation, **way)
            assert run.optimum is not None
            size = float(np.sqrt(np.mean(np.sum(np.asarray(run.optimum) ** 2, 1))))
            found.append(run.history.iterations_to(1e-6 * size))
        print(f"  {name:14s} {found[0]} at 1, {found[1]} at 0.9")
    a = np.random.default_rng(0).standard_normal((10, 1))
    cycle = pdmm.Network(nx.cycle_graph(10), pdmm.Absolute(a))
    ends = [
        pdmm.solve_network(cycle, 1.0, 3000, relaxation=relaxation).history["consensus"][-1]
        for relaxation in (1.0, 0.9)
    ]
    print(f"  10-cycle of absolute values: disagreement {ends[0]:.2g} at 1, {ends[1]:.0e} at 0.9")


def main() -> None:
    small()
    large()
    eigenvalues()
    automatic()
    relaxed()


if __name__ == "__main__":
    main()
