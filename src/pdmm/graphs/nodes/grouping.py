"""From the functions that a user gave to groups of nodes whose functions are of a kind."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdmm.common.threads import Threads
from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.absolute import AbsoluteGroup
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.nodes.quadratic import GROUPS, QuadraticGroup, ZeroGroup
from pdmm.graphs.nodes.smooth import FunctionGroup, ProxGroup, SmoothGroup
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats
from pdmm.problems.elementary import Absolute, Zero
from pdmm.problems.functions import Functions
from pdmm.problems.quadratic import Diagonal, Gram, Quadratics

Kind = tuple[type[QuadraticGroup], tuple[int, ...]]  # the class, and the shapes of its arrays


def grouped(network: Network, threads: Threads) -> list[Group]:
    """The nodes in groups."""
    smooth: list[Group] = []
    quadratic: dict[Kind, list[tuple[Indices, Quadratics]]] = {}
    absolute: dict[int, list[tuple[Indices, Floats]]] = {}
    for nodes, problem in _with_nodes(network.problems):
        form = problem.quadratics(threads)
        if form is not None:
            form = _plain(form)
            quadratic.setdefault(_kind(problem, form), []).append((nodes, form))
        elif isinstance(problem, Absolute):
            absolute.setdefault(problem.dimension, []).append((nodes, problem.a))
        else:
            smooth.append(_class_of(problem)(nodes, problem, network.name))
    return [
        *smooth,
        *(_quadratic_group(kind[0], pieces) for kind, pieces in quadratic.items()),
        *(_absolute_group(pieces) for pieces in absolute.values()),
    ]


def _with_nodes(problems: list[Problem]) -> Iterator[tuple[Indices, Problem]]:
    """Problems, each with the nodes that are its clients."""
    first = 0
    for problem in problems:
        yield np.arange(first, first + problem.clients), problem
        first += problem.clients


def _class_of(problem: Problem) -> type[SmoothGroup]:
    if not isinstance(problem, Functions):
        return SmoothGroup
    return ProxGroup if "prox" in problem.functions else FunctionGroup


def _plain(form: Quadratics) -> Quadratics:
    """Numbers rather than matrices of one entry."""
    if isinstance(form, Gram) and form.H.shape[1] == 1:
        return Diagonal(form.H[:, :, 0], form.g, form.c)
    return form


def _kind(problem: Problem, form: Quadratics) -> Kind:
    """What quadratics must have in common to be one group."""
    found = ZeroGroup if isinstance(problem, Zero) else GROUPS[type(form)]
    first = getattr(form, found.arrays[0])
    return found, first.shape[1:]


def _quadratic_group(
    kind: type[QuadraticGroup], pieces: list[tuple[Indices, Quadratics]]
) -> QuadraticGroup:
    nodes = _joined([nodes for nodes, _ in pieces])
    return kind(nodes, _merged(kind, [form for _, form in pieces]))


def _absolute_group(pieces: list[tuple[Indices, Floats]]) -> AbsoluteGroup:
    return AbsoluteGroup(_joined([nodes for nodes, _ in pieces]), _joined([a for _, a in pieces]))


def _merged(kind: type[QuadraticGroup], forms: list[Quadratics]) -> Quadratics:
    """Quadratics of one form as one."""
    if len(forms) == 1:
        return forms[0]
    make: Any = type(forms[0])
    merged: Quadratics = make(
        *(_joined([getattr(form, name) for form in forms]) for name in (*kind.arrays, "g", "c"))
    )
    return merged


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
