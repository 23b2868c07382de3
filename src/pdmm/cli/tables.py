"""``pdmm fit``, ``predict``, ``evaluate`` and ``show``: models from tables."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pdmm.cli import fit_options as opt
from pdmm.cli.terminal import terminal

Files = Annotated[
    list[Path], typer.Argument(help="CSV or Parquet: one file, or one for each site.")
]
Model = Annotated[Path, typer.Argument(help="A model that `pdmm fit --out` wrote.")]
Table = Annotated[Path, typer.Argument(help="A CSV or Parquet file.")]


def fit(
    files: Files,
    formula: opt.Formula,
    client: Annotated[
        str | None,
        typer.Option(help="The column that says whose row it is; of several files, their names."),
    ] = None,
    family: opt.Family = "binomial",
    l1: opt.L1 = "0",
    l2: opt.L2 = "0",
    standardise: opt.Standardise = False,
    missing: opt.Missing = "error",
    covariance: opt.Covariance = "model",
    offset: opt.Offset = None,
    weights: opt.Weights = None,
    scale: opt.Scale = None,
    delta: opt.Delta = None,
    ties: opt.Ties = "efron",
    reference: opt.Reference = None,
    folds: opt.FoldCount = "5",
    seed: opt.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="The model file to write.")] = None,
    report: Annotated[Path | None, typer.Option(help="The HTML page to write.")] = None,
    sites: Annotated[bool, typer.Option(help="Print the table of sites.")] = True,
) -> None:
    """Fit a model to tables that stay with their sites, and print what was found."""
    console = terminal()
    with told():
        from pdmm.tables import fit as fit_tables

        for path, ending in ((out, None), (report, (".html", ".htm"))):
            check_writable(path, ending)
        with console.status("Reading and fitting ..."):
            found = fit_tables(
                formula,
                files[0] if len(files) == 1 else files,
                client=client,
                standardise=standardise,
                missing=cast(Any, missing),
                covariance=cast(Any, covariance),
                offset=offset,
                weights=weights,
                ties=cast(Any, ties),
                reference=reference,
                seed=seed,
                **opt.parsed(family, delta, l1, l2, scale, folds),
            )
        print(found.summary())
        if sites or out is not None or report is not None:
            with console.status("Comparing the sites ..."):
                table = found.sites
        if sites and len(table) > 1:
            print("\n" + sites_table(found))
        if out is not None:
            print(f"\nModel:  {found.save(out)}")
        if report is not None:
            with console.status("Writing the report ..."):
                written = found.report(report)
            print(f"Report: {written}" if out is not None else f"\nReport: {written}")


def predict(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
) -> None:
    """Predict the outcomes of new rows, one line for each row of the table."""
    with told():
        import pandas as pd

        from pdmm.common.whole_files import write_whole
        from pdmm.tables import load
        from pdmm.tables.reading import read_table

        fitted = load(model)
        frame = read_table(table)
        mean = fitted.predict(frame)
        if isinstance(mean, pd.DataFrame):
            found = mean.add_prefix("probability ")
        else:
            found = mean.rename("prediction").to_frame()
        if fitted.family in ("binomial", "multinomial"):
            found["class"] = fitted.predict_class(frame)
        write_whole(out, found.to_csv(index=False).encode())
        gaps = int(found.iloc[:, 0].isna().sum())
        said = f", {gaps} of them without a prediction: entries are missing" if gaps else ""
        print(f"{out}: {len(found):,} rows{said}")


def evaluate(
    model: Model,
    table: Table,
    client: Annotated[
        str | None, typer.Option(help="The column of the sites, if not the model's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file for the table.")] = None,
) -> None:
    """Say how well a model predicts outcomes that are known, for each site and for all."""
    with told():
        from pdmm.common.whole_files import write_whole
        from pdmm.tables import load
        from pdmm.tables.reading import read_table

        found = load(model).evaluate(read_table(table), client)
        print(found.to_string(float_format=lambda value: f"{value:.4g}"))
        if out is not None:
            write_whole(out, found.to_csv().encode())
            print(f"\n{out}")


def show(model: Model) -> None:
    """Print what a model file holds."""
    with told():
        from pdmm.tables import load

        fitted = load(model)
        print(fitted.summary())
        if len(fitted.stored.sites) > 1:
            print("\n" + sites_table(fitted))
        how = fitted.stored.how
        print(f"\nMade {how['made']} by pdmm {how['pdmm']}: {how['method']}.")


def sites_table(fitted: Any) -> str:
    """Rows, events and score tests of the sites, as text."""
    table = fitted.sites
    shown = table[[name for name in table if not str(name).startswith("own ")]]
    formats = {"score": "{:.2f}", "pvalue": "{:.3g}", "events": "{:,.10g}", "df": "{:.0f}"}
    columns = {name: formats[name].format for name in shown if name in formats}
    most = 40
    text = shown.head(most).to_string(formatters=columns, na_rep="-")
    if len(shown) > most:
        text += f"\n... and {len(shown) - most} more sites"
    return str(text)


DEMO = "visited ~ coinsurance + age + sex + health + diseases + limited + log_income"


def demo(out: Path) -> None:
    """Fit a real table whose rows are at six sites, and write a report."""
    with told():
        from pdmm.tables import fit as fit_tables
        from pdmm.tables import load_rand_health

        print(
            "1. A model from tables in silos\n\n"
            "Who saw a physician in the first year of the RAND Health Insurance Experiment? Its "
            "six\nsites keep their rows; sums of gradients and Hessians are all that they send.\n\n"
            f'pdmm.fit("{DEMO}",\n         table, client="site", family="binomial")\n'
        )
        found = fit_tables(DEMO, load_rand_health(), client="site", family="binomial")
        print(found.summary())
        print("\n" + sites_table(found))
        print(f"\nModel:  {found.save(out / 'rand_health.pdmm')}")
        print(f"Report: {found.report(out / 'rand_health.html')}")


@contextmanager
def told() -> Iterator[None]:
    """Errors in one sentence, and warnings as lines, on the terminal."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **more: print(
            f"Warning: {message}", file=sys.stderr
        )
        try:
            yield
        except ImportError as error:
            print(str(error), file=sys.stderr)
            raise typer.Exit(1) from None
        except (ValueError, OSError) as error:
            print(f"Error: {error}", file=sys.stderr)
            raise typer.Exit(1) from None


def check_writable(path: Path | None, endings: tuple[str, ...] | None) -> None:
    """Refuse before the work is done what could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file")
    if endings is not None and path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {' or '.join(endings)}")
    path.parent.mkdir(parents=True, exist_ok=True)
