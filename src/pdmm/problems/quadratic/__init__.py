"""Ways to hold the quadratics f_i(x) = 1/2 x'H_i x - g_i·x + c_i of many clients.

Rows and SparseRows hold the data A_i themselves (H_i = A_i'A_i), Gram the matrices H_i, Spectral
their eigenvectors, Diagonal their diagonals where they have no more. Which is best depends on the
shapes and on the run: see ``least_squares.forms``. What they sum to is in ``total``.
"""

from pdmm.problems.quadratic.diagonal import Diagonal
from pdmm.problems.quadratic.form import QuadraticBlock, Quadratics
from pdmm.problems.quadratic.gram import Gram
from pdmm.problems.quadratic.rows import Rows
from pdmm.problems.quadratic.sparse_rows import SparseRows
from pdmm.problems.quadratic.spectral import Spectral

__all__ = ["Diagonal", "Gram", "QuadraticBlock", "Quadratics", "Rows", "SparseRows", "Spectral"]
