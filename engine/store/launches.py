"""What can be launched: a run or a sweep, as one record from form, command line and API to the queue."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError, Problem
from engine.launch_options import USUAL, LaunchOptions
from engine.store.records import Demand, Run

if TYPE_CHECKING:
    from engine.script.command import Command

UNPLACED = Demand(0, 0, 0, 0)
"""The demand of a launch before `engine.launch` asks the machine that it is for."""


@dataclass(frozen=True)
class Launch:
    """A run to launch. A person gives the first fields; `engine.launch` checks them and finds the demand."""

    experiment: str
    config: Mapping[str, Any]
    """Its settings as JSON; what the runs of a sweep share of them."""
    owner: str = ""
    preset: str | None = None
    """The preset that it began as; stored if its settings are still those of the preset."""
    name: str = ""
    terms: LaunchOptions = USUAL
    parent_id: int | None = None
    """The run that it resumes, or without `resumes` repeats from the start."""
    resumes: bool = True
    demand: Demand = UNPLACED
    sweep_id: int | None = None
    attempt: int = 0
    """Number of lost runs before it in its chain that the runner retried."""
    data_folder: str | None = None
    """Data set folder; None for that of this process's environment, otherwise its parent's."""
    command: "Command | None" = None
    """The command to run, with the config as the values of its fields; None for an experiment of Parallab."""
    cloned_from: int | None = None
    """The run whose settings it began with."""
    attempt_id: int | None = None
    """The attempt at an exercise that it is launched for."""

    @property
    def script_key(self) -> str:
        """What identifies its script (`Command.identity`); empty without a command."""
        return self.command.identity(self.experiment) if self.command else ""

    @classmethod
    def again(cls, run: Run, owner: str, *, resumes: bool = False) -> "Launch":
        """Return the launch of a run that continues another one if it `resumes`, otherwise repeats it."""
        same = (run.preset, run.name, run.terms, run.id, resumes, run.demand, run.sweep_id)
        return cls(run.experiment, run.config, owner, *same, command=run.command)


@dataclass(frozen=True)
class Draw:
    """A random draw: number of combinations, seed, and a range or a list as text for each field."""

    count: int
    seed: int
    over: Mapping[str, str]


FEWEST_TIMED = 6
"""Number of runs from which a median has a 95 % interval."""


@dataclass(frozen=True)
class Timing:
    """When a sweep for timing stops repeating a combination of values."""

    within: float = 0.05
    """The 95 % interval of the median time must lie within this share of the median on both sides."""
    most: int = 12
    """Maximum number of runs per combination."""

    def checked(self, *, fewest: int = 1) -> "Timing":
        """Return it if it is valid for `fewest` runs per combination; raises ConfigError."""
        problems = []
        if not 0 < self.within < 1:
            problems.append(
                Problem("within", f"within must be above 0 and below 100 %, got {100 * self.within:g} %. Usual is 5 %.")
            )
        if self.most < fewest:
            problems.append(Problem("most", f"{_most_runs(self.most)} per combination, but at least {fewest}."))
        if self.most < FEWEST_TIMED:
            problems.append(
                Problem(
                    "most",
                    f"{_most_runs(self.most)} per combination can't give an interval of the median: allow at least "
                    f"{FEWEST_TIMED}. For times without an interval, choose Learning with exclusive runs.",
                )
            )
        if problems:
            raise ConfigError(problems)
        return self


def _most_runs(count: int) -> str:
    return f"At most {count} {'run' if count == 1 else 'runs'}"


@dataclass(frozen=True)
class SweepLaunch:
    """A sweep to launch: what its runs share, and the values of the settings that vary."""

    shared: Launch
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of each varied field; empty for a draw. The store gets them with the seeds, last."""
    seeds: int = 1
    draw: Draw | None = None
    exclusive: bool = False
    stop_after: int | None = None
    """Number of failed cells after which the queued runs are cancelled."""
    figure: str = ""
    """Published figure that it reproduces, with its size, such as `hogwild/full`."""
    timing: Timing | None = None
    """The sweep is then exclusive, begins with a warm-up run, and is repeated until its median times are known."""
    equal_work: bool = False
    """Whether every combination does the total work of the shared settings."""
    seed_field: str = ""
    """The setting of a command that takes the seeds, if a person chose one."""

    @property
    def is_exclusive(self) -> bool:
        """Whether each of its runs runs alone on the machine."""
        return self.exclusive or self.timing is not None


LONGEST_KEY = 200


@dataclass(frozen=True)
class LaunchKey:
    """A script's key of one launch, under which a repeated request launches once, and a digest of the request."""

    text: str
    asked: str

    @classmethod
    def of(cls, text: str, asked: Mapping[str, Any]) -> "LaunchKey":
        """Return the key of a launch; raises ConfigError for an empty, too long or unprintable one."""
        if not (0 < len(text) <= LONGEST_KEY and text.isprintable()):
            raise ConfigError.of(
                "Idempotency-Key",
                f"Idempotency-Key must have 1 to {LONGEST_KEY} printable characters; got {len(text)}.",
            )
        whole = json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
        return cls(text, hashlib.sha256(whole).hexdigest())
