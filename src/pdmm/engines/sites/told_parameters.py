"""The names and shapes of a model's parameters, as a site tells them: the parts of x, in order."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from pdmm.engines.sites.limits import LONGEST_PARAMETER, MOST_AXES, MOST_PARAMETERS
from pdmm.engines.sites.reading import Reply, is_name
from pdmm.engines.sites.roster import SiteError

Parameters: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
RESERVED = "__metadata__"  # which a file of safetensors has for itself
MUST = (
    f"None, or a list of at most {MOST_PARAMETERS:,} pairs of a name, each of them once, and a "
    "shape, whose sizes add up to the dimension"
)


def read_parameters(reply: Reply, dimension: int) -> Parameters | None:
    """What a site says of its model's parameters; None where x is no model's.

    Args:
        reply: of the site, to "hello".
        dimension: of x.
    """
    if not reply.has("parameters"):
        return None
    given = reply.fields["parameters"]
    if not isinstance(given, list) or len(given) > MOST_PARAMETERS:
        reply.refuse("parameters", MUST)
    if not all(_is_parameter(each, dimension) for each in given):
        reply.refuse("parameters", MUST)
    found = tuple((name, tuple(shape)) for name, shape in given)
    once = len({name for name, _ in found}) == len(found)
    if not once or sum(math.prod(shape) for _, shape in found) != dimension:
        reply.refuse("parameters", MUST)
    return found


def _is_parameter(given: Any, dimension: int) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    name, shape = given
    if not isinstance(name, str) or not is_name(name, LONGEST_PARAMETER) or name == RESERVED:
        return False
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        return False
    return all(type(n) is int and 1 <= n <= dimension for n in shape)


def check_parameters(parameters: Mapping[str, Parameters | None]) -> None:
    """Refuse sites whose models have other parameters."""
    first, expected = next(iter(parameters.items()))
    for name, found in parameters.items():
        if found != expected:
            raise SiteError(
                f"site {name} has a model with other parameters than site {first}: their names "
                "and shapes must be the same at all sites"
            )
