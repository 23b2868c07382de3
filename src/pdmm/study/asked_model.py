"""A model whose rows are at sites: what a fit asks once they are encoded."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.engines.sites.roster import SiteForgotError, SiteTableError
from pdmm.engines.sites.sites import Sites
from pdmm.engines.sites.totals import Totals as Asked
from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.statistics import Statistics
from pdmm.regularisers import Regulariser
from pdmm.result import Result
from pdmm.study.advice import advice
from pdmm.study.asked_folds import asked_folds
from pdmm.study.connected import Connected
from pdmm.study.questions import Payload
from pdmm.tables.agreement import Agreement
from pdmm.tables.cross_validation import Folded
from pdmm.tables.design import Layout, layout_of
from pdmm.tables.fitted import Fit
from pdmm.tables.inference import inverse
from pdmm.tables.silos import Options, Totals
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]

LIKELIHOOD = {"gamma": 3}  # sums of which a log-likelihood is made, where there are several


class AskedModel:
    """The encoded rows of all sites.

    Args:
        sites: of the study.
        agreement: how rows are encoded.
        options: of the fit.
        about: the encoding, as it travels.
    """

    def __init__(
        self, sites: Connected, agreement: Agreement, options: Options, about: Payload
    ) -> None:
        self.sites = sites
        self.options = options
        self.encoding = agreement.encoding
        self._layout = layout_of(agreement.encoding, options.family, options.reference)
        delta = options.family.delta if isinstance(options.family, Huber) else None
        sites.told(
            "encode",
            about
            | {
                "family": options.name,
                "delta": delta,
                "ties": options.ties,
                "reference": options.reference,
                "offset": options.offset,
                "weights": options.weights,
            },
        )
        self.run: Sites | None = None

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def no_errors(self) -> str:
        return self.sites.why_no_hessians

    @property
    def dimension(self) -> int:
        """Of x."""
        return len(self._layout.order)

    @property
    def features(self) -> int:
        """Columns, without the intercept."""
        return len(self._layout.columns) - self._layout.intercept

    @property
    def intercepts(self) -> npt.NDArray[np.int64] | None:
        """For each entry of x, which entry is its intercept; None without one."""
        if not self._layout.intercept:
            return None
        each = max(1, len(self._layout.classes))
        return np.tile(self.features * each + np.arange(each), self.features + 1)

    # --- columns --------------------------------------------------------------------------------

    def means(self) -> Vector:
        """(q,): of each column; 0 for the intercept."""
        found = self.sites.sums("columns_total", {}, total=(self.features,), weight=())
        mean = np.asarray(found["total"]) / float(found["weight"])
        self.weight = float(found["weight"])
        return np.append(mean, 0.0) if self._layout.intercept else mean

    def spreads(self) -> Vector:
        return self.spreads_about(self.means())

    def spreads_about(self, mean: Vector) -> Vector:
        """(q,): standard deviations about these means, which were asked for before."""
        q = self.features
        found = self.sites.sums("columns_squares", {"mean": mean[:q]}, squares=(q,))
        spread = np.sqrt(np.asarray(found["squares"]) / self.weight)
        return np.append(spread, 1.0) if self._layout.intercept else spread

    @contextmanager
    def folded(self, options: Options) -> Iterator[Folded]:
        self.sites.phase("cross-validation")
        yield asked_folds(self, options)

    # --- the fit --------------------------------------------------------------------------------

    def minimise(self, regulariser: Regulariser | None) -> Result:
        self.sites.phase("opening the run")
        self.sites.begun = True
        try:
            self.run = self._opened()
            follow = self.sites.way.follow
            callback = None if follow is None else follow(self.run)
            return self.options.minimise(self.run, regulariser, callback=callback)
        except SiteTableError as error:  # it had a problem, and has none: its process is another
            raise SiteForgotError(
                f"site {error.site} has lost its part of the study: begin it again"
            ) from None

    def _opened(self) -> Sites:
        way = self.sites.way
        return Sites(
            self.sites.connection,
            way.timeout,
            way.patience,
            absent="wait",
            secure=self.sites.secure,
            run=way.run,
            study=way.study,
        )

    def hessian(self, x: Vector) -> Vector:
        assert self.run is not None
        return self.run.curvature(x, None).hessian

    def totals(self, x: Vector, robust: bool, clusters: bool) -> Totals:
        assert self.run is not None
        self.sites.phase("standard errors")
        d = self.dimension
        hessians = not self.no_errors
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("n", "events", "deviance", "pearson"), ()
        )
        shapes["likelihood"] = (LIKELIHOOD.get(self.options.name, 1),)
        if hessians:
            matrices = dict.fromkeys(("hessian", "expected", "squares"), (d, d))
            shapes |= {"gradient": (d,), **matrices}
        if clusters:
            shapes["scores"] = (d, d)
        payload = {
            "x": x,
            "robust": robust and hessians,
            "clusters": clusters,
            "hessians": hessians,
        }
        with advice("statistics"):
            found = Asked(self.run.roster, self.run.hidden).ask("statistics", payload, shapes)
        unknown = np.full((d, d), np.nan)
        sums = Statistics(
            n=_rounded(float(found["n"])),
            events=_rounded(float(found["events"])),
            gradient=found.get("gradient", unknown[0]),
            hessian=found.get("hessian", unknown),
            expected=found.get("expected", unknown),
            squares=found.get("squares", unknown),
            deviance=float(found["deviance"]),
            pearson=float(found["pearson"]),
            likelihood=found["likelihood"],
        )
        self.last = sums
        return Totals(sums, len(self.sites.names), found.get("scores"))

    def fit(self, stored: Stored, result: Result) -> Fit:
        assert self.run is not None
        stored = replace(stored, how=stored.how | {"sites": list(self.sites.names)})
        if self.sites.per_site:
            self._ask_each(stored)
        else:
            stored.sites.update({name: {} for name in self.sites.names})
        return Fit(stored, result=result)

    def _ask_each(self, stored: Stored) -> None:
        """What each site says of itself, where all policies allow that."""
        self.sites.phase("comparing the sites")
        tested = not stored.penalised and not stored.no_errors and stored.family != "huber"
        information = inverse(self.last.hessian) if tested and len(self.sites.names) > 1 else None
        payload = {"x": stored.x, "information": information, "scale": stored.inference.scale}
        labels = stored.layout.labels
        order = stored.layout.order
        for name, reply in self.sites.told("alone", payload).items():
            row: dict[str, Any] = {
                "rows": reply.whole("rows", 0, 2**53),
                "dropped": reply.whole("dropped", 0, 2**53),
                "n": reply.number("n"),
                "events": reply.number("events"),
            }
            if information is not None:
                row |= {key: reply.number_or_nan(key) for key in ("score", "df", "pvalue")}
            for field, word in (("params", "own"), ("errors", "own se")):
                own = np.full(len(labels), np.nan)
                if reply.has(field):
                    own = reply.array(field, (len(labels),))[order]
                row |= {f"{word} {label}": float(v) for label, v in zip(labels, own, strict=True)}
            stored.sites[name] = row


def _rounded(value: float) -> float:
    """A count that masks have moved by rounding is whole again."""
    near = float(np.rint(value))
    return near if abs(value - near) <= 1e-9 * max(1.0, abs(near)) else value
