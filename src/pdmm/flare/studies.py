"""Studies of tables, as the researcher sees them: what is asked, and what comes back."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from pdmm import Huber
from pdmm.common.checks import not_negative, positive, switch
from pdmm.common.whole_files import write_whole
from pdmm.flare.admin import Admin
from pdmm.flare.following import Times
from pdmm.flare.job import RUN, SUMMARY
from pdmm.flare.job_status import read_outcome
from pdmm.flare.results import result_of_json
from pdmm.flare.runs import (
    Done,
    RunError,
    carry_out,
    check_result,
    checked_name,
    new_name,
    resumption,
)
from pdmm.flare.server_study import FIT, STUDY
from pdmm.study import Description, Evaluation
from pdmm.tables.fitted import Fit, load
from pdmm.tables.formulas import read_formula
from pdmm.tables.joint import check
from pdmm.tables.silos import Options
from pdmm.tables.stored import body_of

Kind = Literal["fit", "describe", "evaluate"]
Show = Callable[[dict[str, Any]], object]
Say = Callable[[str], object]


class Found(NamedTuple):
    """What came of a study."""

    kind: str
    """"fit", "describe" or "evaluate"."""
    value: Any
    """A fit, a description or an evaluation."""
    times: Times | None
    """How long it took; None where this call has not submitted it."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Asking:
    """How a study is asked for.

    Args:
        sites: those that take part; those that are connected now, if not given.
        study: its name, to which sites may have consented.
        leave_out: whether sites whose tables do not fit are left out.
        secure: whether sums are secure.
        run: the name of the run; made up, if not given.
        timeout: seconds to wait for an answer before a site counts as absent.
        patience: seconds that a site may be silent before the study stops.
        restarts: how often to begin it again where it ends early, at most.
        wait: seconds to wait for the server and for all sites to begin, at most.
        show: takes the progress.
        say: takes what happens besides, in words.
    """

    sites: Sequence[str] | None = None
    study: str | None = None
    leave_out: bool = False
    secure: Any = "auto"
    run: str | None = None
    timeout: float = 60.0
    patience: float = 600.0
    restarts: int = 5
    wait: float = 600.0
    show: Show = lambda told: None
    say: Say = lambda text: None

    def settings(self, kind: Kind) -> dict[str, Any]:
        """What a job is told of it."""
        if self.study is not None and not str(self.study).isprintable():
            raise ValueError(f"study must be a name of one line, got {self.study!r}")
        return {
            "run": new_name(kind) if self.run is None else checked_name(self.run),
            "kind": kind,
            "study": self.study,
            "leave_out": self.leave_out,
            "secure": switch("secure", self.secure),
            "timeout": positive("timeout", self.timeout),
            "patience": not_negative("patience", self.patience),
        }


def fit_settings(
    formula: str, options: Options, label: str | None, asking: Asking
) -> dict[str, Any]:
    """What the job of a fit is told, checked before it travels."""
    check(options)
    bare = formula.replace(" ", "") if isinstance(formula, str) else formula
    if not isinstance(formula, str) or not (bare.endswith("~.") or "+." in bare or "~.+" in bare):
        read = read_formula(formula, None, options.extra)
        if read.survival != (options.name == "cox"):
            raise ValueError(
                "Surv(time, event) on the left of a formula and family='cox' go together, got "
                f"{formula!r} and family={options.name!r}"
            )
    told = asdict(options)
    del told["progress"], told["threads"]
    told["family"] = options.name
    if isinstance(options.family, Huber):
        told["delta"] = options.family.delta
    return asking.settings("fit") | {"formula": formula, "options": told, "label": label}


def run_fit(kit: Path, formula: str, options: Options, label: str | None, asking: Asking) -> Found:
    """Fit a model to the tables of a federation's sites."""
    return _carried_out(kit, fit_settings(formula, options, label, asking), asking)


