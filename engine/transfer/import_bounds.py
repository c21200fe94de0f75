"""How much a file of runs may hold. Each bound is checked before anything of that size is built in memory."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.errors import ImportRefused
from engine.recorder import Point

MOST_SETTINGS = 1_000
"""Parameters, or tags, of one run."""
MOST_CONFIG_BYTES = 1 << 20
"""Of all parameters, or tags, of one run, their names included."""
MOST_METRICS = 2_000
"""Of one run."""
LONGEST_NAME = 200


@dataclass
class ImportBudget:
    """What one import may still bring, over all of its runs."""

    points: int = 5_000_000
    metrics: int = 100_000
    config_bytes: int = 64 << 20

    def take_config(self, where: str, sizes: Mapping[str, int], what: str = "parameters") -> None:
        """Raise ImportRefused where a run has too many parameters (bytes by name) or they are too long; `where` names
        the run in a sentence.
        """
        if len(sizes) > MOST_SETTINGS:
            raise ImportRefused(
                f"{where} has {len(sizes):,} {what}; at most {MOST_SETTINGS:,} can be imported with a run. "
                "Leave some out."
            )
        taken = sum(len(name) + size for name, size in sizes.items())
        if taken > MOST_CONFIG_BYTES:
            raise ImportRefused(
                f"The {what} of {where} have {taken:,} bytes; at most {MOST_CONFIG_BYTES:,} can be imported "
                "with a run. Leave the longest out."
            )
        if taken > self.config_bytes:
            raise ImportRefused(
                f"Its runs have more than {ImportBudget().config_bytes:,} bytes of parameters and tags. Import fewer "
                "runs at a time."
            )
        self.config_bytes -= taken


class Values:
    """The values of one run's metrics in the order in which they were recorded, 28 bytes each."""

    def __init__(self, where: str, room: ImportBudget) -> None:
        self._where, self._room = where, room
        self._names: dict[str, int] = {}
        self._which, self._at, self._steps, self._values = array("i"), array("d"), array("q"), array("d")

    def __len__(self) -> int:
        return len(self._which)

    def add(self, name: str, at: float, step: int, value: float) -> None:
        """Keep a value of a moment (s since 1970); raises ImportRefused where the file holds too many."""
        if len(self) >= self._room.points:
            raise ImportRefused(
                f"It holds more than {ImportBudget().points:,} values, {self._where} among them. "
                "Import fewer runs at a time."
            )
        which = self._names.setdefault(name[:LONGEST_NAME], len(self._names))
        if which >= MOST_METRICS:
            raise ImportRefused(
                f"{self._where} has more than {MOST_METRICS:,} metrics, which is more than a run here can have."
            )
        if which >= self._room.metrics:
            raise ImportRefused(
                f"Its runs have more than {ImportBudget().metrics:,} metrics. Import fewer runs at a time."
            )
        self._which.append(which)
        self._at.append(at)
        self._steps.append(step)
        self._values.append(value)

    def done(self) -> None:
        """Take the room that the values need from what the other runs of the file may have."""
        self._room.points -= len(self)
        self._room.metrics -= len(self._names)

    @property
    def moments(self) -> Iterable[float]:
        """When the values were recorded (s since 1970)."""
        return self._at

    def points(self, begin: float) -> Iterator[Point]:
        """Yield the values as points whose time counts from `begin`."""
        names = list(self._names)
        for which, at, step, value in zip(self._which, self._at, self._steps, self._values, strict=True):
            yield Point(names[which], step, value, max(0.0, at - begin))
