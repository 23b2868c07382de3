"""Models of PyTorch: a network's mean loss on each client's data, for every method."""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("pdmm.TorchProblem needs PyTorch: pip install 'pdmm[torch]'") from None

from pdmm.problems.torch_model.problem import TorchProblem

__all__ = ["TorchProblem"]
