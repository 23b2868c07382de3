"""Where each parameter of a model stands in a vector, and a model with the numbers of one."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Layout:
    """The trainable parameters of a model, one after the other in a vector.

    Parameters that are tied are one parameter; those that need no gradient stay as they are.

    Args:
        model: whose parameters they are.
    """

    def __init__(self, model: nn.Module) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not named:
            raise ValueError(
                "model has no parameter that needs a gradient: there is nothing to train"
            )
        for name, parameter in model.named_parameters():
            _check_parameter(name, parameter)
        self.names = list(named)
        self.shapes = [p.shape for p in named.values()]
        self.sizes = [p.numel() for p in named.values()]
        self.dimension = sum(self.sizes)

    def described(self) -> list[list[Any]]:
        """The name and the shape of each."""
        return [[name, list(s)] for name, s in zip(self.names, self.shapes, strict=True)]

    def views(self, flat: Tensor) -> list[Tensor]:
        """Each parameter's part of vectors (..., d): the same numbers, in its own shape."""
        parts = torch.split(flat, self.sizes, dim=-1)
        lead = flat.shape[:-1]
        return [part.view(*lead, *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def of(self, model: nn.Module) -> list[nn.Parameter]:
        """These parameters of a copy of the model."""
        named = dict(model.named_parameters())
        return [named[name] for name in self.names]

    def vector(self, model: nn.Module) -> Tensor:
        """All their numbers in a new vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.of(model)])

    def copied(self, model: nn.Module, flat: Tensor) -> nn.Module:
        """A copy of the model that has the numbers of a vector, and an own memory for them."""
        made = copy.deepcopy(model)
        with torch.no_grad():
            for parameter, part in zip(self.of(made), self.views(flat), strict=True):
                parameter.copy_(part)
        return made


def share(parameters: Sequence[nn.Parameter], views: Sequence[Tensor]) -> None:
    """Let parameters be parts of a vector: they change with it, and nothing is copied."""
    for parameter, view in zip(parameters, views, strict=True):
        parameter.data = view


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    if parameter.dtype != torch.float32:
        raise ValueError(
            f"model: the parameter {name!r} is {parameter.dtype}, and must be torch.float32: "
            "take model.float()"
        )
    if not bool(torch.isfinite(parameter).all()):
        raise ValueError(f"model: the parameter {name!r} has a NaN or an infinity in it")


def check_statistics(model: nn.Module) -> None:
    """Refuse modules that gather statistics of all batches that they see, as BatchNorm does.

    They would be another client's as well, and no method knows what to do with them.
    """
    for name, module in model.named_modules():
        gathers = getattr(module, "track_running_stats", False) and module.training
        if gathers and getattr(module, "running_mean", None) is not None:
            raise ValueError(
                f"model: the module {name!r}, a {type(module).__name__}, gathers running "
                "statistics of its batches, which no method can average. Take nn.GroupNorm or "
                "nn.LayerNorm instead, or track_running_stats=False, or freeze it by eval()"
            )


def check_buffers(model: nn.Module, before: dict[str, Tensor]) -> None:
    """Refuse a model that changes its buffers when it is called: they are no part of x.

    Args:
        model: after a call.
        before: copies of its buffers, from before.
    """
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise ValueError(
                f"model: the buffer {name!r} changes when the model is called. Such a state is no "
                "part of x, and no method can average it: make do without, or freeze it by eval()"
            )
