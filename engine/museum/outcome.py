"""The measurements of one version of an exhibit, and the error of a broken invariant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Way = Literal["right", "wrong"]
WAYS: tuple[Way, Way] = ("right", "wrong")


@dataclass(frozen=True)
class ExhibitOutcome:
    """Values by the sign's keys, the chart's values by x (ascending), and the error that the code raised, if any."""

    numbers: Mapping[str, float]
    series: Mapping[int, float]
    error: str = ""


class Broken(AssertionError):
    """An invariant does not hold; the message has the value found and the rule."""


class Exhibit(Protocol):
    """The module of one exhibit."""

    @staticmethod
    def right(seed: int) -> ExhibitOutcome:
        """Run the corrected code."""

    @staticmethod
    def wrong(seed: int) -> ExhibitOutcome:
        """Run the published code."""

    @staticmethod
    def invariant(outcome: ExhibitOutcome) -> None:
        """Raise Broken where the rule does not hold."""
