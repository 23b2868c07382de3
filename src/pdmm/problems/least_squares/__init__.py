"""Least squares: f_i(x) = 1/2 ‖A_i x - b_i‖², held in whatever form suits its shape."""

from pdmm.problems.least_squares.problem import LeastSquares

__all__ = ["LeastSquares"]
