"""All sources of a script's measurements, read a little at a time while it runs."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from engine.recorder import Point
from engine.runtime.command.sources.followed import Fragment, PrintedLog, Recorded
from engine.runtime.command.sources.readings import Reading, Recognised, Stream, Value
from engine.transfer.import_bounds import LONGEST_METRIC, MOST_METRICS, shortened

POLL_S = 0.04
"""Maximum seconds per poll, except for the final one."""
MOST_READINGS = 20_000
"""Per poll, except for the final one."""


class Sources:
    """The measurements of one run, from all files that it writes.

    `since` is the start of the run (s since 1970), from which points count their time. `pids` returns the processes of
    the run so far; event files in `work_folder` and `folders` that others write are not taken.

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
    ) -> None:
        self.run_folder, self.work_folder, self.since = run_folder, work_folder, since
        self.folders, self._pids = folders, pids
        self._trackio = trackio or run_folder / "trackio"
        self._streams: dict[Path, Stream] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._skip: dict[tuple[str, int | None], int] = {}
        self._over = 0
        self.recognised: dict[str, Recognised] = {}
        """What is known of each metric, by name."""
        self.behind = False
        """Whether the last poll left bytes for the next one, which may follow at once."""

    def skip(self, counts: Mapping[tuple[str, int | None], int]) -> None:
        """Leave out the first points of metrics, as many as are stored: numbers by metric and rank."""
        self._skip = dict(counts)

    def poll(self, final: bool = False) -> list[Reading]:
        """Return new readings. With `final`, after the script's end, everything that is left."""
        deadline = time.perf_counter() + POLL_S
        found: list[Reading] = []
        self._discover()
        self.behind = False
        for stream in [*self._streams.values()]:
            more = True
            while more:
                if not final and (time.perf_counter() > deadline or len(found) >= MOST_READINGS):
                    self.behind = True
                    return found
                values, more = stream.read(time.time(), final)
                found += self._readings(stream, values)
        return found

    @property
    def progress(self) -> tuple[int, int, str]:
        """How far the run is: done, total, and the unit; zeros if the script does not say it."""
        streams = sorted(self._streams.values(), key=lambda stream: stream.rank or 0)
        for stream in streams:
            if isinstance(stream, Recorded) and stream.progress:
                return *stream.progress, "steps"
        return next(
            (
                stream.printed.progress
                for stream in streams
                if isinstance(stream, PrintedLog) and stream.printed.progress[1]
            ),
            (0, 0, ""),
        )

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
    def left_out(self) -> list[str]:
        """What was skipped and why, as sentences."""
        counts: dict[str, int] = {}
        for stream in self._streams.values():
            for what, count in stream.left_out.items():
                counts[what] = counts.get(what, 0) + count
        sentences = [f"Left out {count:,} {what}." for what, count in counts.items()]
        if self._over:
            sentences.append(f"Left out {self._over:,} values: a run has at most {MOST_METRICS:,} metrics.")
        return sentences

    def _discover(self) -> None:
        """Follow new files."""
        for path in sorted((self.run_folder / "logs").glob("*.log")):
            if path not in self._streams and path.stem != "worker":
                word, _, number = path.stem.partition(" ")
                self._streams[path] = PrintedLog(path, int(number) if word == "rank" and number.isdigit() else None)
        for path in sorted((self.run_folder / "recorded").glob("*.jsonl")):
            if path not in self._streams:
                self._streams[path] = Recorded(path)
        for path in sorted(self._trackio.glob("**/inbox/*/*.jsonl")):
            if path not in self._streams:
                self._streams[path] = Fragment(path, self._seen)

    def _readings(self, stream: Stream, values: list[Value]) -> Iterator[Reading]:
        for name, step, value, at, unit, example in values:
            short = name if len(name) <= LONGEST_METRIC else shortened(name, LONGEST_METRIC)
            if (known := self.recognised.get(short)) is None:
                if len(self.recognised) >= MOST_METRICS:
                    self._over += 1
                    continue
                known = self.recognised[short] = Recognised(stream.source, example, unit)
            known.count += 1
            key = short, stream.rank
            if self._skip.get(key, 0):
                self._skip[key] -= 1
                continue
            yield Reading(stream.rank, stream.source, Point(short, step, value, max(0.0, at - self.since)))
