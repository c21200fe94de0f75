"""What each person may take of the lab: one small file in the home, obeyed by the store's commands and the runner,
changed by command. Torch-free.

What stands there for everyone holds for an admin too, who can give anybody, also themselves, limits of their own.
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
"""A limit; None for none."""
GB = 10**9
ALLOW_HOST_NETWORK = "python -m engine limits set --host-network yes"
"""What an admin types to let ranks listen on the machine's network."""
MOST_PEOPLE, LONGEST_NAME = 10_000, 200


@dataclass(frozen=True)
class Bounds:
    """What a limit may be, and what it is about."""

    least: float
    most: float
    words: str
    unit: str = ""
    is_whole: bool = True


BOUNDS: dict[str, Bounds] = {
    "max_running_per_person": Bounds(1, 10_000, "runs on at a time"),
    "max_queued_per_person": Bounds(1, 10_000, "runs in the queue at a time"),
    "max_cores_per_person": Bounds(1, 10_000, "CPU cores held at a time"),
    "max_gpus_per_person": Bounds(0, 1_000, "GPUs held at a time"),
    "max_run_time_s": Bounds(1, LONGEST_S, "how long a run may be on", "s", is_whole=False),
    "max_disk_gb": Bounds(0.001, 1_000_000, "what their runs may take on the disk", "GB", is_whole=False),
}
"""Every limit by its name in the file."""


@dataclass(frozen=True)
class Limits:
    """What one person may take of the lab; None for no limit."""

    max_running_per_person: int | None = None
    max_queued_per_person: int | None = None
    max_cores_per_person: int | None = None
    max_gpus_per_person: int | None = None
    max_run_time_s: float | None = None
    max_disk_gb: float | None = None
    host_network: bool = False
    """Of the whole lab: whether ranks may listen on the machine's network where they can have none of their own."""
    people: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By name what is otherwise for somebody; the limits that are not named there are everyone's."""

    def of(self, person: str) -> "Limits":
        """Return what holds for one person."""
        own: Mapping[str, Any] = self.people.get(str(person), {})
        return replace(self, **own, people={}) if own or self.people else self

    def changed(
        self, changes: Mapping[str, Value], person: str | None = None, usual: frozenset[str] = frozenset()
    ) -> "Limits":
        """Return the limits with some set otherwise, for everyone or one person; those named in `usual` are that
        person's own no longer.

        Raises ConfigError for a value that is none.
        """
        if person is None:
            given: Mapping[str, Any] = changes
            return _checked(replace(self, **given))
        own = {name: value for name, value in {**self.people.get(person, {}), **changes}.items() if name not in usual}
        others = {name: each for name, each in self.people.items() if name != person}
        return _checked(replace(self, people={**others, **({person: own} if own else {})}))

    @property
    def any(self) -> bool:
        """Whether anybody is limited in anything."""
        return bool(self.people) or any(getattr(self, name) is not None for name in BOUNDS)


NONE = Limits()


def limits(home: Home) -> Limits:
    """Return the limits of a home; none where none was set. Raises ConfigError where the file is not ours."""
    try:
        found = home.limits.stat()
        return _read(home.limits, (found.st_ino, found.st_mtime_ns, found.st_size))
    except FileNotFoundError:
        return NONE
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            [
                Problem(
                    "",
                    (
                        f"The limits in {home.limits} can't be read ({type(error).__name__}). Set them anew: "
                        "python -m engine limits set --running 4"
                    ),
                )
            ]
        ) from error


def set_limits(home: Home, wanted: Limits) -> None:
    """Keep the limits, written aside and renamed, so that no reader meets half a file; raises ConfigError for a value
    that is none.
    """
    _checked(wanted)
    aside = home.create().limits.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(asdict(wanted), indent=1) + "\n")
    aside.replace(home.limits)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int, int]) -> Limits:
    """Return the limits of a file; `stamp` tells this state of it from any other."""
    values = json.loads(path.read_text())
    if not isinstance(values, dict) or "max_running_per_person" not in values:
        raise ValueError("it has no max_running_per_person")
    return _checked(Limits(**values))


def _checked(found: Limits) -> Limits:
    """Return the limits as they are; raises ConfigError for a value that is out of bounds or of another kind."""
    problems, people = (
        _problems({name: getattr(found, name) for name in BOUNDS}),
        cast(Any, found.people),
    )  # as a file has it
    if not isinstance(people, Mapping) or len(people) > MOST_PEOPLE:
        problems.append(Problem("people", f"people must be up to {MOST_PEOPLE:,} names, each with limits."))
    else:
        for name, own in people.items():
            if not 1 <= len(name) <= LONGEST_NAME or not isinstance(own, Mapping) or set(own) - set(BOUNDS):
                problems.append(
                    Problem(
                        "people", f"What is otherwise for {name[:LONGEST_NAME]!r} must be some of {', '.join(BOUNDS)}."
                    )
                )
            else:
                problems += _problems(own)
    if not isinstance(cast(Any, found.host_network), bool):  # as a file has it
        problems.append(
            Problem("host_network", f"host_network must be true or false, got {repr(found.host_network)[:40]}.")
        )
    if problems:
        raise ConfigError(problems)
    return found


def _problems(values: Mapping[str, Any]) -> list[Problem]:
    return [Problem(name, sentence) for name, value in values.items() if (sentence := _wrong(name, value))]


def _wrong(name: str, value: Any) -> str:
    """Return what is wrong with a value; empty where nothing is."""
    bounds = BOUNDS[name]
    kinds = int if bounds.is_whole else (int, float)
    if value is None or (
        isinstance(value, kinds) and not isinstance(value, bool) and bounds.least <= value <= bounds.most
    ):
        return ""
    unit = f" {bounds.unit}" if bounds.unit else ""
    return (
        f"{name} must be {bounds.least:,g} to {_number(bounds.most)}{unit}, or none for no limit, got "
        f"{repr(value)[:40]}."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}"
