"""Generalised linear models, and Cox's model of survival times."""

from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.problem import GLM

__all__ = ["GLM", "Huber"]
