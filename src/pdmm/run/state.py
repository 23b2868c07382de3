"""All that changes in a run: what a checkpoint keeps, and what the next round starts from."""

from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np

from pdmm.common import trees
from pdmm.common.variables import Variables
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method
from pdmm.problems.block import Floats, Tally
from pdmm.result import Certificate


@dataclass
class Accounts:
    """What a run has cost so far."""

    tally: Tally = field(default_factory=Tally)
    """What was asked of all clients."""
    sent: Sent = field(default_factory=Sent)
    checks: int = 0
    """Gradients that every client has sent for certificates."""
    exact_error: float | None = None
    """The largest error of an exact step since the history's last row; None without them."""
    seconds: float = 0.0
    """How long the run had taken when it was laid down."""

    def add(self, tally: Tally, sent: Sent) -> None:
        """Count what a round asked of the clients, and what it sent."""
        self.sent = self.sent.plus(sent)
        self.tally.gradients += tally.gradients
        self.tally.values += tally.values
        self.tally.exact += tally.exact
        if self.exact_error is not None:
            self.exact_error = max(self.exact_error, tally.error)

    def checked(self, certificate: Certificate, sent: Sent | None = None) -> None:
        """Count a certificate, for which the clients computed and sent something.

        Args:
            certificate: which says what it took.
            sent: what it took by the clients' own count, if they have one.
        """
        if sent is not None:
            self.sent = self.sent.plus(sent)
        else:
            self.checks += certificate.vectors_up
        if sent is None and not certificate.vectors_up:
            self.sent = self.sent.plus(Sent(bytes_up=certificate.bytes_up))
        self.tally.gradients += int(certificate.calls)


@dataclass
class RunState:
    """A run after some rounds. The history's rows and the clients' memories are kept beside it."""

    method: Method
    """The one owner of the method that runs, with the parameters that it has by now."""
    server: Any
    x: Floats
    """The result so far: x_s, in the clients' dtype."""
    tolerance: float | None
    target: float = -1.0
    """What the certificate must fall to; NaN while there has been none."""
    done: int = 0
    """Rounds."""
    finished: bool = False
    diverged: bool = False
    proven: bool = False
    reason: str = ""
    first: float = 0.0
    """The norm of x_s after the first round in which something arrived."""
    worst: float = 0.0
    """The largest error of an exact step that missed what was asked of it."""
    residuals: dict[str, float | None] = field(default_factory=dict)
    """Of the last round, for certificates."""
    accounts: Accounts = field(default_factory=Accounts)
    variables: Variables | None = None
    """Those that the rounds are about, where they are not about x."""

    def plain(self) -> dict[str, Any]:
        """The state as numbers, arrays, lists and dicts."""
        accounts = self.accounts
        return {
            **vars(self),
            "method": _parameters(self.method),
            "server": trees.flat(self.server),
            "accounts": {
                **vars(accounts),
                "tally": vars(accounts.tally),
                "sent": list(accounts.sent),
            },
        }

    def loaded(self, plain: dict[str, Any]) -> "RunState":
        """The state that gave these values; this one, of a run that begins, says of what kind."""
        kept = plain["accounts"]
        accounts = {**kept, "tally": Tally(**kept["tally"]), "sent": Sent(*kept["sent"])}
        return RunState(
            **{
                **plain,
                "method": self.method.with_parameters(**plain["method"]),
                "server": trees.rebuilt(self.server, plain["server"]),
                "accounts": Accounts(**accounts),
            }
        )


def _parameters(method: Method) -> dict[str, Any]:
    """The parameters of the method as the user knows it."""
    named = cast(Any, method.as_named)
    return {f.name: getattr(named, f.name) for f in fields(named)}


def held(x: Any, dtype: np.dtype[Any]) -> Floats:
    """x_s as the clients' numbers hold it."""
    return np.asarray(x).astype(dtype)
