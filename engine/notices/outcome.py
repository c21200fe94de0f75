"""Outcome of one delivery attempt. Its message never contains an address, a password or a receiver's full reply."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeliveryOutcome:
    """Outcome of an attempt; no error means delivered."""

    error: str = ""
    refused: bool = False
    """Whether the refusal is permanent."""
    wait_s: float = 0.0
    """Wait requested by the receiver."""

    @property
    def delivered(self) -> bool:
        return not self.error


DELIVERED = DeliveryOutcome()
