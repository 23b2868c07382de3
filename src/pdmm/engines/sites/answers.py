"""A site's answer to a round: checked before anything of it gets into the model."""

from typing import Any

import numpy as np

from pdmm.common import trees
from pdmm.engines.client_round import Shapes
from pdmm.engines.sites.roster import Payload, SiteError
from pdmm.problems.block import Tally


def check_answer(answer: Payload, shapes: Shapes, where: str, clients: int) -> None:
    """Refuse what would poison the model: a wrong shape or dtype, or what is not finite.

    Args:
        answer: of a site.
        shapes: what the method's messages look like.
        where: the beginning of an error's sentence: which site, in which round.
        clients: how many the site has.
    """
    parts = (("upload", "an upload", shapes.upload), ("draft", "a draft", shapes.draft))
    for part, named, like in parts:
        fields = answer[part]
        if part == "draft" and fields is None:
            continue  # TEMP
        if not isinstance(fields, list) or len(fields) != len(like):
            raise SiteError(f"{where} what is not {named}: it must have {_listed(like._fields)}")
        for field, kind, name in zip(fields, like, like._fields, strict=True):
            _check_field(f"{where} {name}", field, kind, clients)
    Tally(**answer["tally"])
    if answer["value"] is not None:
        float(answer["value"])


def _listed(names: tuple[str, ...]) -> str:
    """The fields of a message, in words."""
    if not names:
        return "no fields"
    return f"the field{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _check_field(what: str, field: Any, like: Any, clients: int) -> None:
    if not isinstance(like, np.ndarray):
        if type(field) is not type(like):
            raise SiteError(f"{what} of type {type(field).__name__}, not {type(like).__name__}")
        return
    wanted = (clients, *like.shape[1:])
    if not isinstance(field, np.ndarray) or field.shape != wanted:
        raise SiteError(f"{what} of shape {np.shape(field)}, not {wanted}")
    if field.dtype != like.dtype:
        raise SiteError(f"{what} in {field.dtype}, not {like.dtype}")
    if not np.isfinite(field).all():
        raise SiteError(
            f"{what} that is not finite: something is wrong with its data or its functions, "
            "or the step size is too large"
        )


def upload_of(answer: Payload, shapes: Shapes) -> Any:
    """The uploads of a site's clients, one row each."""
    return trees.build(shapes.upload, answer["upload"])


def draft_of(answer: Payload, shapes: Shapes) -> Any:
    """Their drafts."""
    return trees.build(shapes.draft, answer["draft"])
