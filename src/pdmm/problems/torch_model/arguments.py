"""What users give besides data: checked at the edge, once."""

from typing import Any

from torch import Tensor, nn

from pdmm.common.checks import ClientError, one_of, whole
from pdmm.problems.torch_model.batches import SAMPLINGS


def check_callable(model: Any, loss: Any, evaluate: Any) -> None:
    """Refuse a model, a loss or an evaluation that is none."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(loss, type) or not callable(loss):
        raise ValueError(
            "loss must be callable as loss(output, target), e.g. torch.nn.CrossEntropyLoss(), "
            f"got {loss!r}"
        )
    if evaluate is not None and not callable(evaluate):
        raise ValueError(f"evaluate must be callable as evaluate(model), got {evaluate!r}")


def read_batch_size(given: Any) -> int | None:
    """How many samples a batch has; None for all."""
    if given is None or given == "full":
        return None
    return whole("batch_size", given, at_least=1)


def read_sampling(given: Any) -> Any:
    """How samples are drawn."""
    one_of("sampling", given, SAMPLINGS)
    return given


def numbers(found: Any) -> dict[str, float]:
    """What the user's ``evaluate`` returned."""
    try:
        return {str(name): float(value) for name, value in dict(found).items()}
    except (TypeError, ValueError):
        raise ClientError(
            f"evaluate must return a dict of numbers, such as {{'accuracy': 0.9}}, got {found!r}"
        ) from None


def check_rows(X: Any, y: Any) -> None:
    """Refuse rows whose accuracy nobody could tell."""
    if not isinstance(X, Tensor) or not isinstance(y, Tensor):
        raise ValueError("X and y must be tensors")
    if len(X) != len(y) or len(X) == 0:
        raise ValueError(f"X has {len(X)} rows and y has {len(y)}: each row needs its class")
