"""What methods have in common that wrap a member of the PDMM family."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pdmm.methods.base import Draft, Memory, Message, Method, Server, Upload
from pdmm.methods.spectral import in_24_bits

if TYPE_CHECKING:
    from pdmm.methods.family import Family


class Wrapping(Method[Server, Memory, Message, Upload, Draft]):
    """A dataclass whose field ``inner`` is the method that users know."""

    inner: "Family"

    # Constants of other methods, which here depend on the method inside: hence the ignores.

    @property
    def paper_vectors(self) -> tuple[int, int]:  # type: ignore[override]
        return self.inner.paper_vectors

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.inner.exact

    @property
    def steps(self) -> int:
        return self.inner.steps

    @property
    def curvature(self) -> Literal["none", "diagonal", "full"]:
        return self.inner.curvature

    @property
    def as_named(self) -> Method:
        return self.inner

    def with_inner(self, inner: "Family") -> Self:
        """The same around another method."""
        return cast(Self, replace(cast(Any, self), inner=inner))

    def with_parameters(self, **values: Any) -> Self:
        return self.with_inner(self.inner.with_parameters(**values))

    def with_smaller_steps(self, largest: float) -> Self:
        return self.with_inner(self.inner.with_smaller_steps(largest))

    def at_rho(self, rho: float) -> "Family":
        """The inner method with another rho; itself with its own, be that rounded to 24 bits."""
        if rho in (self.inner.penalty, in_24_bits(self.inner.penalty)):
            return self.inner
        return self.inner.with_penalty(rho)
