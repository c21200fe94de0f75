"""What became of one attempt to send a notice. Its sentence never holds an address, a password or what a receiver wrote
at length.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeliveryOutcome:
    """How an attempt ended; without a sentence the receiver has the message."""

    error: str = ""
    refused: bool = False
    """Whether the receiver wants no such message, however often it is sent."""
    wait_s: float = 0.0
    """How long the receiver asked to be left alone."""

    @property
    def delivered(self) -> bool:
        return not self.error


DELIVERED = DeliveryOutcome()
