"""What counts as the result of an experiment's run: one number, how it is taken, and the task that it is a result on.
Torch-free.
"""

from dataclasses import dataclass
from typing import Literal

Of = Literal["last", "mean"]
STATISTICS: dict[Of, str] = {"last": "last", "mean": "mean over the run"}


@dataclass(frozen=True)
class Result:
    """The number by which runs of one task are ranked; engine.metrics knows whether more or less is better."""

    metric: str = "test/accuracy"
    of: Of = "last"
    """Which of its values: the last one (never the best on the way, which would be chosen by the test set), or the mean
    of all.
    """
    task: tuple[str, ...] = ("dataset",)
    """Settings that say what was worked on: numbers of different tasks can't be ranked together."""
    own_tasks: tuple[tuple[str, str], ...] = ()
    """Settings with a value that makes a task of its own, whatever those of `task` say."""
    nothing_to_learn: tuple[str, ...] = ("synthetic",)
    """Tasks that are there for timing alone."""

    @property
    def statistic(self) -> str:
        """Which of its values, in words."""
        return STATISTICS[self.of]


ACCURACY = Result()
"""That of most experiments: the last accuracy on the data set's tests."""
