"""All sources of a script's measurements, read a little at a time while it runs."""

import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.recorder import Point
from engine.runtime.command.sources.duplicates import Duplicates
from engine.runtime.command.sources.event_folders import EventFolders
from engine.runtime.command.sources.followed import Fragment, PrintedLog, Recorded
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
    the run so far; event files in `work_folder` and `folders` that others write are not taken, unless it `takes_all`.

    A new instance reads the same points in the same order per metric and rank; `skip` leaves out those that are stored.
    """

    def __init__(
        self,
        run_folder: Path,
        work_folder: Path | None = None,
        *,
        since: float,
        pids: Callable[[], Collection[int]] = lambda: (),
        folders: Collection[Path] = (),
        trackio: Path | None = None,
        takes_all: bool = False,
    ) -> None:
        self.run_folder, self.since = run_folder, since
        self._trackio = trackio or run_folder / "trackio"
        self._streams: dict[Path, Stream] = {}
        self._event_files: dict[Path, EventFile] = {}
        self._logs: dict[Path, PrintedLog] = {}
        self._duplicates = Duplicates()
        self._renamed: dict[str, str] = {}
        self._turn = 0
        others = [*folders, *([work_folder] if work_folder else [])]
        self._events = EventFolders(run_folder, others, since, pids, self._is_taken, takes_all)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._skip: dict[tuple[str, int | None], int] = {}
        self._over = Recognised("", "")
        self._curves: dict[tuple[str, int | None] | tuple[str, int | None, str], _Curve] = {}
        self.recognised: dict[str, Recognised] = {}
        """What is known of each metric, by name."""
        self.behind = False
        """Whether the last poll left bytes for the next one, which may follow at once."""
        self._recall()

    def skip(self, counts: Mapping[tuple[str, int | None], int]) -> None:
        """Leave out the first points of metrics, as many as are stored: numbers by metric and rank."""
        self._skip = dict(counts)

    def poll(self, final: bool = False) -> list[Reading]:
        """Return new readings, a bounded number; `final` after the script's end: see `rest`."""
        deadline = time.perf_counter() + POLL_S
        found: list[Reading] = []
        self._discover(final)
        streams: list[Stream] = [*self._streams.values(), *self._logs.values()]
        first, self._turn, self.behind = self._turn % (len(streams) or 1), 0, False
        for number, stream in enumerate(streams[first:] + streams[:first]):
            more = True
            while more and not self.behind:
                values, more = stream.read(time.time(), final)
                if isinstance(stream, PrintedLog):
                    for value in values:
                        self._duplicates.hold(value, stream.rank, time.time())
                else:
                    found += self._logged(stream, values)
                if len(found) >= MOST_READINGS or (time.perf_counter() > deadline and not final):
                    self.behind, self._turn = True, first + number + 1 if more else 0
        found += self._printed(final and not self.behind)
        return found

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
        logs = sorted(self._logs.values(), key=lambda log: log.rank or 0)
        return next((log.printed.progress for log in logs if log.printed.progress[1]), (0, 0, ""))

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
            sentences.append(f"Left out {self._over.count:,} values: a run has at most {MOST_METRICS:,} metrics.")
        return sentences

    def _discover(self, final: bool) -> None:
        """Follow new files."""
        for path in sorted((self.run_folder / "logs").glob("*.log")):
            if path not in self._logs and path.stem != "worker":
                word, _, number = path.stem.partition(" ")
                self._logs[path] = PrintedLog(path, int(number) if word == "rank" and number.isdigit() else None)
        for path in sorted((self.run_folder / "recorded").glob("*.jsonl")):
            if path not in self._streams:
                self._streams[path] = Recorded(path)
        for path in sorted(self._trackio.glob("**/inbox/*/*.jsonl")):
            if path not in self._streams:
                self._streams[path] = Fragment(path, self._seen)
        for path, rank, prefix in self._events.new(final):
            self._event_file(path, rank, prefix)
            self._remember({"file": str(path), "rank": rank, "prefix": prefix})

    def _event_file(self, path: Path, rank: int | None, prefix: str) -> None:
        """Follow an event file, with what only these need."""
        from engine.runtime.command.sources.event_files import EventFile

        self._streams[path] = self._event_files[path] = EventFile(path, rank, prefix)

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
                    self._renamed[decision["logged"]] = decision["name"]
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
        for value in values:
            if (curve := curves.get((value[0], rank))) is None:
                curve = curves[value[0], rank] = self._curve(self._logged_name(value[0], stream), rank, source, value)
                if not rank:
                    curve.recent = self._duplicates.recent(curve.name)
            if curve.recent is not None:
                curve.recent.append(value)
            if curve.take(value[1]):
                found.append(curve.reading(value, self.since))
        return found

    def _logged_name(self, name: str, stream: Stream) -> str:
        """Return the name of a logged metric; with its source, if a printed metric of other values has its name."""
        if (known := self._renamed.get(name)) is None:
            known = name
            if not stream.rank and name in self._duplicates.plain:
                known = f"{name} ({stream.source})"
                self._remember({"logged": name, "name": known})
            self._renamed[name] = known
        return known

    def _printed(self, final: bool) -> Iterator[Reading]:
        """Yield printed values that aren't copies of logged ones."""
        before = len(self._duplicates.decisions)
        found = [*self._duplicates.settled(time.time(), bool(self._streams), final)]
        for key, (name, copy_of) in [*self._duplicates.decisions.items()][before:]:
            self._remember({"printed": key, "name": name, "copy_of": copy_of})
        for rank, value in found:
            if (curve := self._curves.get((value.name, rank, PRINTED))) is None:
                curve = self._curves[value.name, rank, PRINTED] = self._curve(value.name, rank, PRINTED, value)
            if curve.take(value.step):
                yield curve.reading(value, self.since)
        for name, copy_of in self._duplicates.copies().items():
            known = self.recognised.setdefault(f"{name} (printed)", Recognised(PRINTED, ""))
            known.same_as = copy_of

    def _curve(self, name: str, rank: int | None, source: str, value: Value) -> "_Curve":
        """Return a new curve, one that takes nothing if the run has too many."""
        short = name if len(name) <= LONGEST_METRIC else shortened(name, LONGEST_METRIC)
        if short not in self.recognised:
            if len(self.recognised) >= MOST_METRICS:
                return _Curve(short, rank, source, self._over, {})
            self.recognised[short] = Recognised(source, value.example, value.unit)
        return _Curve(short, rank, source, self.recognised[short], self._skip)


@dataclass
class _Curve:
    """Where the values of one metric, rank and source go."""

    name: str
    rank: int | None
    source: str
    known: Recognised
    skip: dict[tuple[str, int | None], int]
    recent: deque[Value] | None = None

    def take(self, step: int) -> bool:
        """Count a value, and return whether it is to be stored."""
        self.known.count += 1
        if self.skip and self.skip.get((self.name, self.rank), 0):
            self.skip[self.name, self.rank] -= 1
            return False
        return -_LARGEST <= step <= _LARGEST and self.known.source != ""

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
