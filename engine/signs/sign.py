"""What stands beside an exhibit: which fault it is, of which system, what to look at, and which rule of
ours it breaks.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """One number that both ways of an exhibit measure."""

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Sign:
    """One exhibit in words; every sentence is shown as it stands."""

    name: str
    title: str
    system: str
    """The experiment whose source has the fault."""
    source: str
    """Where the code was published."""
    wrong: str
    """What the published code does."""
    right: str
    """What is right, and what ours does."""
    seen: str
    """What one sees in the picture."""
    x: str
    y: str
    """Titles of the picture's axes."""
    numbers: tuple[Number, ...]
    """The first one is the exhibit in short."""
    guard: str
    """The test that holds our own code to the same rule: its file, `::`, its name."""
    listens: bool = False
    """Whether it opens network listeners."""

    @property
    def module(self) -> str:
        """The module that runs both ways."""
        return f"engine.museum.exhibits.{self.name}"

    @property
    def metric(self) -> str:
        """The metric that its picture is recorded as."""
        return f"museum/{self.name}"

    def metric_of(self, number: Number) -> str:
        """Return the metric that one of its numbers is recorded as."""
        return f"{self.metric}.{number.key}"
