"""Quotas per person, and settings of the whole lab: one small file in the home. Torch-free.

The store's commands and the runner enforce quotas. Everyone's limits apply to admins too, who can set individual limits
for anyone, including themselves.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch_options import LONGEST_S

Value = int | float | None
"""A limit; None for unlimited."""
MB, GB = 10**6, 10**9
"""Decimal for all sizes of disk and memory; labels say MB and GB."""
ALLOW_HOST_NETWORK = "python -m engine limits set --host-network yes"
"""The command that allows ranks to listen on the machine's network."""
MOST_PEOPLE, LONGEST_NAME = 10_000, 200
NO_LIMIT = "none"
"""How people write that there is no limit."""
DISTURBED_ABOVE_PERCENT = 5.0


@dataclass(frozen=True)
class Bounds:
    """Range, label and unit of a limit."""

    least: float
    most: float
    words: str
    says: str
    """What is counted: in total at once, or per run."""
    unit: str = ""
    is_whole: bool = True

    @property
    def range(self) -> str:
        """Return the least and the greatest value, with the unit."""
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.least:,.12g} to {_number(self.most)}{unit}"

    @property
    def title(self) -> str:
        """Return the label at the start of a line."""
        return f"{self.words[:1].upper()}{self.words[1:]}"


BOUNDS: dict[str, Bounds] = {
    "max_running_per_person": Bounds(1, 10_000, "running runs", "Of a person in total; further runs wait."),
    "max_queued_per_person": Bounds(1, 10_000, "queued runs", "Of a person in total; further launches are refused."),
    "max_cores_per_person": Bounds(1, 10_000, "CPU cores in use", "Of a person's running runs in total."),
    "max_gpus_per_person": Bounds(0, 1_000, "GPUs in use", "Of a person's running runs in total."),
    "max_run_time_s": Bounds(
        1, LONGEST_S, "run time", "Of each single run, in seconds; it is ended then.", "s", is_whole=False
    ),
    "max_reported_per_person": Bounds(
        0, 10_000, "reported runs at once", "Of a person in total: runs that programs elsewhere report."
    ),
    "max_disk_gb": Bounds(
        0.001,
        1_000_000,
        "disk space of runs",
        "Of all runs of a person in total: folders, points, texts and kept files; 1 GB is 1,000 MB.",
        "GB",
        is_whole=False,
    ),
    "max_files_gb": Bounds(
        0,
        1_000_000,
        "files that runs keep",
        "Of all runs of a person in total; they count among the disk space too.",
        "GB",
        is_whole=False,
    ),
    "max_agent_runs_per_person": Bounds(
        0, 10_000, "queued and running runs of agents", "Of all agents of a person in total."
    ),
}
"""Every limit, by its name in the file."""


@dataclass(frozen=True)
class Limits:
    """The limits of one person; None for no limit."""

    max_running_per_person: int | None = None
    max_queued_per_person: int | None = None
    max_cores_per_person: int | None = None
    max_gpus_per_person: int | None = None
    max_run_time_s: float | None = None
    max_disk_gb: float | None = None
    max_agent_runs_per_person: int | None = None
    """Of all agents of a person; each has its own number besides."""
    host_network: bool = False
    """For the whole lab: whether ranks may listen on the machine's network where they can't have a network namespace.
    """
    disturbed_above_percent: float = DISTURBED_ABOVE_PERCENT
    """For the whole lab: the disturbance above which a run is disturbed."""
    people: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Individual limits by person; limits missing there are everyone's."""
    max_reported_per_person: int | None = None
    """Runs that programs outside of Parallab report at once."""
    max_files_gb: float | None = None
    """Of all runs of a person together; they count among the disk space too."""

    def of(self, person: str) -> "Limits":
        """Return the limits of one person."""
        own: Mapping[str, Any] = self.people.get(str(person), {})
        return replace(self, **own, people={}) if own or self.people else self

    def changed(
        self, changes: Mapping[str, Value], person: str | None = None, usual: frozenset[str] = frozenset()
    ) -> "Limits":
        """Return the limits with changes for everyone or one person; those in `usual` are reset to everyone's.

        Raises ConfigError for an invalid value.
        """
        if person is None:
            given: Mapping[str, Any] = changes
            return _checked(replace(self, **given))
        own = {name: value for name, value in {**self.people.get(person, {}), **changes}.items() if name not in usual}
        others = {name: each for name, each in self.people.items() if name != person}
        return _checked(replace(self, people={**others, **({person: own} if own else {})}))

    @property
    def any(self) -> bool:
        """Whether any limit is set."""
        return bool(self.people) or any(getattr(self, name) is not None for name in BOUNDS)


