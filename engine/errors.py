"""Every error that a person can cause, as one tree; all else is a bug and keeps its traceback.

EngineError
├── ConfigError           a setting breaks a rule
│   └── UnknownName       no experiment, preset, setting or data set has that name
├── FilterError           a filter can't be read
├── DataError             a data set can't be had or is damaged
├── ImportRefused         a file of runs is broken, hostile, of another kind, too new, or here already
├── NoCheckpoint          a run can't be resumed, since nothing is kept of it to go on from
├── Forbidden             the person's role does not allow that command
│   └── LimitReached      a limit of the person's leaves no room for what was asked
├── SignInRefused         a name and password, a token or a session that lets nobody in
├── DeviceError           a device was asked for that this machine or experiment can't give
├── StoreError            the store can't do what was asked
│   ├── StoreBusy         another program held the database for longer than the time-out
│   ├── StoreFull         the store's disk has no room left
│   ├── StoreDamaged     the store's file is damaged, or none of SQLite's
│   ├── StoreDenied      this user may not open the store, or not write to it
│   ├── StoreTooNew       the store was written by a newer Parallab
│   ├── NoSuchRun         no run has that id
│   ├── NoSuchSweep       no sweep has that id
│   ├── NoSuchDuel        no duel has that id
│   └── WrongStatus       the status of a run, or of all runs of a sweep, does not allow that command
├── RunnerError           the runner can't start, or does not answer
└── RunFailed             a run ended badly
    ├── RankFailed        one rank of it raised, was killed or left
    └── PeerLost          a rank lost another one; that one's own end is the cause, if it has one

A message is a full sentence that names the thing, the value, the rule and the cure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

SHOWN = 100
"""So many characters of what somebody wrote are told in a sentence about it."""


class EngineError(Exception):
    """Any error that a person can cause and cure."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with one setting; `field` is empty when a rule spans several."""

    field: str
    sentence: str


class ConfigError(EngineError):
    """One or more settings break a rule; `problems` tells them apart by field."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(" ".join(problem.sentence for problem in self.problems))


class UnknownName(ConfigError):
    """Nothing of that kind has that name; the sentence suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], field: str = "") -> None:
        self.name = name
        super().__init__([Problem(field, _unknown(kind, name, list(known)))])


class FilterError(EngineError):
    """A filter can't be read; `start` and `end` say which of its characters are meant."""

    def __init__(self, sentence: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        super().__init__(sentence)


class DataError(EngineError):
    """A data set can't be had or is damaged."""


class ImportRefused(EngineError):
    """A file of runs can't be taken in, and nothing of it was; the sentence says what is wrong with it and what would
    mend it.

    It can quote any part of the file: of a very long one the middle is left out.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence if len(sentence) <= 1_000 else f"{sentence[:600]}...{sentence[-300:]}")


class NoCheckpoint(EngineError):
    """A run can't be resumed, since nothing is kept of it to go on from."""


class DeviceError(EngineError):
    """A device was asked for that this machine or this experiment can't give."""


class Forbidden(EngineError):
    """The person's role does not allow that command, or not to what is somebody else's; nothing was changed."""


class LimitReached(Forbidden):
    """A limit of the person's leaves no room for what was asked; the sentence names it, what they hold, and
    the cure.
    """


class SignInRefused(EngineError):
    """A name and password, a token or a session that lets nobody in; the sentence does not say which part was wrong."""


class StoreError(EngineError):
    """The store can't do what was asked."""


class StoreBusy(StoreError):
    """Another program held the database for longer than the time-out."""


class StoreFull(StoreError):
    """The store's disk has no room left; what was recorded so far is kept."""


class StoreDamaged(StoreError):
    """The store's file is damaged, or is no database of SQLite."""


class StoreDenied(StoreError):
    """This user may not open the store, or not write to it or to its folder."""


class StoreTooNew(StoreError):
    """The store was written by a newer Parallab."""


class NoSuchRun(StoreError):
    """No run has that id."""


class NoSuchSweep(StoreError):
    """No sweep has that id."""


class NoSuchDuel(StoreError):
    """No duel has that id."""


class WrongStatus(StoreError):
    """The status of a run, or of all runs of a sweep, does not allow that command."""


class RunnerError(EngineError):
    """The runner can't start, or does not answer."""


class RunFailed(EngineError):
    """A run ended badly."""


class PeerLost(RunFailed):
    """Another rank does not answer; where that rank failed too, its failure is the one that counts."""


class RankFailed(RunFailed):
    """One rank raised, was killed or left; `traceback` is its own, empty when it had none to give."""

    def __init__(self, role: str, sentence: str, traceback: str = "") -> None:
        self.role = role
        self.traceback = traceback
        super().__init__(sentence)


def _unknown(kind: str, name: str, known: list[str]) -> str:
    shown = name if len(name) <= SHOWN else f"{name[:SHOWN]}…"
    near = get_close_matches(shown, known, n=1)
    cure = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known) or 'none'}."
    return f"No {kind} is named '{shown}'. {cure}"