def run_description(kit: Path, asking: Asking) -> Found:
    """Ask the sites of a federation what their tables have in common."""
    return _carried_out(kit, asking.settings("describe"), asking)


def run_evaluation(kit: Path, model: Fit | str | Path, asking: Asking) -> Found:
    """Evaluate a model on the rows that sites have set aside."""
    fitted = model if isinstance(model, Fit) else load(model)
    body = body_of(fitted.stored) | {"sites": {}, "path": None}
    return _carried_out(kit, asking.settings("evaluate") | {"model": body}, asking)


def resume_study(
    kit: Path,
    name: str,
    asking: Asking,
    timeout: float | None = None,
    patience: float | None = None,
) -> Found:
    """Follow a study that goes on, fetch what came of one that is done, or do it again.

    Args:
        kit: an admin's start-up kit.
        name: of the run.
        asking: which sites, and how it is shown; the rest stays as it was.
        timeout: another one than before.
        patience: another one than before.
    """
    return _carried_out(kit, resumption(name, timeout=timeout, patience=patience), asking)


def kind_of(kit: Path, name: str, wait: float) -> str:
    """What kind of run has this name: "run", or that of a study."""
    with Admin(kit, patience=wait) as admin:
        jobs = [str(job["job_id"]) for job in admin.jobs() if job.get("job_name") == name]
        kinds = [(admin.described(job).get(SUMMARY) or {}).get("kind", RUN) for job in jobs]
    # a job that resumes says of itself that it is a run
    return next((kind for kind in kinds if kind != RUN), RUN)


def _carried_out(kit: Path, asked: dict[str, Any], asking: Asking) -> Found:
    return carry_out(
        kit,
        asked,
        _fetched,
        sites=asking.sites,
        restarts=asking.restarts,
        wait=asking.wait,
        show=asking.show,
        say=asking.say,
    )


def _fetched(done: Done) -> Found:
    with tempfile.TemporaryDirectory(prefix="pdmm-study-") as place:
        folder = Path(place)
        done.admin.result(done.job, folder)
        path = folder / STUDY
        if not path.is_file():
            raise RunError(f"job {done.job} has ended, but there is nothing in its result")
        said = json.loads(path.read_text(encoding="utf-8"))
        check_result(done, said)
        readers: dict[str, Callable[[dict[str, Any], Path], Any]] = {
            "fit": _fit,
            "describe": _description,
            "evaluate": _evaluation,
        }
        times = done.times(read_outcome(folder))
        return Found(
            said["kind"], readers[said["kind"]](said, folder), times, tuple(said["warnings"])
        )


def _fit(said: dict[str, Any], folder: Path) -> Fit:
    return Fit(load(folder / FIT).stored, result=result_of_json(said["result"]))


def _description(said: dict[str, Any], folder: Path) -> Description:
    told = said["description"]
    return Description(
        sites=tuple(told["sites"]),
        rows=told["rows"],
        columns=pd.DataFrame(told["columns"]).set_index("column"),
        elsewhere={name: tuple(sites) for name, sites in told["elsewhere"].items()},
        choices=tuple(told["choices"]),
    )


def _evaluation(said: dict[str, Any], folder: Path) -> Evaluation:
    told = said["evaluation"]
    calibration, sites = told["calibration"], told["sites"]
    if calibration is not None:
        calibration = pd.DataFrame(calibration)
        calibration.index = pd.RangeIndex(1, len(calibration) + 1, name="group")
    return Evaluation(
        family=told["family"],
        measures=told["measures"],
        calibration=calibration,
        sites=None if sites is None else pd.DataFrame(sites).set_index("site"),
        choices=tuple(told["choices"]),
    )


def save_model(fitted: Fit, path: Path) -> Path:
    """Write a model file, and nothing where it cannot be written whole."""
    with tempfile.TemporaryDirectory(prefix="pdmm-model-") as place:
        made = fitted.save(Path(place) / "model.pdmm")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, made.read_bytes())
    return path
