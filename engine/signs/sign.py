"""Description of an exhibit: its fault, the system, what the chart shows, and the engine test of the same rule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """One value that both versions of an exhibit measure."""

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Sign:
    """The texts of one exhibit, shown verbatim."""

    name: str
    title: str
    system: str
    """The experiment whose source has the fault."""
    source: str
    """Where the code was published."""
    wrong: str
    """Behaviour of the published code."""
    right: str
    """The correct version, and the engine's."""
    seen: str
    """What the chart shows."""
    x: str
    y: str
    """Titles of the chart's axes."""
    numbers: tuple[Number, ...]
    """The first one summarises the exhibit."""
    guard: str
    """The engine test of the same rule: file, `::`, name."""
    listens: bool = False
    """Whether it opens network listeners."""

    @property
    def module(self) -> str:
        """The module that runs both versions."""
        return f"engine.museum.exhibits.{self.name}"

    @property
    def metric(self) -> str:
        """The metric of its chart."""
        return f"museum/{self.name}"

    def metric_of(self, number: Number) -> str:
        """Return the metric of one of its values."""
        return f"{self.metric}.{number.key}"