NONE = Limits()


def limits(home: Home) -> Limits:
    """Return the limits of a home; unlimited if none was set. Raises ConfigError for an invalid file."""
    return read_limits(home.limits)


def read_limits(path: Path) -> Limits:
    """Return the limits of a file; unlimited if there is none. Raises ConfigError for an invalid one."""
    try:
        found = path.stat()
        return _read(path, (found.st_ino, found.st_mtime_ns, found.st_size))
    except FileNotFoundError:
        return NONE
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError.of(
            "",
            f"The limits in {path} can't be read ({type(error).__name__}). Replace them with: python -m engine "
            "limits set --running 4",
        ) from error


def size(bytes_: float) -> str:
    """Return a size in a readable unit, such as 273 kB or 1.5 GB."""
    for unit, most in (("B", 1e3), ("kB", 1e6), ("MB", 1e9)):
        if bytes_ < most:
            return f"{bytes_ / most * 1e3:,.{1 if unit == 'MB' else 0}f} {unit}"
    return f"{bytes_ / GB:,.1f} GB"


def read_value(name: str, text: str) -> Value:
    """Parse a limit; raises ConfigError for an invalid number."""
    if text.strip().lower() == NO_LIMIT:
        return None
    try:
        return int(text) if BOUNDS[name].is_whole else float(text)
    except ValueError:
        kind = "a whole number" if BOUNDS[name].is_whole else "a number"
        raise ConfigError.of(
            name, f"{BOUNDS[name].title} must be {kind}, or none for no limit; got '{text[:40]}'."
        ) from None


def disturbed_above(home: Home) -> float:
    """Return the disturbance (share of CPU time) above which a run of this lab is disturbed; the default if the file is
    unreadable, as pages must open.
    """
    try:
        return limits(home).disturbed_above_percent / 100
    except ConfigError:
        return NONE.disturbed_above_percent / 100


def set_limits(home: Home, wanted: Limits) -> None:
    """Write the limits atomically; raises ConfigError for an invalid value."""
    _checked(wanted)
    aside = home.create().limits.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(asdict(wanted), indent=1) + "\n")
    aside.replace(home.limits)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int, int]) -> Limits:
    """Return the limits of a file; `stamp` identifies its current state."""
    values = json.loads(path.read_text())
    if not isinstance(values, dict) or "max_running_per_person" not in values:
        raise ValueError("it has no max_running_per_person")
    return _checked(Limits(**values))


def _checked(found: Limits) -> Limits:
    """Return the limits unchanged; raises ConfigError for a value out of range or of the wrong type."""
    problems, people = (
        _problems({name: getattr(found, name) for name in BOUNDS}),
        cast(Any, found.people),
    )  # as a file has it
    if not isinstance(people, Mapping) or len(people) > MOST_PEOPLE:
        problems.append(Problem("people", f"people must map at most {MOST_PEOPLE:,} names to limits."))
    else:
        for name, own in people.items():
            if not 1 <= len(name) <= LONGEST_NAME or not isinstance(own, Mapping) or set(own) - set(BOUNDS):
                problems.append(
                    Problem("people", f"Unknown limit for {name[:LONGEST_NAME]!r}; choose from {', '.join(BOUNDS)}.")
                )
            else:
                problems += _problems(own)
    if not isinstance(cast(Any, found.host_network), bool):  # as a file has it
        problems.append(
            Problem("host_network", f"host_network must be true or false, got {repr(found.host_network)[:40]}.")
        )
    percent = cast(Any, found.disturbed_above_percent)
    if not isinstance(percent, int | float) or isinstance(percent, bool) or not 0 <= percent <= 100:
        words = f"disturbed_above_percent must be 0 to 100, got {repr(percent)[:40]}. Usual is 5."
        problems.append(Problem("disturbed_above_percent", words))
    if problems:
        raise ConfigError(problems)
    return found


def _problems(values: Mapping[str, Any]) -> list[Problem]:
    return [Problem(name, sentence) for name, value in values.items() if (sentence := _wrong(name, value))]


def _wrong(name: str, value: Any) -> str:
    """Return the error in a value; empty if valid."""
    bounds = BOUNDS[name]
    kinds = int if bounds.is_whole else (int, float)
    if value is None or (
        isinstance(value, kinds) and not isinstance(value, bool) and bounds.least <= value <= bounds.most
    ):
        return ""
    return f"{bounds.title} must be {bounds.range}, or none for no limit; got {repr(value)[:40]}."


def _number(value: float) -> str:
    return f"{value:,.0f}"
