"""All errors with user-readable messages, as one tree; any other is a bug and keeps its traceback.

EngineError
├── ConfigError           a setting breaks a rule
│   ├── UnknownName       no experiment, preset, setting or data set has that name
│   └── MethodFault       an experiment of the lab's own can't be used
├── FilterError           a filter can't be read
├── DataError             a data set is unavailable or damaged
├── ImportRefused         an import file is damaged, hostile, unsupported, too new, or already imported
├── NoCheckpoint          a run can't be resumed without a checkpoint
├── Forbidden             the person's role does not allow that command
│   └── LimitReached      a quota is exceeded
├── SignInRefused         invalid name and password, token or session
├── DeviceError           the requested device is not available on this machine or for this experiment
├── StoreError            the store can't do what was asked
│   ├── StoreBusy         another program locked the database for longer than the timeout
│   ├── StoreFull         the store's disk has no room left
│   ├── StoreDamaged     the store's file is damaged, or not an SQLite database
│   ├── StoreDenied      this user may not open the store, or not write to it
│   ├── StoreGone        the store was deleted or replaced while it was open
│   ├── StoreTooNew       the store was written by a newer Parallab
│   ├── NoSuchRun         no run has that id
│   ├── NoSuchSweep       no sweep has that id
│   ├── NoSuchDuel        no duel has that id
│   ├── NoSuchFile        the run keeps no file of that name
│   └── WrongStatus       the status of a run, or of all runs of a sweep, does not allow that command
├── OutputFailed          a file or stream that the person named can't be written
├── RunnerError           the runner can't start, or does not answer
└── RunFailed             a run ended badly
    ├── NotThere          the machine lacks the folder, script or program of a command
    ├── RankFailed        one rank of it raised, was killed or left
    └── PeerLost          a rank lost another one, whose own failure, if any, is the cause

A message is a full sentence with the thing, the value, the rule and the cure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

SHOWN = 100
"""Maximum characters of user text in a message."""


class EngineError(Exception):
    """Base of all errors with user-readable messages."""


@dataclass(frozen=True)
class Problem:
    """An error in one setting; `field` is empty for a rule on several."""

    field: str
    sentence: str


class ConfigError(EngineError):
    """One or more invalid settings; `problems` has one entry per field."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(" ".join(problem.sentence for problem in self.problems))

    @classmethod
    def of(cls, field: str, sentence: str) -> "ConfigError":
        """Return the error for one setting, or for a rule on several if `field` is empty."""
        return ConfigError([Problem(field, sentence)])


class UnknownName(ConfigError):
    """Unknown name; the message suggests the closest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], field: str = "") -> None:
        self.name = name
        super().__init__([Problem(field, _unknown(kind, name, list(known)))])


class MethodFault(ConfigError):
    """An experiment of the lab's own can't be used; `why` has the place, the reason and the cure."""

    version = ""
    """The version that waits for an admin's approval, if that is why."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        end = "" if why.endswith((".", "!", "?")) else "."
        super().__init__([Problem("experiment", f"The experiment '{name[:60]}' can't be used. {why}{end}")])


class FilterError(EngineError):
    """Invalid filter or sort order, by `field`; `start` and `end` are the position of the error."""

    def __init__(self, sentence: str, start: int, end: int, field: str = "filter") -> None:
        self.start, self.end, self.field = start, end, field
        super().__init__(sentence)


class DataError(EngineError):
    """A data set is unavailable or damaged."""


class ImportRefused(EngineError):
    """An import file was refused, and nothing was imported; the message has the reason and the cure.

    It can quote any part of the file; the middle of very long messages is omitted.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence if len(sentence) <= 1_000 else f"{sentence[:600]}...{sentence[-300:]}")


class NoCheckpoint(EngineError):
    """A run can't be resumed without a checkpoint."""


class DeviceError(EngineError):
    """The requested device is not available on this machine or for this experiment."""


class Forbidden(EngineError):
    """The person's role does not allow that command, or not on things of others; nothing was changed."""

    may: tuple[str, ...] = ()
    """Accounts that may, where the person has none: the command line prints its command with `--owner`."""


class LimitReached(Forbidden):
    """A quota is exceeded; the message has the limit, the person's usage and the cure."""


class SignInRefused(EngineError):
    """Invalid name and password, token or session; the message does not say which part is wrong."""


class StoreError(EngineError):
    """The store can't do what was asked."""


class StoreBusy(StoreError):
    """Another program locked the database for longer than the timeout."""


class StoreFull(StoreError):
    """The store's disk is full; recorded data is kept."""


class StoreDamaged(StoreError):
    """The store's file is damaged, or not an SQLite database."""


class StoreDenied(StoreError):
    """This user may not open the store, or not write to it or to its folder."""


class StoreGone(StoreError):
    """The store was deleted, moved or replaced while this process had it open."""


class StoreTooNew(StoreError):
    """The store was written by a newer Parallab."""


class NoSuchRun(StoreError):
    """No run has that id."""


class NoSuchSweep(StoreError):
    """No sweep has that id."""


class NoSuchDuel(StoreError):
    """No duel has that id."""


class NoSuchFile(StoreError):
    """The run keeps no file of that name."""


class WrongStatus(StoreError):
    """The status of a run, or of all runs of a sweep, does not allow that command."""


class OutputFailed(EngineError):
    """A file or stream that the person named can't be written."""


class RunnerError(EngineError):
    """The runner can't start, or does not answer."""


class RunFailed(EngineError):
    """A run failed."""


class NotThere(RunFailed):
    """The machine lacks the folder, the script or the program of a command."""


class PeerLost(RunFailed):
    """Another rank does not answer; if it failed itself, that failure is the cause."""


class RankFailed(RunFailed):
    """One rank raised, was killed or exited; `traceback` is the rank's, if available."""

    def __init__(self, role: str, sentence: str, traceback: str = "") -> None:
        self.role = role
        self.traceback = traceback
        super().__init__(sentence)


def counted(count: float | str, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one: `1 update`, `0.5 updates`, `1,200 batches`.

    A count that is already text stays as it is. The noun may follow adjectives.
    """
    text = count if isinstance(count, str) else f"{count:,}"
    return f"{text} {noun if text == '1' else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a regular noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def with_article(noun: str) -> str:
    """Return a noun with `a` or `an`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def amount(value: str, unit: str) -> str:
    """Return a value with its unit, in the singular for one: `1 update`, `2 updates`, `1 MB`; no unit, the value."""
    if value == "1" and unit.endswith("s") and len(unit) > 2:
        unit = f"{unit[:-3]}y" if unit.endswith("ies") else re.sub(r"(?<=s|x)es$|(?<=ch|sh)es$|s$", "", unit, count=1)
    return f"{value} {unit}".rstrip()


def enumeration(words: Sequence[str], before_last: str = "and") -> str:
    """Return words as an enumeration in a sentence: `A, B and C`; empty for none."""
    return f" {before_last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def cut(text: str, most: int = SHOWN) -> str:
    """Return a text, cut after so many characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def _unknown(kind: str, name: str, known: list[str]) -> str:
    shown = cut(name)
    near = get_close_matches(shown, known, n=1)
    cure = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known) or 'none'}."
    return f"Unknown {kind} '{shown}'. {cure}"
