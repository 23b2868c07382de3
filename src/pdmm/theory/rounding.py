"""How much of what is measured along a run may be rounding: of the run, or of x* itself."""

import math

import numpy as np

from pdmm.theory.traced import Round, Vector, Watched


class Rounding:
    """Bounds of errors that no theorem knows of, from the residuals that a run leaves.

    Args:
        run: that is watched.
        L: the largest of all clients.
        mu: the smallest of all clients.
        rho: of the proximal steps.
    """

    def __init__(self, run: Watched, L: float, mu: float, rho: float) -> None:
        self.run = run
        self.L = L
        self.mu = mu
        self.rho = rho
        d = run.problem.dimension
        self.unit = (10 + d) * float(np.finfo(run.problem.dtype).eps)  # of a sum of products
        self.near = float(np.linalg.norm(run.x_star))
        self.slopes = _sizes(run.lam_star)

    @property
    def of_optimum(self) -> float:
        """How far x_star may be from the minimiser: F is strongly convex."""
        slope = float(np.linalg.norm(self.run.lam_star.sum(0)))
        doubt = self.unit * float((2 * self.L * self.near + self.slopes).sum())
        return (slope + doubt) / (len(self.slopes) * self.mu)

    @property
    def of_fixed_point(self) -> float:
        """How far z*, made of x_star, may be from what it should be, stacked over clients."""
        stretch = max(1.0, self.L / self.rho) * self.of_optimum
        doubt = self.unit * (self.near + (2 * self.L * self.near + self.slopes) / self.rho)
        return float(np.linalg.norm(stretch + doubt))

    def of_steps(self, anchor: Vector, x: Vector) -> Vector:
        """How far each x_i may be from the exact proximal step, by what is left of its slope."""
        run = self.run
        point = x.astype(run.problem.dtype)
        slope = run.each(lambda f, block: f.accurate_gradient(point[block]))
        left = _sizes(slope + self.rho * (x - anchor))
        terms = self.L * (_sizes(x) + self.near) + self.slopes
        terms += self.rho * (_sizes(x) + _sizes(anchor))
        return np.asarray((left + self.unit * terms) / (self.mu + self.rho))

    def of_server(self, x_s: Vector, z: Vector) -> float:
        """How far x_s is from the mean of the z_i."""
        size = float(_sizes(z).max())
        return float(np.linalg.norm(x_s - z.mean(0))) + self.unit * size

    def before(self, done: Round) -> float:
        """The same where a round began."""
        return self.of_server((done.anchor[0] + done.before.z[0]) / 2, done.before.z)

    def of_round(self, done: Round, relaxation: float) -> float:
        """How far z may be from where an exact round leads, stacked over clients."""
        z = done.before.z
        x = ((done.z - z) / relaxation + z + done.anchor) / 2
        missed = np.linalg.norm(self.of_steps(done.anchor, x))
        return 2 * relaxation * float(missed + math.sqrt(len(z)) * self.before(done))


def _sizes(rows: Vector) -> Vector:
    """The norm of each row."""
    return np.asarray(np.linalg.norm(rows, axis=1))
