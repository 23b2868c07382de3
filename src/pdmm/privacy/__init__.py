"""What leaves a site: its policy, what is counted, and who takes part."""

from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Refused, Spent

__all__ = ["Policy", "Refused", "Spent"]
