"""What the options of the commands for federations mean."""

from pathlib import Path
from typing import Annotated, Any

import typer

import pdmm

Kit = Annotated[Path, typer.Option(help="A start-up kit, as `nvflare provision` makes it.")]
AnyKit = Annotated[Path, typer.Option(help="A start-up kit: of an admin, a site or a server.")]
Out = Annotated[Path, typer.Option(help="A file for the model, safetensors.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a model that is there.")]
Lines = Annotated[
    bool,
    typer.Option("--lines", help="A line for each round, as where the output is no terminal."),
]
Number = Annotated[str | None, typer.Option(help="A number; auto, if left out.")]
Restarts = Annotated[int, typer.Option(min=0, help="How often to take the run up again.")]
Wait = Annotated[
    float, typer.Option(help="Seconds to wait for the server, and for all sites to begin.")
]


def number(name: str, text: str | None) -> Any:
    """A number, "auto", or None where nothing was said.

    >>> number("rho", "0.5"), number("rho", "auto"), number("rho", None)
    (0.5, 'auto', None)
    """
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{name} must be a number or auto, got {text!r}") from None


def weights(text: str | None) -> dict[str, float] | None:
    """The weights of sites.

    >>> weights("north=3, south=1")
    {'north': 3.0, 'south': 1.0}
    """
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name or not value:
            raise ValueError(f"--weights must be site=number,site=number, got {text!r}")
        if name in found:
            raise ValueError(f"--weights has two weights for {name}: {text!r}")
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"--weights must have a number for {name}, got {value!r}") from None
    return found


def secure(text: str) -> Any:
    """Whether sums are to be secure.

    >>> secure("auto"), secure("yes"), secure("no")
    ('auto', True, False)
    """
    known = {"auto": "auto", "yes": True, "no": False}
    if text not in known:
        raise ValueError(f"--secure must be auto, yes or no, got {text!r}")
    return known[text]


def names(text: str | None, option: str = "--sites") -> list[str] | None:
    """The names of sites, or of columns.

    >>> names("north, south")
    ['north', 'south']
    """
    if text is None:
        return None
    found = [name.strip() for name in text.split(",")]
    if "" in found or len(set(found)) < len(found):
        raise ValueError(f"{option} must be names like a,b, each of them once, got {text!r}")
    return found


def ending(path: Path | None, wanted: str) -> Path | None:
    """A file whose name must end so.

    >>> ending(Path("model.pdmm"), ".pdmm")
    PosixPath('model.pdmm')
    """
    if path is not None and path.suffix.lower() != wanted:
        raise ValueError(f"{path} must end in {wanted}")
    return path


def regulariser(l1: float | None, l2: float | None) -> pdmm.Regulariser | None:
    """The regulariser that was asked for, if any was."""
    if l1 is not None and l2 is not None:
        raise ValueError("give --l1 or --l2, not both")
    if l1 is not None:
        return pdmm.L1(l1)
    if l2 is not None:
        return pdmm.SquaredL2(l2)
    return None
