"""What a policy allows of a run: its method, its variables, its points and its rounds."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.variables import Scaled, Variables
from pdmm.privacy.policy import Policy
from pdmm.privacy.questions import Study, digest_of
from pdmm.privacy.refusals import Reason
from pdmm.privacy.table_limits import listed
from pdmm.problems.base import Problem

Vector = npt.NDArray[np.float64]
LONGEST_STEP = 100.0  # times 1/L; fits are known to gain up to 20
LONGEST_SERVER_STEP = 10.0  # 1 is the step of the paper


def treats_entries_alike(regulariser: Any, problem: Problem) -> bool:
    """Whether a regulariser has one weight for all entries of x, but for intercepts."""
    if not is_dataclass(regulariser) or type(regulariser).__name__ == "Box":
        return False
    for part in fields(regulariser):
        weights = np.asarray(getattr(regulariser, part.name))
        if weights.dtype.kind not in "fiu":
            return False
        if weights.ndim and np.unique(_others(weights, problem)).size > 1:
            return False
    return True


def _others(weights: Vector, problem: Problem) -> Vector:
    """The weights of the entries that are no intercepts, if these have none."""
    own = np.zeros(len(weights), dtype=bool)
    if problem.intercepts is not None and len(weights) == problem.dimension:
        own[np.unique(problem.intercepts)] = True
    return np.asarray(weights[~(own & (weights == 0))])


class RunLimits:
    """The limits that a run meets after its opening; each check raises a ``Reason``."""

    policy: Policy
    study: Study | None

    def check_unprepared(self, before: str, now: str) -> bool:
        """Refuse to begin a run a second time in another way; says whether it has begun.

        Args:
            before: what the run was prepared for; empty, if it was not.
            now: what it is to be prepared for.
        """
        if before not in ("", now):
            raise Reason("the run is prepared already, for something else")
        return before == now

    def check_server_asks(self) -> None:
        """Refuse a point of the server's in a run whose sites compute them."""
        if self.study is not None and self.study.verified:
            raise Reason("the server asks about a point in a run whose sites compute x")

    def check_next(self, r: int, follows: int) -> None:
        """Refuse a round that is not the one that follows, where the sites compute x."""
        if r != follows:
            raise Reason(f"round {r} is asked for, and round {follows} follows")

    def check_method(self, method: Any) -> None:
        """Refuse a method that the policy does not allow."""
        policy = self.policy
        name = type(method.as_named).__name__
        if policy.methods is not None and name not in policy.methods:
            raise Reason(f"the method is {name}, and methods allows {listed(policy.methods)}")
        if method.steps > policy.max_local_steps:
            raise Reason(
                f"a round has {method.steps} steps, and max_local_steps is {policy.max_local_steps}"
            )
        if method.curvature == "full":
            self.check_hessians()

    def check_step(self, method: Any, steepest: float) -> None:
        """Refuse a step in a run whose sites compute x that is so long that it chooses x.

        Args:
            method: which may have a step size.
            steepest: the largest L of the site's clients; infinite where there is none.
        """
        step = float(getattr(method, "step_size", None) or 0.0)
        if np.isfinite(steepest) and step * steepest > LONGEST_STEP:
            raise Reason(f"a step of {step:.3g} is more than {LONGEST_STEP:g}/L of this site")
        server_step = float(getattr(method, "server_step", None) or 0.0)
        if server_step > LONGEST_SERVER_STEP:
            raise Reason(f"a server_step of {server_step:.3g} is above {LONGEST_SERVER_STEP:g}")

    def check_hessians(self) -> None:
        """Refuse Hessians, unless the policy allows them."""
        if not self.hessians:
            raise Reason(f'Hessians are asked for, and hessians is "{self.policy.hessians}"')

    @property
    def hessians(self) -> bool:
        """Whether Hessians may leave: as they are, or inside secure sums."""
        if self.policy.hessians == "secure":
            return self.study is not None and self.study.secure
        return self.policy.hessians == "allowed"

    def check_variables(self, variables: Variables) -> None:
        """Refuse variables that are made from Hessians, unless these may leave, and second ones."""
        self._check_same_variables(digest_of(type(variables).__name__, vars(variables)))
        if not isinstance(variables, Scaled):
            self.check_hessians()
        else:
            self.check_point(variables.centre)
        if self.study is not None and self.study.verified:
            raise Reason("other variables are asked for in a run whose sites compute x")

    def _check_same_variables(self, digest: str) -> None:
        # Constants of functions in any number of variables would tell a table number by number.
        assert self.study is not None
        if self.study.variables not in ("", digest) and not self.hessians:
            raise Reason("a run has one change of variables, and another is asked for")
        self.study.variables = digest

    def check_point(self, x: Vector) -> None:
        """Refuse a point before the first round that is not the start."""
        assert self.study is not None
        if not self.hessians and not np.array_equal(x, self.study.x0):
            raise Reason("a point that is not the start is asked about before the first round")

    def check_start(self, x: Vector, variables: Variables | None) -> None:
        """Refuse a first round that is not at the start."""
        assert self.study is not None
        if self.policy.x0 == "any" or (variables is not None and self.hessians):
            return
        start = self.study.x0 if variables is None else 0 * self.study.x0
        if not np.array_equal(x, start):
            raise Reason('the first round is not at the start, and x0 is "zero"')

    def begin_round(self, r: int) -> None:
        """Refuse a round that is not the next, or one too many."""
        assert self.study is not None
        asked = self.study.asked
        if not 1 <= r <= self.study.rounds:
            raise Reason(f"round {r} is asked for, of a run of {self.study.rounds}")
        if asked and r < max(asked):
            raise Reason(f"round {r} is asked for after round {max(asked)}")
        if r not in asked and max(len(asked) + 1, r) > self.policy.max_rounds:
            raise Reason(f"max_rounds is {self.policy.max_rounds}", spent=True)

    def take_round(self, r: int, digest: str) -> None:
        """Refuse a round that was asked for already, about something else."""
        assert self.study is not None
        if self.study.asked.setdefault(r, digest) != digest:
            raise Reason(f"round {r} is asked for again, about something else")
