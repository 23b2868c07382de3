"""A site's policy: which studies it takes part in, and how much may leave it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from pdmm.common.checks import one_of, whole

PROBLEMS = ("GLM", "LeastSquares", "SoftmaxRegression")  # those that know their rows
# Huber's loss has a kink at each row: three gradients beside one tell the row, wherever it is.
FAMILIES = ("gaussian", "binomial", "poisson", "gamma", "multinomial", "cox")
WHOLE = (
    *("min_rows", "min_rows_per_level", "min_rows_per_cell", "max_rounds", "max_refusals_per_day"),
    *("max_local_steps", "runs_per_day", "min_organisations", "max_set_changes"),
    *("stated_rows", "stated_columns"),
)
NUMBERS = (
    *("max_parameters_per_row", "max_eta", "min_effective_rows", "max_loss_ratio"),
    *("min_curvature", "max_row_share"),
    "max_numbers_out_share",
    "evaluation_share",
    *("seconds_per_answer", "max_weight_ratio", "max_weight_share"),
)
REGULARISERS = ("L1", "SquaredL2", "ElasticNet")  # whose proximal step leaves 0 where it is
LISTS = (
    *("methods", "families", "problems", "columns", "partners", "regularisers", "studies"),
    "describes",
)
DESCRIBES = ("columns", "levels", "rows", "missing")  # what a site can say of its table
FLAGS = ("per_site_results", "require_verified")


@dataclass(frozen=True)
class Policy:
    """What a site allows, whatever the server or a researcher asks for.

    Each limit has a reason in docs/security.md. A list that is None allows everything.

    Example:
        >>> import pdmm
        >>> pdmm.engines.Policy(min_rows=200).min_rows
        200
    """

    min_rows: int = 50
    """Rows that each client of the site has at least, and each mini-batch."""
    max_parameters_per_row: float = 0.33
    """Entries of x for each row."""
    min_rows_per_level: int = 10
    """Rows in which each value of a discrete column stands, at least."""
    min_rows_per_cell: int = 5
    """Rows in each combination of the values of all discrete columns that occurs, at least."""
    max_eta: float = 150.0
    """The largest linear predictor of a row at a point at which the site answers."""
    min_effective_rows: float = 10.0
    """Rows that an answer is about, at least: (sum of curvatures)² / (sum of their squares)."""
    max_loss_ratio: float = 4.0
    """The largest mean loss of a client's rows at a point, over that at x = 0."""
    min_curvature: float = 1.0
    """What the rows' curvatures add up to, at least: each at most 1/4 in a logistic model."""
    max_row_share: float = 0.99
    """The largest share of one row in a combination of what a formula makes of the table."""
    max_rounds: int = 100
    """Rounds of one run."""
    max_numbers_out_share: float = 0.5
    """Numbers that may leave, over rows times columns, in all runs on the table together."""
    max_refusals_per_day: int = 3
    """After so many, the site answers nothing until the next day."""
    max_local_steps: int = 1000
    """Gradient steps of one round."""
    seconds_per_answer: float = 600.0
    """An answer that took longer is withheld, and the run ends."""
    runs_per_day: int = 20
    """Runs that may begin."""
    max_weight_ratio: float = 1000.0
    """The largest weight over the smallest, of the site's own clients."""
    max_weight_share: float = 0.9
    """The weight of the site's clients, over that of all clients of a run."""
    methods: tuple[str, ...] | None = None
    """Names of methods, such as "AGPDMM"."""
    regularisers: tuple[str, ...] | None = REGULARISERS
    """Regularisers; a Box can put x wherever it wants."""
    families: tuple[str, ...] | None = FAMILIES
    """Families of a GLM, such as "binomial"."""
    problems: tuple[str, ...] | None = PROBLEMS
    """Classes of problems."""
    columns: tuple[str, ...] | None = None
    """Names of the columns that a study may use."""
    x0: Literal["zero", "any"] = "zero"
    """Where a run may begin; "zero" is 0, or the start that the site's own problem has."""
    min_organisations: int = 3
    """Organisations that take part in a run, this one among them."""
    partners: tuple[str, ...] | None = None
    """SHA-256 fingerprints of the certificates of the sites that may take part."""
    secure_sums: Literal["auto", "always", "optional"] = "auto"
    """Whether the site's parts of sums must be hidden: "auto" is in each run of three or more
    organisations that have certificates, "always" in all runs; "optional" is as the run says."""
    hessians: Literal["never", "secure", "allowed"] = "secure"
    """Whether Hessians may leave; "secure" is inside secure sums alone."""
    per_site_results: bool = False
    """Whether a result may say anything of this site alone."""
    require_verified: bool = False
    """Whether the site only takes part where the sites compute x themselves."""
    max_set_changes: int = 10
    """How often a run whose sites compute x may change the set of those that take part."""
    studies: tuple[str, ...] | None = None
    """Names of the studies that the site has consented to; None is all."""
    describes: tuple[str, ...] | None = None
    """What `describe` may say of the table: "columns", "levels", "rows", "missing"."""
    rare_levels: Literal["refuse", "merge"] = "refuse"
    """What becomes of a category's levels that stand in fewer than ``min_rows_per_level`` rows."""
    evaluation_share: float = 0.0
    """The share of rows that no fit sees, and on which models are evaluated."""
    stated_rows: int = 0
    """Rows behind a problem that does not know them, such as Functions: your word for it."""
    stated_columns: int = 0
    """Columns behind such a problem."""

    def __post_init__(self) -> None:
        for name in WHOLE:
            whole(name, getattr(self, name), at_least=0)
        for name in NUMBERS:
            object.__setattr__(self, name, _limit(name, getattr(self, name)))
        for name in LISTS:
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        one_of("x0", self.x0, ("zero", "any"))
        one_of("secure_sums", self.secure_sums, ("auto", "always", "optional"))
        one_of("rare_levels", self.rare_levels, ("refuse", "merge"))
        if self.evaluation_share > 1:
            raise ValueError(f"evaluation_share must be at most 1, got {self.evaluation_share:g}")
        for word in self.describes or ():
            one_of("describes", word, DESCRIBES)
        one_of("hessians", self.hessians, ("never", "secure", "allowed"))

    @classmethod
    def open(cls) -> Self:
        """Everything is allowed: for simulations and for data that are no secret."""
        infinite = float("inf")
        most = 10**15
        return cls(
            min_rows=0,
            max_parameters_per_row=infinite,
            min_rows_per_level=0,
            min_rows_per_cell=0,
            max_eta=infinite,
            min_effective_rows=0.0,
            max_loss_ratio=infinite,
            min_curvature=0.0,
            max_row_share=infinite,
            max_rounds=most,
            max_numbers_out_share=infinite,
            max_refusals_per_day=most,
            max_local_steps=most,
            seconds_per_answer=infinite,
            runs_per_day=most,
            max_weight_ratio=infinite,
            max_weight_share=infinite,
            problems=None,
            regularisers=None,
            families=None,
            x0="any",
            min_organisations=0,
            secure_sums="optional",
            hessians="allowed",
            per_site_results=True,
            max_set_changes=most,
        )

    @classmethod
    def given(cls, policy: Any) -> "Policy":
        """The policy that was given: an object, a file, a dict of keys, or None for the default."""
        if policy is None:
            return cls()
        if isinstance(policy, Policy):
            return policy
        if isinstance(policy, Mapping):
            return cls.of_keys(policy)
        return cls.read(Path(policy))

    @classmethod
    def of_keys(cls, keys: Mapping[str, Any]) -> "Policy":
        """The default policy with some keys of one's own."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(keys) - set(known))
        if unknown:
            raise ValueError(
                f"policy: unknown key {', '.join(unknown)}; the keys are {', '.join(known)}"
            )
        return replace(cls(), **{name: _value(name, value) for name, value in keys.items()})

    @classmethod
    def read(cls, path: Path) -> "Policy":
        """The policy of a TOML file; what it does not name is as in the default policy."""
        try:
            keys = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"policy: {path} cannot be read as TOML: {error}") from error
        try:
            return cls.of_keys(keys)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _value(name: str, value: Any) -> Any:
    """A value of a file, where a list may be "all"."""
    if name in LISTS:
        return None if value == "all" else value
    return value


def _limit(name: str, value: Any) -> float:
    """A number of zero or more; infinite where there is no limit."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not value >= 0:
        raise ValueError(f"{name} must be a number of zero or more, got {value!r}")
    return float(value)


def _names(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    listed = isinstance(value, list | tuple)
    if not listed or not all(isinstance(word, str) for word in value):
        raise ValueError(f'{name} must be a list of names, or "all", got {value!r}')
    return tuple(value)
