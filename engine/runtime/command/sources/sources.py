"""All sources of a script's measurements, read a little at a time while it runs."""

import json
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any

from engine.errors import counted
from engine.recorder import Point
from engine.runtime.command.sources.duplicates import Duplicates, Logged
from engine.runtime.command.sources.event_folders import EventFolders
from engine.runtime.command.sources.followed import Fragment, PrintedLog, Recorded
from engine.runtime.command.sources.printed import PrintedLines
from engine.runtime.command.sources.readings import PRINTED, Reading, Recognised, Stream, Value
from engine.transfer.import_bounds import LONGEST_METRIC, MOST_METRICS, shortened

if TYPE_CHECKING:
    from engine.runtime.command.sources.event_files import EventFile

POLL_S = 0.04
"""Maximum seconds per poll, except for the final one."""
MOST_READINGS = 20_000
"""Per poll."""
MEMORY = "sources.jsonl"
"""File in the run's folder with the decisions of a reader: which files are the run's, and names."""


class Sources:
    """The measurements of one run, from all files that it writes.

    `since` is the start of the run (s since 1970), from which points count their time. `pids` returns the processes of
    the run so far, with their ranks, on `host` (default: this one); event files in `work_folder` and `folders` that
    others write are not taken, unless it `takes_all`.

    A new instance reads the same points again, those of several files maybe in another order; `skip` leaves out those
    that are stored.
    """

    def __init__(
        self,
        run_folder: Path,
        work_folder: Path | None = None,
        *,
        since: float,
        pids: Callable[[], Mapping[int, int]] = dict,
        folders: Collection[Path] = (),
        trackio: Path | None = None,
        takes_all: bool = False,
        host: str = "",
    ) -> None:
        self.run_folder, self.since = run_folder, since
        self._trackio = trackio or run_folder / "trackio"
        self._streams: dict[Path, Stream] = {}
        self._event_files: dict[Path, EventFile] = {}
        self._logs: dict[Path, PrintedLog] = {}
        self._duplicates = Duplicates()
        self._renamed: dict[tuple[str, int], str] = {}
        self._unread = set[Stream]()
        """Files of logged values that may have more."""
        self._turn = 0
        others = [*folders, *([work_folder] if work_folder else [])]
        self._events = EventFolders(run_folder, others, since, pids, self._is_taken, takes_all, host or node())
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._stored: dict[tuple[str, int | None], _Stored] = {}
        self._over = Recognised("", "")
        self._curves: dict[tuple[str, int | None] | tuple[str, int | None, str], _Curve] = {}
        self.recognised: dict[str, Recognised] = {}
        """What is known of each metric, by name."""
        self.behind = False
        """Whether the last poll left bytes for the next one, which may follow at once."""
        self._recall()

    def skip(self, stored: Mapping[tuple[str, int | None], Iterable[tuple[int, float]]]) -> None:
        """Leave out each stored point once: steps and values by metric and rank, in the order in which they came, which
        can be read again.
        """
        self._stored = {curve: _Stored(iter(points)) for curve, points in stored.items()}
        self._duplicates.skip(stored)

    def poll(self, final: bool = False) -> list[Reading]:
        """Return new readings, a bounded number; `final` after the script's end: see `rest`."""
        deadline, taken = time.perf_counter() + POLL_S, 0
        found: list[Reading] = []
        self._discover(final)
        streams: list[Stream] = [*self._logs.values(), *self._streams.values()]  # in a backlog printed values wait
        first, self._turn, self.behind = 0 if final else self._turn % (len(streams) or 1), 0, False
        for number, stream in enumerate(streams[first:] + streams[:first]):
            if isinstance(stream, PrintedLog) and self._must_wait:
                continue
            more = True
            while more and not self.behind:
                values, more = stream.read(time.time(), final)
                taken += len(values)
                if isinstance(stream, PrintedLog):
                    for value in values:
                        self._duplicates.hold(value, stream.rank, time.time())
                else:
                    found += self._logged(stream, values)
                    (self._unread.add if more else self._unread.discard)(stream)
                if taken >= MOST_READINGS or (time.perf_counter() > deadline and not final):
                    self.behind, self._turn = True, first + number + 1 if more else 0
        self.behind = self.behind or self._must_wait
        found += self._printed(final and not self.behind)
        return found

    @property
    def _must_wait(self) -> bool:
        """Whether logs are not read on, as logged values that they may copy are still to be read."""
        return bool(self._unread) and self._duplicates.is_full

    def has_read(self, log: Path, offset: int) -> bool:
        """Return whether a log was read up to an offset, or is not read at all. Any thread may ask."""
        known = self._logs.get(log)
        return log.stem == "worker" or (known is not None and known.offset >= offset)

    def rest(self) -> Iterator[list[Reading]]:
        """Yield everything that is left after the script's end, a bounded number of readings at a time."""
        yield self.poll(final=True)
        while self.behind:
            yield self.poll(final=True)

    @property
    def progress(self) -> tuple[int, int, str]:
        """How far the run is: done, total, and the unit; zeros if the script does not say it."""
        for stream in sorted(self._streams.values(), key=lambda stream: stream.rank or 0):
            if isinstance(stream, Recorded) and stream.progress:
                return *stream.progress, "steps"
        return next((each.progress for each in self._lines if each.progress[1]), (0, 0, ""))

    @property
    def epoch_of_progress(self) -> int | None:
        """The epoch that `progress` counts the steps of; None where it counts all of the run."""
        if any(isinstance(stream, Recorded) and stream.progress for stream in self._streams.values()):
            return None
        return next((each.within and each.within[0] for each in self._lines if each.progress[1]), None)

    @property
    def _lines(self) -> list[PrintedLines]:
        return [log.printed for log in sorted(self._logs.values(), key=lambda log: log.rank or 0)]

    @property
    def position(self) -> tuple[int | None, int | None]:
        """The step and the epoch of the last printed line that has one."""
        logs = self._lines
        step = next((each.step for each in logs if each.step is not None), None)
        epoch = next((each.epoch for each in logs if each.epoch is not None), None)
        return step, next((each.step for each in logs if not each.is_fine), None) if epoch is None else epoch

    @property
    def writers(self) -> set[int]:
        """Processes of this machine that write the event files of a reader that takes all."""
        return self._events.writers

    @property
    def phases(self) -> dict[int | None, dict[str, float]]:
        """Total seconds of each phase, by rank, of scripts that record them."""
        found: dict[int | None, dict[str, float]] = {}
        for stream in self._streams.values():
            if isinstance(stream, Recorded) and stream.phases:
                totals = found.setdefault(stream.rank, {})
                for name, seconds in stream.phases.items():
                    totals[name] = totals.get(name, 0.0) + seconds
        return found

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters that event files hold."""
        found: dict[str, Any] = {}
        for file in self._event_files.values():
            found |= file.hyperparameters
        return found

    @property
    def left_out(self) -> list[str]:
        """What was skipped and why, as sentences."""
        counts: dict[str, int] = {}
        streams: list[Stream] = [*self._streams.values(), *self._logs.values()]
        for stream in streams:
            for what, count in stream.left_out.items():
                counts[what] = counts.get(what, 0) + count
        sentences = [f"Left out {count:,} {what}." for what, count in counts.items()]
        sentences += [file.note for file in self._event_files.values() if file.note]
        if self._over.count:
            sentences.append(
                f"Left out {counted(self._over.count, 'value')}: a run has at most {MOST_METRICS:,} metrics."
            )
        return sentences

    def _discover(self, final: bool) -> None:
        """Follow new files."""
        for path in sorted((self.run_folder / "logs").glob("*.log")):
            if path not in self._logs and path.stem != "worker":
                word, _, number = path.stem.partition(" ")
                self._logs[path] = PrintedLog(path, int(number) if word == "rank" and number.isdigit() else None)
        for path in sorted((self.run_folder / "recorded").glob("*.jsonl")):
            if path not in self._streams:
                self._follow(path, Recorded(path))
        for path in sorted(self._trackio.glob("**/inbox/*/*.jsonl")):
            if path not in self._streams:
                self._follow(path, Fragment(path, self._seen))
        for path, rank, prefix in self._events.new(final):
            self._event_file(path, rank, prefix)
            self._remember({"file": str(path), "rank": rank, "prefix": prefix})

    def _event_file(self, path: Path, rank: int | None, prefix: str) -> None:
        """Follow an event file, with what only these need."""
        from engine.runtime.command.sources.event_files import EventFile

        self._event_files[path] = EventFile(path, rank, prefix)
        self._follow(path, self._event_files[path])

    def _follow(self, path: Path, stream: Stream) -> None:
        self._streams[path] = stream
        self._unread.add(stream)

    # ---- What was decided, for a reader after this one ---------------------------------------------------------------

    @property
    def _memory(self) -> Path:
        return self.run_folder / MEMORY

    def _remember(self, decision: dict[str, object]) -> None:
        """Append a decision, before the points that depend on it are stored."""
        with suppress(OSError), self._memory.open("a") as file:
            file.write(json.dumps(decision) + "\n")

    def _recall(self) -> None:
        """Follow the files of a reader before this one, under the same names."""
        for decision in _decisions(self._memory):
            try:
                if "file" in decision:
                    path = Path(decision["file"])
                    if not self._events.covers(path):  # the script can write this memory, too
                        continue
                    self._event_file(path, decision["rank"], decision["prefix"])
                    self._events.note(path)
                elif "printed" in decision:
                    self._duplicates.decisions[decision["printed"]] = decision["name"], decision["copy_of"]
                else:
                    self._renamed[decision["logged"], decision.get("rank", 0)] = decision["name"]
            except (KeyError, TypeError):
                continue

    def _is_taken(self, path: Path) -> bool:
        """Return whether another run beside this one reads a file."""
        others = (each for each in self.run_folder.parent.glob(f"*/{MEMORY}") if each != self._memory)
        return any(decision.get("file") == str(path) for each in others for decision in _decisions(each))

    # ---- Names -------------------------------------------------------------------------------------------------------

    def _logged(self, stream: Stream, values: list[Value]) -> list[Reading]:
        """Return logged values as readings."""
        rank, source, curves, found = stream.rank, stream.source, self._curves, list[Reading]()
        most = self._duplicates.most_kept
        for value in values:
            if (curve := curves.get((value[0], rank))) is None:
                curve = curves[value[0], rank] = self._curve(self._logged_name(value[0], stream), rank, source, value)
                curve.recent = self._duplicates.logged(curve.name, rank)
            if curve.recent is not None:
                curve.recent.add(value, most)
            if curve.take(value):
                found.append(curve.reading(value, self.since))
        return found

    def _logged_name(self, name: str, stream: Stream) -> str:
        """Return the name of a logged metric; with its source, if a printed metric of other values has its name."""
        rank = stream.rank or 0
        if (known := self._renamed.get((name, rank))) is None:
            known = name
            if self._duplicates.has_taken(name, rank):
                known = f"{name} ({stream.source})"
                self._remember({"logged": name, "rank": rank, "name": known})
            self._renamed[name, rank] = known
        return known

    def _printed(self, final: bool) -> Iterator[Reading]:
        """Yield printed values that aren't copies of logged ones."""
        before = len(self._duplicates.decisions)
        found = [*self._duplicates.settled(time.time(), bool(self._streams), final, bool(self._unread))]
        for key, (name, copy_of) in [*self._duplicates.decisions.items()][before:]:
            self._remember({"printed": key, "name": name, "copy_of": copy_of})
        for rank, value in found:
            if (curve := self._curves.get((value.name, rank, PRINTED))) is None:
                curve = self._curves[value.name, rank, PRINTED] = self._curve(value.name, rank, PRINTED, value)
            if curve.take(value):
                yield curve.reading(value, self.since)
        for name, copy_of in self._duplicates.copies().items():
            known = self.recognised.setdefault(f"{name} (printed)", Recognised(PRINTED, ""))
            known.same_as = copy_of

    def _curve(self, name: str, rank: int | None, source: str, value: Value) -> "_Curve":
        """Return a new curve, one that takes nothing if the run has too many."""
        short = name if len(name) <= LONGEST_METRIC else shortened(name, LONGEST_METRIC)
        if short not in self.recognised:
            if len(self.recognised) >= MOST_METRICS:
                return _Curve(short, rank, source, self._over)
            self.recognised[short] = Recognised(source, value.example, value.unit)
        return _Curve(short, rank, source, self.recognised[short], self._stored.get((short, rank)))


