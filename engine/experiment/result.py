"""The number that ranks an experiment's runs. Imported by the store, hence without pydantic."""

from dataclasses import dataclass
from typing import Literal

from engine.metrics import is_rate

Of = Literal["last", "mean"]
STATISTICS: dict[Of, str] = {"last": "last", "mean": "mean over the run"}


@dataclass(frozen=True)
class Result:
    """The number that ranks the runs of one task; engine.metrics says whether higher or lower is better."""

    metric: str = "test/accuracy"
    of: Of = "last"
    """Which value to use: the last one (never the best during training, which would be selected on the test set), or
    the mean.
    """
    task: tuple[str, ...] = ("dataset",)
    """Settings that define the task: numbers of different tasks can't be ranked together."""
    own_tasks: tuple[tuple[str, str], ...] = ()
    """Settings and values that make a separate task, regardless of `task`."""
    nothing_to_learn: tuple[str, ...] = ("synthetic",)
    """Tasks that exist for timing only."""

    older: "Result | None" = None
    """The number of runs of earlier versions, which lack `metric`."""

    @property
    def statistic(self) -> str:
        """The statistic, in words; empty for a throughput, of which a run has one."""
        return "" if is_rate(self.metric) else STATISTICS[self.of]


ACCURACY = Result()
"""The result of most experiments: the last test accuracy."""
