"""``pdmm.federation.connect``: a federation, as a researcher works with it from Python."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pdmm.flare.admin import Admin
from pdmm.flare.overview import Overview, overview
from pdmm.flare.studies import (
    Asking,
    Found,
    run_description,
    run_evaluation,
    run_fit,
)
from pdmm.study import Description, Evaluation
from pdmm.tables.fitted import Fit
from pdmm.tables.silos import Options


@dataclass(frozen=True)
class Federation:
    """The sites of a federation, and what may be asked of their tables.

    Nothing is held open between calls: each of them connects, submits a job, follows it to its
    end, and returns what came of it.
    """

    kit: Path
    asking: Asking

    def sites(self) -> list[str]:
        """The sites that are connected now."""
        with Admin(self.kit, patience=self.asking.wait) as admin:
            return admin.sites()

    def status(self) -> Overview:
        """Which sites are connected, and how the runs stand."""
        return overview(self.kit)

    def describe(self, **asking: Any) -> Description:
        """What the tables of all sites have in common, as far as their policies tell.

        Args:
            asking: as of :meth:`fit`.
        """
        found: Description = _told(run_description(self.kit, replace(self.asking, **asking)))
        return found

    def fit(
        self,
        formula: str,
        family: Any = "binomial",
        l1: Any = 0.0,
        l2: Any = 0.0,
        standardise: bool = False,
        missing: Literal["error", "drop", "mean"] = "error",
        covariance: Literal["model", "robust", "client"] = "model",
        offset: str | None = None,
        weights: str | None = None,
        *,
        client: str | None = None,
        scale: Any = None,
        ties: Literal["efron", "breslow"] = "efron",
        reference: Any = None,
        folds: Any = 5,
        penalties: int = 50,
        seed: int = 0,
        curvature: Literal["auto", "full", "diagonal", "none"] = "auto",
        rounds: int | None = None,
        **asking: Any,
    ) -> Fit:
        """Fit a model to the tables of all sites: :func:`pdmm.fit`, with the sites as clients.

        Args:
            formula: e.g. ``"died ~ age + C(sex) + bmi"``.
            family: as of :func:`pdmm.fit`, and so are the arguments that follow it.
            l1: see there.
            l2: see there.
            standardise: see there.
            missing: see there.
            covariance: see there.
            offset: see there.
            weights: see there.
            client: a column that holds the name of the site, if the formula uses one.
            scale: see there.
            ties: see there.
            reference: see there.
            folds: see there; "client" leaves out one site at a time.
            penalties: see there.
            seed: see there.
            curvature: see there.
            rounds: see there.
            asking: what :func:`connect` takes, for this call alone, such as ``leave_out=True``.

        Returns:
            A :class:`pdmm.tables.Fit`.
        """
        options = Options(
            family=family,
            l1=l1,
            l2=l2,
            standardise=standardise,
            missing=missing,
            covariance=covariance,
            offset=offset,
            weights=weights,
            scale=scale,
            ties=ties,
            reference=reference,
            folds=folds,
            penalties=penalties,
            seed=seed,
            curvature=curvature,
            rounds=rounds,
        )
        how = replace(self.asking, **asking)
        found: Fit = _told(run_fit(self.kit, formula, options, client, how))
        return found

    def evaluate(self, model: Fit | str | Path, **asking: Any) -> Evaluation:
        """How well a model predicts the rows that the sites have set aside.

        Args:
            model: a fit, or the path of a model file.
            asking: as of :meth:`fit`.
        """
        how = replace(self.asking, **asking)
        found: Evaluation = _told(run_evaluation(self.kit, model, how))
        return found


def connect(
    kit: str | Path,
    *,
    sites: Sequence[str] | None = None,
    study: str | None = None,
    leave_out: bool = False,
    secure: Any = "auto",
    timeout: float = 60.0,
    patience: float = 600.0,
    wait: float = 600.0,
) -> Federation:
    """A federation whose sites hold tables, by the start-up kit of an admin.

    Args:
        kit: the folder of the kit.
        sites: those that take part; those that are connected at each call, if not given.
        study: the name of the study, to which sites may have consented.
        leave_out: whether a site whose table does not fit is left out; else it is an error.
        secure: whether sums are secure; "auto" is wherever three organisations take part.
        timeout: seconds to wait for an answer before a site counts as absent.
        patience: seconds that a site may be silent before a study stops.
        wait: seconds to wait for the server and for all sites to begin, at most.

    Example:
        >>> import pdmm.federation
        >>> federation = pdmm.federation.connect("kits/researcher")  # doctest: +SKIP
        >>> model = federation.fit("died ~ age + C(sex) + bmi")  # doctest: +SKIP
        >>> print(model.summary())  # doctest: +SKIP
    """
    Admin(Path(kit))  # refuses what is no kit of an admin
    asking = Asking(
        sites=None if sites is None else list(sites),
        study=study,
        leave_out=leave_out,
        secure=secure,
        timeout=timeout,
        patience=patience,
        wait=wait,
    )
    return Federation(Path(kit), asking)


def _told(found: Found) -> Any:
    for text in found.warnings:
        warnings.warn(text, stacklevel=3)
    return found.value
