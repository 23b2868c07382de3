"""The options of a fit, the same for tables that are here and for tables at sites."""

from typing import Annotated, Any

import typer

import pdmm

Formula = Annotated[str, typer.Option(help="E.g. 'died ~ age + C(sex) + bmi'.")]
Family = Annotated[
    str, typer.Option(help="gaussian, binomial, poisson, gamma, multinomial, cox or huber.")
]
L1 = Annotated[str, typer.Option(help="Weight of |coefficients|, or cv.")]
L2 = Annotated[str, typer.Option(help="Weight of coefficients²/2, or cv.")]
Standardise = Annotated[bool, typer.Option(help="Penalise columns as if their spread were 1.")]
Missing = Annotated[str, typer.Option(help="error, drop or mean.")]
Covariance = Annotated[str, typer.Option(help="model, robust or client.")]
Offset = Annotated[str | None, typer.Option(help="E.g. 'np.log(years)'.")]
Weights = Annotated[str | None, typer.Option(help="How often each row counts.")]
Scale = Annotated[str | None, typer.Option(help="pearson for overdispersed counts, or a number.")]
Delta = Annotated[float | None, typer.Option(help="Of huber, in the outcome's units.")]
Ties = Annotated[str, typer.Option(help="Of cox: efron or breslow.")]
Reference = Annotated[str | None, typer.Option(help="Of multinomial: a class.")]
FoldCount = Annotated[str, typer.Option(help="Of cv: a number, or client.")]
Seed = Annotated[int, typer.Option(help="Of the folds.")]


def parsed(
    family: str,
    delta: float | None,
    l1: str,
    l2: str,
    scale: str | None,
    folds: str,
) -> dict[str, Any]:
    """Those options that are text on the command line, and something else in Python."""
    return {
        "family": _family(family, delta),
        "l1": _penalty("l1", l1),
        "l2": _penalty("l2", l2),
        "scale": _scale(scale),
        "folds": folds if folds == "client" else _whole("folds", folds),
    }


def _family(name: str, delta: float | None) -> Any:
    if (name == "huber") != (delta is not None):
        raise ValueError("--family huber and --delta go together")
    return name if delta is None else pdmm.Huber(delta)


def _penalty(name: str, text: str) -> Any:
    return text if text == "cv" else _number(name, text)


def _scale(text: str | None) -> Any:
    return text if text in (None, "pearson") else _number("scale", str(text))


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{name} must be a number, got {text!r}") from None


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--{name} must be a whole number, or client, got {text!r}") from None
