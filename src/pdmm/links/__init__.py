"""What is between the server and its clients: who takes part, what is lost, how many bits."""

from pdmm.links.availability import OnOff
from pdmm.links.losses import Bursts

__all__ = ["Bursts", "OnOff"]
