"""Cross-validation over sites: the sums that a path of penalties asks for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pdmm.common.variables import Scaled
from pdmm.study.questions import Payload
from pdmm.tables.cross_validation import Folded
from pdmm.tables.fold_sums import SCALED, Answer, Constants, coordinates
from pdmm.tables.folds import BY_CLIENT, Folds, judged_held
from pdmm.tables.gram_sums import Gram, GramSums
from pdmm.tables.silos import Options

if TYPE_CHECKING:
    from pdmm.study.asked_model import AskedModel

Vector = npt.NDArray[np.float64]


def asked_folds(model: "AskedModel", options: Options) -> Folded:
    """Have each site draw its folds, and ask for what they hold out."""
    sites = model.sites
    names = tuple(sites.names)
    by_client = options.folds == BY_CLIENT
    if by_client and not sites.per_site:
        raise ValueError(
            "folds='client' leaves out one site at a time, which tells what that site alone says, "
            "and per_site_results is false in the policy of some site: give a number of folds"
        )
    count = len(names) if by_client else int(options.folds)
    split = Folds(np.empty(0, dtype=np.int64), count, names if by_client else ())
    drawn = {
        "folds": options.folds,
        "count": count,
        "seed": options.seed,
        "place": {name: k for k, name in enumerate(names)},
    }
    occurrences = occurrence_names(model, options)
    shapes = {"weights": (count,), "columns": (len(occurrences), count), "rows": ()}
    found = sites.sums("fold_weights", drawn, **shapes)
    weights, columns = _whole(found["weights"]), _whole(found["columns"])
    held = judged_held(occurrences, weights, columns, options.name, split)
    sums: Any = _grams(model, split) if options.name == "gaussian" else AskedSums(model, split)
    wide = float(found["rows"]) > model.dimension
    return Folded(sums, held, split, wide, lambda done: _tell(model, done, options.penalties))


def _tell(model: "AskedModel", done: int, penalties: int) -> None:
    model.sites.phase(f"cross-validation: {done} of {penalties} penalties done")


def _whole(values: Vector) -> Vector:
    """Counts that rounding has moved are whole again, and an empty one is 0."""
    near = np.rint(values)
    return np.where(np.abs(values - near) <= 1e-6, near, values)


def occurrence_names(model: "AskedModel", options: Options) -> list[str]:
    """What must be there in every training set; sites count it in the same order."""
    classes = model.encoding.classes
    if options.name == "cox":
        return ["an event"]
    if options.name == "poisson":
        return ["an outcome above 0"]
    if options.name == "binomial":
        return ["the outcome 0", "the outcome 1"]
    if options.name != "multinomial":
        return []
    kept = model.layout.classes
    others = [label for label in classes or () if label not in kept]
    return [f"the class {label}" for label in (*kept, *others)]


def _grams(model: "AskedModel", split: Folds) -> GramSums:
    """Least squares: one matrix for each fold is all that is asked."""
    d, K = model.dimension, max(1, split.count)
    mean, middle = np.zeros(d), 0.0
    if model.layout.intercept:
        mean = model.means()
        found = model.sites.sums("fold_grams", {}, outcome=(), weight=())
        middle = float(found["outcome"]) / float(found["weight"])
    found = model.sites.sums(
        "fold_grams",
        {"mean": mean, "middle": middle},
        matrix=(K, d, d),
        products=(K, d),
        squares=(K,),
        weight=(K,),
    )
    held = [
        Gram(
            found["matrix"][k],
            found["products"][k],
            float(found["squares"][k]),
            float(found["weight"][k]),
        )
        for k in range(K)
    ]
    return GramSums.of_sums(model, split, mean, middle, held)


class AskedSums:
    """Sums of any family, one exchange for each question."""

    def __init__(self, model: "AskedModel", split: Folds) -> None:
        self.sites = model.sites
        self.dimension = model.dimension
        self.fits = split.count + 1
        self.rounds = 2  # means, and squares about them
        mean = model.means()
        family = model.options.name
        self.variables: Scaled = coordinates(model, family, mean, model.spreads_about(mean))
        told = {"variables": vars(self.variables)}
        K = split.count
        shapes = {"saturated": (), "held": (K,), "weight": (), "held_weights": (K,)}
        found = self.sites.sums("fold_constants", told, **shapes)
        self.constants = Constants(
            float(found["saturated"]), found["held"], float(found["weight"]), found["held_weights"]
        )
        self._scaled = family in SCALED

    def start(self) -> dict[int, Answer]:
        return self._asked("fold_start", {}, list(range(self.fits)))

    def ask(self, points: Mapping[int, Vector]) -> dict[int, Answer]:
        told = {"points": {str(k): y for k, y in points.items()}}
        return self._asked("fold_ask", told, sorted(points))

    def _asked(self, verb: str, payload: Payload, fits: list[int]) -> dict[int, Answer]:
        self.rounds += 1
        n, d = len(fits), self.dimension
        shapes = {"value": (n,), "gradient": (n, d), "hessian": (n, d, d), "held": (n,)}
        found = self.sites.sums(verb, payload, **shapes)
        return {
            k: Answer(
                float(found["value"][i]),
                found["gradient"][i],
                found["hessian"][i],
                float(found["held"][i]),
            )
            for i, k in enumerate(fits)
        }

    def scale(self, fit: int, answer: Answer) -> float:
        return self.constants.scale(fit, answer) if self._scaled else 1.0
