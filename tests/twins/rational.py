"""Least squares in rational numbers: the truth, to the last digit."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

Number = Fraction
Point = list[Fraction]


def exact(numbers: Any) -> Point:
    """The rational numbers that some floats are."""
    return [Fraction(float(number)) for number in np.ravel(numbers)]


class LeastSquares:
    """F(x) = sum_i w_i/2 ‖A_i x - b_i‖² + c/2 ‖x‖², of the floats that the data are."""

    def __init__(self, A: Sequence[Any], b: Sequence[Any], w: Any, c: float = 0.0) -> None:
        self.d = np.shape(A[0])[1]
        self.rows = [
            (Fraction(float(weight)), exact(row), Fraction(float(right)))
            for weight, matrix, vector in zip(w, A, b, strict=True)
            for row, right in zip(matrix, vector, strict=True)
        ]
        self.c = Fraction(c)

    def value(self, x: Point) -> Fraction:
        residuals = [(w, _dot(a, x) - b) for w, a, b in self.rows]
        fit = sum((w * r * r for w, r in residuals), Fraction(0)) / 2
        return fit + self.c * _dot(x, x) / 2

    def minimiser(self) -> Point:
        """By Gaussian elimination."""
        d = self.d
        table = [[Fraction(0)] * (d + 1) for _ in range(d)]
        for j in range(d):
            table[j][j] += self.c
        for w, a, b in self.rows:
            for j in range(d):
                for k in range(d):
                    table[j][k] += w * a[j] * a[k]
                table[j][d] += w * a[j] * b
        for j in range(d):
            for k in range(d):
                if k != j:
                    factor = table[k][j] / table[j][j]
                    table[k] = [p - factor * q for p, q in zip(table[k], table[j], strict=True)]
        return [table[j][d] / table[j][j] for j in range(d)]


def _dot(x: Point, y: Point) -> Fraction:
    return sum((p * q for p, q in zip(x, y, strict=True)), Fraction(0))


def square(x: Point, y: Point) -> Fraction:
    """‖x - y‖²."""
    return sum(((p - q) ** 2 for p, q in zip(x, y, strict=True)), Fraction(0))
