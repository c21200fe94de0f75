"""The rest of a run whose worker is gone: what its sources hold and the store does not. Torch-free."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from engine.commands.kept_files import keep_left_files
from engine.runtime.command.attached import followed_of, sources_of
from engine.runtime.command.process import forget_pids, known_pids
from engine.runtime.command.sources.readings import Reading, by_rank
from engine.runtime.command.sources.sources import Sources
from engine.runtime.worker.sink import retry_while_busy
from engine.store import Store
from engine.store.records import RankBatch, Run


@dataclass(frozen=True)
class _StoredPoints:
    """The points of a metric and rank that are stored at first: steps and values in their order, however often."""

    store: Store
    recording_id: int
    count: int

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return islice(self._all(), self.count)

    def _all(self) -> Iterator[tuple[int, float]]:
        after = -1
        while page := self.store.read.points.page(self.recording_id, after=after):
            yield from ((point.step, point.value) for point in page)
            after = page[-1].id


def store_rest(store: Store, run: Run, folder: Path) -> None:
    """Store all that the sources of a run, whose folder is given, have and the store does not, and keep its files."""
    if run.command:
        keep_left_files(store, run.id, folder, retry_while_busy)
    if (sources := _sources(folder, run)) is None:
        return
    count = {(each.metric, each.rank): each.count + each.nonfinite for each in store.read.details.summaries(run.id)}
    known = store.read.points.recordings(run.id)
    sources.skip({(e.metric, e.rank): _StoredPoints(store, e.id, count[e.metric, e.rank]) for e in known})
    for readings in sources.rest():
        _store(store, run.id, readings)
    forget_pids(folder)


def _sources(folder: Path, run: Run) -> Sources | None:
    """Return the sources of a run that has begun; None if it has none, or all of them is stored."""
    begun_at = run.started_at or run.begun_at
    if begun_at is None:
        return None
    if followed := followed_of(run):
        return sources_of(folder, followed)
    if run.command is None or not (pids := known_pids(folder)):
        return None
    since, host = datetime.fromisoformat(begun_at).timestamp(), str(run.environment.get("host", ""))
    return Sources(folder, Path(run.command.folder), since=since, pids=lambda: pids, host=host)


def _store(store: Store, run_id: int, readings: Iterable[Reading]) -> None:
    of_ranks = by_rank(readings)
    if of_ranks:
        batches = [RankBatch(rank, points) for rank, points in of_ranks.items() if rank is not None]
        retry_while_busy(lambda: store.worker.write(run_id, batches, of_ranks.get(None, ())))