class _Stored:
    """The stored points of a metric and rank that have not come again; few are held where they come in their order."""

    def __init__(self, points: Iterator[tuple[int, float]]) -> None:
        self._rest = (_key(*point) for point in points)
        self._passed = Counter[tuple[int, float | None]]()

    def take(self, step: int, value: float) -> bool:
        """Return whether a point is one of them, which then is none any more."""
        key = _key(step, value)
        if self._passed.get(key):
            self._passed[key] -= 1
            return True
        for each in self._rest:
            if each == key:
                return True
            self._passed[each] += 1
        return False


def _key(step: int, value: float) -> tuple[int, float | None]:
    return step, None if math.isnan(value) else value


@dataclass
class _Curve:
    """Where the values of one metric, rank and source go."""

    name: str
    rank: int | None
    source: str
    known: Recognised
    stored: _Stored | None = None
    recent: Logged | None = None

    def take(self, value: Value) -> bool:
        """Count a value, and return whether it is to be stored."""
        self.known.count += 1
        if self.stored is not None and self.stored.take(value[1], value[2]):
            return False
        return -_LARGEST <= value[1] <= _LARGEST and self.known.source != ""

    def reading(self, value: Value, since: float) -> Reading:
        """Return a value as a reading."""
        return Reading(self.rank, self.source, Point(self.name, value[1], value[2], max(0.0, value[3] - since)))


_LARGEST = (1 << 63) - 1


def _decisions(path: Path) -> list[dict[str, Any]]:
    """Return what a reader decided; a line that a full disk cut is left out."""
    found = []
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return [each for each in found if isinstance(each, dict)]
