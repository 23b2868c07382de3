"""Cox's partial likelihood of one client, as a function of its linear predictors."""

from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import UNIT, gamma
from pdmm.problems.glm.risk_sets import RiskSets, Vector

FAR = 100.0  # where changes of eta differ by more, nothing is left to cancel


def check_survival(label: str, time: npt.NDArray[Any], event: npt.NDArray[Any]) -> None:
    """Refuse times that are not above 0, and events that are neither 0 nor 1.

    Args:
        label: whose they are, for the message: "y[2] (client 2)".
        time: when each row was last seen.
        event: whether the event happened then.
    """
    wrong = ~(np.isfinite(time) & (time > 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{label} has the time {time[row]} in row {row}: a time must be a finite number above 0"
        )
    wrong = (event != 0) & (event != 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{label} has the event {event[row]} in row {row}: an event must be 1 (it happened) or "
            "0 (the row was censored)"
        )


class PartialLikelihood(RiskSets):
    """Minus the logarithm of Cox's partial likelihood, as a function of eta.

    With w the weights, the events at one time t are D and d their number. They have d terms:

        f(eta) = sum over t of [mean of w in D] sum_{l=0}^{d-1} log(phi_l) - sum over D of w eta,
        phi_l = sum over rows with time >= t of w exp(eta) - share_l sum over D of w exp(eta),

    where share_l is l/d with Efron's ties and 0 with Breslow's. This is the convention of R's
    coxph, also for weights, and of statsmodels' PHReg, which has none. Times are tied where they
    are equal. A row of weight 0 is as good as absent. f is 0 if there is no event, and does not
    change if a number is added to all of eta: its slopes add up to 0. So a caller may centre
    the columns of X once, which spares digits.

    Rows are taken by descending time, so that those at risk are the first ones. All arguments
    of the methods are in this order, which is ``order``; eta and t are (n,), Z is (n, k).

    Args:
        time: when each row was last seen.
        event: 1 where the event happened then, 0 for a row that was censored.
        weights: of the rows; all 1 without them.
        ties: "efron" or "breslow".
    """

    # --- the function ------------------------------------------------------------------------

    def value(self, eta: Vector) -> float:
        """f(eta)."""
        if not self.events.size:
            return 0.0
        h = self.hazards(eta)
        heights = h.scale[self.group] - eta[self.events]
        return float(self.c @ np.log(h.phi) + self.w @ heights)

    def slope(self, eta: Vector) -> Vector:
        """The derivatives (n,) of f by the entries of eta."""
        slope = np.zeros(self.rows)
        if self.events.size:
            h = self.hazards(eta)
            slope[: self.at_risk] = h.x * self.pull(h, self.c)
            slope[self.events] -= self.w
        return slope

    def hessian(self, Z: Vector, eta: Vector) -> Vector:
        """Z' (second derivatives of f by eta) Z, (k, k).

        The variance of rows grows, as one more row of the share p joins them, by p (1 - p) u u',
        with u the row less the mean of those before. So the Hessian is a sum of squares, in which
        nothing cancels but within u.
        """
        k = Z.shape[1]
        if not self.events.size:
            return np.zeros((k, k))
        h = self.hazards(eta)
        weight = self.pull(h, self.c)
        shares = h.x * weight
        # A row that is beside the mean of all rows has more digits left for u.
        u = Z[: self.at_risk] - (shares @ Z[: self.at_risk]) / shares.sum()
        # An event is among the rows before it in later groups only.
        weight[self.events] = self.after(self.tied(self.c / h.phi), h.levels)[self.group]
        weight *= h.x * _quotient(h.before, h.before + h.x)
        means = self.means(h, u)
        p = self.kept * h.tied[self.group] / h.phi
        between = self.tied(self.c * p * (h.ahead[self.group] / h.phi))
        if self.largest_tie == 1:
            weight[self.events] += between
            u[1:] -= means[:-1]
            return _gram(u, weight)
        own = u[self.events]
        own_sums = np.add.reduceat(h.x[self.events, None] * own, self.first)
        own_means = _quotient(own_sums, h.tied[:, None])
        own -= own_means[self.group]
        own_weight = h.x[self.events] * self.tied(self.c * self.kept / h.phi)[self.group]
        u[1:] -= means[:-1]
        result = _gram(u, weight) + _gram(own, own_weight)
        # Nothing is ahead of the first row, and ``between`` is 0 where that is an event.
        return np.asarray(result + _gram(own_means - means[self.opening - 1], between))

    def divergence(self, eta: Vector, t: Vector) -> float:
        """f(eta + t) - f(eta) - slope(eta)·t, without cancellation.

        A term adds c (log E exp(t) - E t), with E the mean in its shares at eta. As a row joins
        others, E exp(t) - exp(E t) grows by something positive, as the variance does above.
        """
        if not self.events.size:
            return 0.0
        t = t[: self.at_risk]
        least, largest = t.min(), t.max()
        if not largest - least <= FAR:
            moved = np.zeros(self.rows)
            moved[: self.at_risk] = t
            change = self.value(eta + moved) - self.value(eta)
            return float(change - self.slope(eta) @ moved)
        t = t - (least + largest) / 2
        h = self.hazards(eta)
        means = _quotient(self.before(h.x * t, h.levels), h.before)
        total = h.before + h.x
        joined = _jensen(_quotient(h.x, total), _quotient(h.before, total), t - means)
        growth = total * joined.excess * np.exp(means + joined.move)
        # E exp(t - E t) - 1 of the rows before a group's events, and of these themselves
        excess = self.before(growth, h.levels)[self.opening]
        means = means[self.opening]
        excess = _quotient(excess, h.ahead * np.exp(means))
        tied = self.events
        own_means = _quotient(self.tied(h.x[tied] * t[tied]), h.tied)
        own = _exp_remainder(t[tied] - own_means[self.group])
        own_excess = _quotient(self.tied(h.x[tied] * own), h.tied)
        p = self.kept * h.tied[self.group] / h.phi
        q = h.ahead[self.group] / h.phi
        both = _jensen(p, q, (own_means - means)[self.group])
        own_part = p * own_excess[self.group] * np.exp(both.own)
        part = q * excess[self.group] * np.exp(-both.move)
        return float(self.c @ np.log1p(both.excess + own_part + part))

    # --- separation --------------------------------------------------------------------------

    def unsettled(self, eta: Vector, eta_doubt: Vector) -> int:
        """How many events eta does not put above all other rows that are at risk then.

        If there is none, each term falls for ever, or is constant, as eta is multiplied by more
        and more. Of events at one time none can be above the others: they count.
        """
        if not self.events.size:
            return 0
        highest = np.maximum.accumulate((eta + eta_doubt)[: self.at_risk])
        highest = np.append(-np.inf, highest)[self.events]  # of the rows before each event
        above = (eta - eta_doubt)[self.events] > highest
        alone = np.bincount(self.group)[self.group] == 1
        return int(np.count_nonzero(~(above & alone)))

    # --- bounds ------------------------------------------------------------------------------

    def slope_doubt(self, eta: Vector, eta_doubt: Vector) -> Vector:
        """How far slope(eta) can be from the exact slope (n,), if eta is off by ``eta_doubt``.

        Let e be the errors in the exponents, those of eta and of computing with it. A row's
        share p of a term is then within p (exp(e) E exp(e) - 1) of the truth. Everything else is
        a sum of positive numbers, or a product.
        """
        doubt = np.zeros(self.rows)
        if not self.events.size:
            return doubt
        m = self.at_risk
        h = self.hazards(eta)
        scale = h.scale[self.group_of_row]
        theta = eta[:m] + self.log_w
        sizes = 2 * np.abs(self.log_w) + np.abs(theta) + np.abs(theta - scale)
        sizes += 2 * (h.scale[-1] - h.scale[0]) + 16 + 4 * len(h.levels)
        e = eta_doubt[:m] + UNIT * sizes
        with np.errstate(over="ignore", invalid="ignore"):
            spread = h.x * np.expm1(e)
            terms = self.before(spread, h.levels)[self.opening][self.group]
            terms += self.kept * self.tied(spread[self.events])[self.group]
            moved = h.x * np.exp(e) * self.pull(h, self.c * terms / h.phi)
            sums = self.pull(h, self.c)
            moved += spread * sums
        operations = 4 * isqrt(m) + 3 * self.largest_tie + 32
        moved += gamma(operations) * (h.x * sums)
        moved[self.events] += UNIT * self.w
        # What underflows is less than this.
        doubt[:m] = 1.01 * moved + 1e-290 * self.w.sum()
        return np.where(np.isnan(doubt), np.inf, doubt)

    def reach(self, Z: Vector) -> float:
        """R² for which |D³f[v, v, u]| <= R ‖u‖ D²f[v, v] along the columns of Z.

        R is at most the largest distance between two rows that are at risk together. The last
        risk set has all others in it, and its rows are within a ball: R² is at most 4 times the
        square of its radius.
        """
        if not self.events.size:
            return 0.0
        rows = Z[: self.at_risk]
        beside = rows - np.full(self.at_risk, 1 / self.at_risk) @ rows
        squares = np.einsum("rk,rk->r", beside, beside)
        return 4 * float(squares.max()) * (1 + gamma(2 * Z.shape[1] + 16))


class _Jensen(NamedTuple):
    """Two groups of rows together, where t is 0 in the one and ``change`` in the other."""

    move: Vector
    """The mean of t."""
    own: Vector
    """The change less that mean."""
    excess: Vector
    """The mean of exp(t - mean), less 1."""


def _jensen(p: Vector, q: Vector, change: Vector) -> _Jensen:
    """Shares q and p = 1 - q, where t is 0 and where it is ``change``."""
    move = p * change
    own = q * change
    return _Jensen(move, own, q * _exp_remainder(-move) + p * _exp_remainder(own))


def _quotient(a: Vector, b: Vector) -> Vector:
    """a/b, and 0 where there is nothing to divide by."""
    return np.asarray(np.divide(a, b, out=np.zeros(np.shape(a)), where=b > 0))


def _gram(rows: Vector, weights: Vector) -> Vector:
    """The sum of weight r r' over rows r, which are overwritten: that is faster."""
    rows *= np.sqrt(weights)[:, None]
    return np.asarray(rows.T @ rows)


def _exp_remainder(t: Vector) -> Vector:
    """exp(t) - 1 - t, to full relative accuracy also for small t."""
    series = np.zeros_like(t)
    for k in range(12, 2, -1):
        series = (series + 1) * t / k
    series = (series + 1) * t * t / 2
    return np.where(np.abs(t) < 0.25, series, np.expm1(t) - t)
