"""The result of a run: the value by which its experiment ranks runs, with its statistic. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.experiment.result import Result
from engine.metrics import metric
from engine.registry import known_experiment
from engine.store.records import RunRow


@dataclass(frozen=True)
class Ranked:
    """A run's result."""

    result: Result
    value: float

    @property
    def words(self) -> str:
        """Metric, value and statistic, such as `test accuracy 96.98 % (last)`."""
        return f"{metric(self.result.metric).label.lower()} {self.short} ({self.result.statistic})"

    @property
    def short(self) -> str:
        """Value and unit, such as `96.98 %`."""
        unit = metric(self.result.metric).unit
        value = f"{self.value:,.0f}" if abs(self.value) >= 1_000 else f"{self.value:{'.2f' if unit == '%' else '.4g'}}"
        return " ".join(filter(None, (value, unit)))

    @property
    def plain(self) -> Mapping[str, Any]:
        """The result as plain text for programs."""
        return {"metric": self.result.metric, "statistic": self.result.of, "value": self.value}


def ranked(run: RunRow) -> Ranked | None:
    """Return a run's result; None if it has none, or its experiment is unknown."""
    known = known_experiment(run.experiment)
    if known is None:
        return None
    result = known.result
    value = (run.mean if result.of == "mean" else run.last).get(result.metric)
    return None if value is None else Ranked(result, value)
