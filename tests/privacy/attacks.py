"""What a hostile server tries in order to find out rows of a site's table."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit

from pdmm.engines import Refused
from privacy.server import Attack, Behind, Line, OverError, Server, Vector, allowed, directions

# --- a saturating sweep ---------------------------------------------------------------------------


def sweep(server: Server) -> Iterator[Vector]:
    """Far out, a gradient is the sum of the rows on one side: its changes are single rows."""
    yield from _sweep(server, 1e9 * next(directions(server.table)), 1e-6)


def sweep_behind(server: Server) -> Iterator[Vector]:
    """The same behind exact steps, as far out as their rounding lets it."""
    behind = Behind(server.table, site=server.site)
    try:
        yield from _sweep(behind, 1e5 * next(directions(server.table)), 1e-3)
    finally:
        server.questions = behind.questions


def bounded_sweep(server: Server) -> Iterator[Vector]:
    """The same, as far out as the largest linear predictor may be: rows far from others show."""
    for w in itertools.islice(directions(server.table), 3):
        farthest = float(np.abs((server.table.X - server.table.X.mean(0)) @ w).max())
        yield from _sweep(server, 65 / farthest * w, 1e-3)


def _sweep(server: Server, w: Vector, tolerance: float) -> Iterator[Vector]:
    """Halve intervals of biases until each has one row.

    Args:
        server: that asks.
        w: the direction, and how far out.
        tolerance: how far from 1 the count of the rows in an interval may be.
    """
    line = Line(server, w)
    far = 1.15 * float(np.abs(line.places).max())
    low, high = line.gradient(-far), line.gradient(far)
    waiting = [(-far, low, far, high)]
    while waiting:
        a, at_a, b, at_b = waiting.pop()
        change = at_b - at_a
        count = change[-1]
        if abs(count - 1) < tolerance:
            yield change[:-1] / count
        elif count > 0.5 and b - a > 2:
            middle = (a + b) / 2
            at_middle = line.gradient(middle)
            waiting += [(a, at_a, middle, at_middle), (middle, at_middle, b, at_b)]


# --- a fine sweep, taken apart --------------------------------------------------------------------

TRIED = 40  # windows


class Window(NamedTuple):
    """A stretch of a line, and how much is asked and fitted there."""

    questions: int
    poles: int
    width: float


FINE = Window(16, 9, 7.0)
FINER = Window(24, 14, 8.0)


def finer_sweep(server: Server) -> Iterator[Vector]:
    """The same with more questions and more poles in each window."""
    yield from fine_sweep(server, FINER)


def fine_sweep(server: Server, window: Window = FINE) -> Iterator[Vector]:
    """A gradient along a line is a rational function of exp(b): each row is one of its poles.

    A window of few points is enough to fit the poles beside it, the other rows being smooth there.
    """
    waves = np.cos(np.pi * (np.arange(window.questions) + 0.5) / window.questions)
    tried = 0
    for w in itertools.islice(directions(server.table), 6):
        for scale in (1.5, 2.0, 3.0):
            line = Line(server, scale * w)
            top = float(line.places.max())
            for first in np.arange(-top - 9, -line.places.min() + 3, 3.0):
                biases = first + window.width / 2 * (1 + waves)
                points = [line.at(b) for b in biases]
                if tried >= TRIED or not allowed(server, points):
                    continue
                tried += 1
                seen = np.array([line.gradient(b) for b in biases])
                yield from _poles(line, biases, seen, window.poles)


def _poles(line: Line, b: Vector, seen: Vector, count: int) -> Iterator[Vector]:
    """The rows whose place is where their own pole says that it is."""
    places, parts = vector_fit(b, seen, -np.linspace(b.min() - 1, b.max() + 3, count))
    for place, part in zip(places, parts, strict=True):
        row = part[:-1] / part[-1]
        alone = abs(part[-1] - 1) < 2e-2
        if alone and abs(row @ line.w - line.centre - place) < 2e-2:
            yield row


def vector_fit(b: Vector, seen: Vector, places: Vector) -> tuple[Vector, Vector]:
    """Fit seen(b) = sum of parts · expit(b + places) + a constant, by moving poles.

    Each step fits a quotient of two such sums; the zeros of the denominator are the next poles.
    """
    target = seen / np.abs(seen).max(0)
    for _ in range(15):
        basis = expit(b[:, None] + places)
        q, _ = np.linalg.qr(np.column_stack([basis, np.ones(len(b))]))
        rest = target[:, :, None] * basis[:, None, :]
        rest -= _along(q, rest)
        right = target - q @ (q.T @ target)
        matrix = -rest.reshape(-1, len(places))
        found = np.linalg.lstsq(matrix, right.ravel(), rcond=1e-15)[0]
        poles = np.exp(-places)
        moved = np.outer(np.ones(len(places)), found * poles / (1 + found.sum()))
        zeros = np.linalg.eigvals(moved - np.diag(poles))
        places = -np.log(np.abs(zeros.real) + 1e-300)
    basis = np.column_stack([expit(b[:, None] + places), np.ones(len(b))])
    return places, np.linalg.lstsq(basis, seen, rcond=1e-15)[0][:-1]


def _along(q: Vector, rest: Vector) -> Vector:
    """The part of each column that the sums of the basis can take."""
    flat = rest.reshape(len(rest), -1)
    return np.asarray((q @ (q.T @ flat)).reshape(rest.shape))


# --- climbing on the weighted mean ----------------------------------------------------------------


def climb(server: Server) -> Iterator[Vector]:
    """Tilt towards the mean of the rows, as their curvatures weigh them, again and again.

    In the tail of an exponential each step weighs the rows further out more, until one is left.
    """
    table = server.table
    spread = table.X.std(0)
    centre = table.X.mean(0)
    for start in itertools.islice(directions(table, seed=1), 12):
        w = start / np.linalg.norm(start * spread)
        mean = centre
        for scale in np.geomspace(1, 300, 14):
            line = Line(server, scale * w)
            tail = -float(line.places.max()) - 6
            if not allowed(server, [line.at(tail), line.at(tail + 1e-3)]):
                tail = _furthest(server, line)
            if not np.isfinite(tail):
                break
            change = line.gradient(tail + 1e-3) - line.gradient(tail)
            before, mean = mean, change[:-1] / change[-1]
            towards = (mean - centre) / spread**2
            w = towards / np.linalg.norm(towards * spread)
            if np.linalg.norm((mean - before) / spread) < 1e-6:
                break
        yield mean


def _furthest(server: Server, line: Line) -> float:
    """How far into the tail the site goes along; infinite if nowhere."""
    for share in np.linspace(0.9, 0.0, 10):
        tail = -float(share) * float(line.places.max())
        if allowed(server, [line.at(tail), line.at(tail + 1e-3)]):
            return tail
    return np.inf


# --- solving for the table ------------------------------------------------------------------------


def solve_for_rows(server: Server, questions: int = 130) -> Iterator[Vector]:
    """Ask at random points, and fit a table of as many rows to the answers.

    The outcomes only shift all gradients, so that differences are about the rows alone.
    """
    table = server.table
    rng = np.random.default_rng(0)
    n, p = table.X.shape
    points = rng.standard_normal((questions, p + 1)) * 2
    while not allowed(server, points):
        points = points / 2
    seen: list[Vector] = []
    with suppress(Refused, OverError):
        seen.extend(server.gradient(x) for x in points)
    if len(seen) < 2:
        return
    yield from _table_of(points[: len(seen)], np.array(seen), n, rng)


def _table_of(points: Vector, seen: Vector, n: int, rng: Any) -> Vector:
    """Rows whose gradients at some points differ as those that were seen."""
    p = points.shape[1] - 1
    weights, biases = points[:, :p], points[:, p]
    wanted = seen - seen.mean(0)

    def parts(flat: Vector) -> tuple[Vector, Vector]:
        rows = np.column_stack([flat.reshape(n, p), np.ones(n)])
        return rows, expit(rows[:, :p] @ weights.T + biases)

    def residual(flat: Vector) -> Vector:
        rows, means = parts(flat)
        sums = means.T @ rows
        return np.asarray((sums - sums.mean(0) - wanted).ravel())

    def jacobian(flat: Vector) -> Vector:
        rows, means = parts(flat)
        bends = (means * (1 - means)).T
        found = np.einsum("qn,nj,qk->qjnk", bends, rows, weights)
        for k in range(p):
            found[:, k, :, k] += means.T
        found -= found.mean(0)
        return np.asarray(found.reshape(len(points) * (p + 1), n * p))

    start = rng.standard_normal(n * p)
    best = least_squares(residual, start, jacobian, method="trf", max_nfev=60, xtol=1e-14)
    return np.asarray(best.x.reshape(n, p))


# --- cells of binary columns ----------------------------------------------------------------------


def cells(server: Server, scale: float = 60.0) -> Iterator[Vector]:
    """Count the rows that begin with some values, column by column."""
    p = server.table.X.shape[1]
    base = server.gradient(np.append(np.zeros(p), -scale))[-1]  # minus the sum of the outcomes

    def rows_with(start: tuple[int, ...]) -> float:
        signs = 2.0 * np.array(start) - 1
        w = np.append(scale * signs, np.zeros(p - len(start)))
        found = server.gradient(np.append(w, scale * (0.5 - sum(start))))
        return float(found[-1] - base)

    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        start = waiting.pop()
        if start and rows_with(start) < 0.5:
            continue
        if len(start) == p:
            yield np.array(start, dtype=float)
        else:
            waiting += [(*start, 0), (*start, 1)]


# --- what a refusal tells -------------------------------------------------------------------------


def largest_entry(server: Server, column: int, limit: float, bits: int = 20) -> Vector:
    """Bracket the largest entry of a column by whether the site refuses: (low, high)."""
    low, high = 0.0, 64.0
    for _ in range(bits):
        middle = (low + high) / 2
        x = np.zeros(server.dimension)
        x[column] = limit / middle
        try:
            server.gradient(x)
        except Refused:
            low = middle
        else:
            high = middle
    return np.array([low, high])


# --- other families -------------------------------------------------------------------------------


def turn(server: Server, scale: float = 1e6) -> Iterator[Vector]:
    """Far out, Cox's model follows one row of each risk set: what changes is who that is.

    The model knows differences of rows alone, and so does the attack.
    """
    ways = directions(server.table)
    first, second = next(ways), next(ways)

    def at(angle: float) -> Vector:
        return server.gradient(scale * (np.cos(angle) * first + np.sin(angle) * second))

    waiting = [(0.0, at(0.0), 1.0, at(1.0))]
    while waiting:
        a, at_a, b, at_b = waiting.pop()
        if np.abs(at_b - at_a).max() < 1e-6:
            continue
        if b - a < 1e-4:
            yield from ((at_a - at_b) / times for times in range(1, 6))
            continue
        middle = (a + b) / 2
        at_middle = at(middle)
        waiting += [(a, at_a, middle, at_middle), (middle, at_middle, b, at_b)]


def kinks(server: Server, width: float = 2e-3) -> Iterator[Vector]:
    """Second differences of Huber's gradients are 0, but where a row's loss has a kink."""
    rng = np.random.default_rng(0)
    while True:
        x = 0.1 * rng.standard_normal(server.dimension)
        step = np.append(np.zeros(server.dimension - 1), width)
        left, middle, right = server.gradients([x - step, x, x + step])
        bend = right - 2 * middle + left
        if abs(bend[-1]) > 1e-9:
            yield bend[:-1] / bend[-1]


ATTACKS: dict[str, tuple[Attack, tuple[str, ...]]] = {
    "saturating sweep": (
        sweep,
        (
            *("logistic", "cancer", "cancer as it comes", "wine"),
            *("diabetes in two", "batches"),
        ),
    ),
    "behind steps": (sweep_behind, ("logistic", "diabetes in two")),
    "bounded sweep": (bounded_sweep, ("cancer", "diabetes in two")),
    "fine sweep": (fine_sweep, ("logistic", "cancer", "diabetes in two", "batches", "rare")),
    "finer sweep": (finer_sweep, ("logistic", "cancer", "diabetes in two")),
    "climbing": (climb, ("logistic", "diabetes in two", "counts")),
    "solving": (solve_for_rows, ("few rows",)),
    "cells": (cells, ("cells",)),
    "turning": (turn, ("survival",)),
    "kinks": (kinks, ("robust",)),
}
