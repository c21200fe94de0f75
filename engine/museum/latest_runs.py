"""The newest run of each exhibit in the store, by any owner. Torch-free."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from engine.museum.events import BROKEN, ERROR, HELD, UNSEEN, heard
from engine.museum.outcome import WAYS, ExhibitOutcome, Way
from engine.signs.catalogue import SIGNS
from engine.signs.sign import Sign
from engine.store import Reader
from engine.store.curve_records import Series
from engine.store.records import ENDED, RunRow, Summary

NAME, PAGE = "fault_museum", 20


@dataclass(frozen=True)
class Visit:
    """The results of an exhibit in one run, with both versions done."""

    sign: Sign
    run: RunRow
    outcomes: Mapping[Way, ExhibitOutcome]
    caught: str
    """The invariant's error for the wrong version; empty where the fault was not reproduced."""
    unseen: str
    """The message where the fault was not reproduced."""


@dataclass(frozen=True)
class Museum:
    """The newest visit of each exhibit by name, and the queued and running runs, newest first."""

    visits: Mapping[str, Visit]
    under_way: tuple[RunRow, ...]

    def shows(self, name: str) -> RunRow | None:
        """Return the active run that will show an exhibit, if any."""
        return next((run for run in self.under_way if run.config.get("exhibit") in (name, "all")), None)


def museum(reader: Reader) -> Museum:
    """Return the museum's current state; reads runs until each exhibit is found."""
    visits: dict[str, Visit] = {}
    under_way = []
    for run in _runs(reader):
        if run.status not in ENDED:
            under_way.append(run)
        wanted = [sign for sign in SIGNS if sign.name not in visits and run.config.get("exhibit") in (sign.name, "all")]
        if wanted and run.status != "queued":
            visits |= {visit.sign.name: visit for visit in _visits(reader, run, wanted)}
        if len(visits) == len(SIGNS) and run.status in ENDED:
            break
    return Museum(visits, tuple(under_way))


def _runs(reader: Reader) -> Iterator[RunRow]:
    """Yield the museum's runs, newest first."""
    for offset in range(0, reader.runs.count(experiment=NAME), PAGE):
        yield from reader.runs.find(experiment=NAME, limit=PAGE, offset=offset)


def _visits(reader: Reader, run: RunRow, wanted: list[Sign]) -> Iterator[Visit]:
    events, summaries = reader.details.events(run.id), reader.details.summaries(run.id)
    measured = {(each.metric, each.rank) for each in summaries}
    ended = [
        (sign, told)
        for sign in wanted
        if HELD in (told := heard(events, sign))
        and (BROKEN in told or UNSEEN in told)
        and _of_this_version(sign, measured)
    ]
    series = reader.curves.series(run.id, [sign.metric for sign, _ in ended]) if ended else []
    for sign, told in ended:
        errors = {"wrong": told.get(ERROR, "")}
        outcomes = {way: _outcome(sign, rank, summaries, series, errors.get(way, "")) for rank, way in enumerate(WAYS)}
        yield Visit(sign, run, outcomes, told.get(BROKEN, ""), told.get(UNSEEN, ""))


def _of_this_version(sign: Sign, measured: Collection[tuple[str, int | None]]) -> bool:
    """Say whether a run has all metrics of the exhibit's current version."""
    return all((sign.metric_of(number), rank) in measured for number in sign.numbers for rank in range(len(WAYS)))


def _outcome(sign: Sign, rank: int, summaries: list[Summary], series: list[Series], error: str) -> ExhibitOutcome:
    means = {each.metric: each.mean for each in summaries if each.rank == rank}
    numbers = {number.key: value for number in sign.numbers if (value := means.get(sign.metric_of(number))) is not None}
    drawn = next((each for each in series if each.metric == sign.metric and each.rank == rank), None)
    return ExhibitOutcome(numbers, dict(zip(drawn.steps, drawn.values, strict=True)) if drawn else {}, error)
