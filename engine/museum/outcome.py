"""What one way of an exhibit measured, and how a broken invariant is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Way = Literal["right", "wrong"]
WAYS: tuple[Way, Way] = ("right", "wrong")


@dataclass(frozen=True)
class ExhibitOutcome:
    """What was measured: numbers by the keys of the sign, the picture's values by x (rising), and the error that the
    code ended with, if it did.
    """

    numbers: Mapping[str, float]
    series: Mapping[int, float]
    error: str = ""


class Broken(AssertionError):
    """An invariant does not hold; the sentence names what was found and what must be."""


class Exhibit(Protocol):
    """The module of one exhibit."""

    @staticmethod
    def right(seed: int) -> ExhibitOutcome:
        """Do it as it should be done."""

    @staticmethod
    def wrong(seed: int) -> ExhibitOutcome:
        """Do it as it was published."""

    @staticmethod
    def invariant(outcome: ExhibitOutcome) -> None:
        """Raise Broken where the rule does not hold."""
