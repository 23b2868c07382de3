"""Arguments of scikit-learn that mean nothing here: refused by name, with what to do instead."""

from collections.abc import Iterable, Mapping
from typing import Any

NEWTON = "pdmm takes Newton's method over the clients, so leave it out"
SAME = "the fit starts afresh each time and needs few rounds, so leave it out"

# What to do instead. The names are those of scikit-learn's constructors, of any version.
REMEDIES: dict[str, str] = {
    "solver": NEWTON,
    "dual": NEWTON,
    "precompute": NEWTON,
    "selection": NEWTON,
    "random_state": "nothing is drawn at random, so leave it out",
    "warm_start": SAME,
    "n_jobs": "clients are spread over all cores, so leave it out",
    "verbose": "the history of the fit is in result_.history, so leave it out",
    "copy_X": "X is never written to, so leave it out",
    "positive": "pdmm.GLM with pdmm.Box(0, inf) has coefficients that are not negative",
    "intercept_scaling": "the intercept is never penalised, so leave it out",
    "multi_class": "three classes or more make a multinomial model, so leave it out",
    "normalize": "put a StandardScaler before it, in a pipeline",
    "penalty": (
        "l1_ratio=0 is 'l2', l1_ratio=1 is 'l1', a number between them 'elasticnet', and C=inf "
        "is None, as in scikit-learn from 1.8"
    ),
}


def refuse(estimator: type, others: Mapping[str, Any], taken: Iterable[str]) -> None:
    """Refuse arguments that a constructor does not take, the first of them by name.

    Example:
        >>> refuse(dict, {"solver": "saga"}, taken=["C"])
        Traceback (most recent call last):
            ...
        TypeError: pdmm's dict has no argument solver (got solver='saga'): pdmm takes Newton's \
method over the clients, so leave it out
    """
    for name, value in others.items():
        remedy = REMEDIES.get(name, f"it takes {', '.join(taken)}")
        raise TypeError(
            f"pdmm's {estimator.__name__} has no argument {name} (got {name}={value!r}): {remedy}"
        )
