"""A study at the server of a federation: a fit, a description or an evaluation of tables."""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pdmm
from pdmm.engines.sites.roster import Connection
from pdmm.flare.ownership import OWNER, TOKEN
from pdmm.flare.results import result_as_json
from pdmm.flare.server_run import BEGUN, HISTORY, Teller, history_csv, keep, secure_of
from pdmm.study import describe, evaluate, fit
from pdmm.study.connected import Way
from pdmm.tables.fitted import Fit
from pdmm.tables.silos import Options
from pdmm.tables.stored import of_body, save

FIT, STUDY = "model.pdmm", "study.json"
Report = Callable[[dict[str, Any]], None]


def do_study(
    settings: dict[str, Any], connection: Connection, folder: Path, out: Path, report: Report
) -> dict[Path, bytes]:
    """Do what a study asks for, and return the files of its result.

    Args:
        settings: what was asked for, as JSON, and whose it is.
        connection: to the sites.
        folder: what the server keeps of the run.
        out: where the result goes.
        report: takes what an onlooker is told.
    """
    keep({**settings, BEGUN: True}, folder)  # it has no checkpoint: taken up again, it begins again
    way = _way(settings, report)
    found: dict[str, Any] = {}
    files: dict[Path, bytes] = {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if settings["kind"] == "fit":
            options = options_of(settings["options"])
            made = fit(connection, settings["formula"], options, way, settings.get("label"))
            found["result"] = result_as_json(made.result)
            path = out / f"{FIT}.part"
            save(made.stored, path)
            files[out / FIT] = path.read_bytes()
            path.unlink()
            files[out / HISTORY] = _history(made)
        elif settings["kind"] == "describe":
            found["description"] = _described(connection, way)
        else:
            model = Fit(of_body(settings["model"]))
            found["evaluation"] = _evaluated(connection, model, way)
    said = {str(each.message) for each in warned if each.category is UserWarning}
    found |= {
        "run": settings["run"],
        "kind": settings["kind"],
        "warnings": sorted(said),
        OWNER: settings.get(OWNER),
        TOKEN: settings.get(TOKEN),
    }
    return {**files, out / STUDY: json.dumps(found, default=float).encode()}


def options_of(told: dict[str, Any]) -> Options:
    """The options of a fit, as a job tells them."""
    delta = told.get("delta")
    family = told["family"] if delta is None else pdmm.Huber(delta)
    known = {name: value for name, value in told.items() if name != "delta"}
    return Options(**(known | {"family": family}))


def _way(settings: dict[str, Any], report: Report) -> Way:
    names: list[str] = []

    def told(what: dict[str, Any]) -> None:
        names[:] = what["sites"]
        report({name: value for name, value in what.items() if name != "roster"})

    def follow(sites: Any) -> Callable[[int, Any], None]:
        return Teller(sites, {"every": 0, **settings}, report)

    return Way(
        timeout=settings["timeout"],
        patience=settings["patience"],
        secure=secure_of(settings),
        run=settings["run"],
        study=settings.get("study") or "",
        leave_out=settings.get("leave_out") is True,
        report=told,
        follow=follow,
    )


def _history(made: Fit) -> bytes:
    assert made.result is not None
    return history_csv(made.result).encode()


def _described(connection: Connection, way: Way) -> dict[str, Any]:
    found = describe(connection, way)
    return {
        **{name: value for name, value in asdict(found).items() if name != "columns"},
        "columns": found.columns.reset_index().to_dict("list"),
    }


def _evaluated(connection: Connection, model: Fit, way: Way) -> dict[str, Any]:
    found = evaluate(connection, model, way)
    calibration, sites = found.calibration, found.sites
    return {
        "family": found.family,
        "measures": found.measures,
        "calibration": None if calibration is None else calibration.to_dict("list"),
        "sites": None if sites is None else sites.reset_index().to_dict("list"),
        "choices": list(found.choices),
    }
