"""Limits on the contents of an import. Each is checked before anything of that size is built in memory."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from engine.errors import ImportRefused
from engine.metrics import IMPORTED, METRICS
from engine.recorder import Point

MOST_SETTINGS = 1_000
"""Maximum parameters, or tags, per run."""
MOST_CONFIG_BYTES = 1 << 20
"""Maximum total size of the parameters, or tags, of one run, including names."""
MOST_METRICS = 2_000
"""Per run."""
LONGEST_NAME, LONGEST_METRIC, LONGEST_TAG = 200, 500, 20_000


@dataclass
class ImportBudget:
    """What remains of one import's limits, over all its runs."""

    points: int = 5_000_000
    metrics: int = 100_000
    config_bytes: int = 64 << 20

    def take_config(
        self, where: str, sizes: Mapping[str, int], what: str = "parameters"
    ) -> tuple[list[str], list[str]]:
        """Return the names of the parameters (bytes by name) that fit a run, in their order, with a note on those that
        are left out; `where` names the run. Raises ImportRefused if all runs together have too many bytes.
        """
        kept, taken = list[str](), 0
        for name, size in sizes.items():
            if len(kept) < MOST_SETTINGS and taken + len(name) + size <= MOST_CONFIG_BYTES:
                kept.append(name)
                taken += len(name) + size
        if taken > self.config_bytes:
            raise ImportRefused(
                f"The runs have more than {ImportBudget().config_bytes:,} bytes of parameters and tags. Import fewer "
                "runs at a time."
            )
        self.config_bytes -= taken
        over = len(sizes) - len(kept)
        note = (
            f"{where} has {len(sizes):,} {what}: {over:,} {'was' if over == 1 else 'were'} left out; at most "
            f"{MOST_SETTINGS:,} with {MOST_CONFIG_BYTES:,} bytes can be imported with a run."
        )
        return kept, [note] if over else []


def shortened(name: str, most: int) -> str:
    """Return a name of at most `most` characters; of a longer one its beginning and a checksum, so that two names that
    begin alike stay two.
    """
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}…{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


class Values:
    """The values of one run's metrics in recording order, 28 bytes each."""

    def __init__(self, where: str, room: ImportBudget) -> None:
        self._where, self._room = where, room
        self.notes: list[str] = []
        """Notes on what is not as it was recorded."""
        self._names: dict[str, int] = {}
        self._which, self._at, self._steps, self._values = array("i"), array("d"), array("q"), array("d")

    def __len__(self) -> int:
        return len(self._which)

    def add(self, name: str, at: float, step: int, value: float) -> None:
        """Add a value with its time (s since 1970); raises ImportRefused for too many values."""
        if len(self) >= self._room.points:
            raise ImportRefused(
                f"The file has more than {ImportBudget().points:,} values, including {self._where}. "
                "Import fewer runs at a time."
            )
        short = shortened(name, LONGEST_METRIC)
        if short != name and short not in self._names:
            self.notes.append(
                f"A metric of {self._where} has a name of {len(name):,} characters: shortened to {LONGEST_METRIC}, "
                f"ending in '{short[-30:]}'."
            )
        which = self._names.setdefault(short, len(self._names))
        if which >= MOST_METRICS:
            raise ImportRefused(f"{self._where} has more metrics than the maximum of {MOST_METRICS:,} per run.")
        if which >= self._room.metrics:
            raise ImportRefused(
                f"The runs have more than {ImportBudget().metrics:,} metrics. Import fewer runs at a time."
            )
        self._which.append(which)
        self._at.append(at)
        self._steps.append(step)
        self._values.append(value)

    def done(self) -> None:
        """Subtract the values from the limits for the other runs of the file."""
        self._room.points -= len(self)
        self._room.metrics -= len(self._names)

    @property
    def names(self) -> Collection[str]:
        """Names of the metrics."""
        return self._names.keys()

    @property
    def is_single(self) -> bool:
        """Whether each metric has one value."""
        return len(self) == len(self._names)

    @property
    def moments(self) -> Iterable[float]:
        """Recording times of the values (s since 1970)."""
        return self._at

    def points(self, begin: float) -> Iterator[Point]:
        """Yield the values as points with times relative to `begin`."""
        names = list(self._names)
        for which, at, step, value in zip(self._which, self._at, self._steps, self._values, strict=True):
            yield Point(names[which], step, value, max(0.0, at - begin))

    def extremes(self, name: str) -> tuple[float, float] | None:
        """Return the least and the greatest finite value of a metric; None without any."""
        if name not in self._names or not len(self):
            return None
        import numpy as np  # a tenth of a second, which those who need only the limits don't spend

        values = np.frombuffer(self._values)[np.frombuffer(self._which, np.int32) == self._names[name]]
        values = values[np.isfinite(values)]
        return (float(values.min()), float(values.max())) if values.size else None

    def rename(self, old: str, new: str) -> None:
        """Give a metric another name."""
        self._names = {new if name == old else name: which for name, which in self._names.items()}


def fit_units(runs: Sequence[Values]) -> list[str]:
    """Name each metric of a run that has the name of one of ours but not its unit, by its values, so that it has none
    (`engine.metrics.IMPORTED`); return a note on each.

    Percentages are from 0 to 100, and one of them is above 1: others may be shares.
    """
    notes = []
    for name, ours in METRICS.items():
        unlike: list[tuple[float, float]] = []
        for values in runs:
            if not ours.unit or not (ends := values.extremes(name)):
                continue
            low, high = ours.bounds
            if low <= ends[0] and ends[1] <= high and (ours.unit != "%" or ends[1] > 1):
                continue
            values.rename(name, f"{IMPORTED}{name}")
            unlike.append(ends)
        if unlike:
            least, greatest = min(low for low, _ in unlike), max(high for _, high in unlike)
            of = "" if len(unlike) == len(runs) else f" in {len(unlike):,} of {len(runs):,} runs"
            notes.append(
                f"{name} has values from {least:.6g} to {greatest:.6g}{of}, so its unit may not be ours ({ours.unit}): "
                f"it was imported as {IMPORTED}{name}, without a unit."
            )
    return notes
