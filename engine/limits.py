"""The limits that a lab sets itself: one small file in the home, read by runner and pages, changed by command. Torch-free."""

import json
import os
from dataclasses import asdict, dataclass

from engine.errors import ConfigError, Problem
from engine.home import Home

MOST = 10_000


@dataclass(frozen=True)
class Limits:
    """What one person may take of the machine; None for no limit."""

    max_running_per_person: int | None = None


def limits(home: Home) -> Limits:
    """Return the limits of a home; none where none was set. Raises ConfigError where the file is not ours."""
    try:
        values = json.loads(home.limits.read_text())
        return Limits(_checked(values["max_running_per_person"]))
    except FileNotFoundError:
        return Limits()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            [Problem("", f"The limits in {home.limits} can't be read ({type(error).__name__}). Set them anew: python -m engine queue --max-per-person 4")]
        ) from error


def set_limits(home: Home, wanted: Limits) -> None:
    """Keep the limits, written aside and renamed, so that no reader meets half a file; raises ConfigError for a number that is none."""
    _checked(wanted.max_running_per_person)
    aside = home.create().limits.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(asdict(wanted)) + "\n")
    aside.replace(home.limits)


def _checked(most: object) -> int | None:
    if most is not None and not (isinstance(most, int) and 1 <= most <= MOST):
        raise ConfigError([Problem("max_running_per_person", f"max_running_per_person must be 1 to {MOST:,}, or none for no limit, got {most!r}.")])
    return most
