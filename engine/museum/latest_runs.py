"""The newest run of each exhibit in the store, by any owner or by one. Torch-free."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.museum.exhibit import BROKEN, ERROR, HELD, SIGNS, UNSEEN, WAYS, Outcome, Sign, Way
from engine.store import Reader
from engine.store.records import ENDED, RunRow

NAME, PAGE = "fault_museum", 20


@dataclass(frozen=True)
class Visit:
    """The results of an exhibit in one run, with both versions done."""

    sign: Sign
    run: RunRow
    outcomes: Mapping[Way, Outcome]
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


def museum(reader: Reader, owner: str | None = None) -> Museum:
    """Return the museum's current state, of one owner's runs if given; reads runs until each exhibit is found."""
    visits: dict[str, Visit] = {}
    under_way = []
    for offset in range(0, reader.runs.count(experiment=NAME, owner=owner), PAGE):
        for run in reader.runs.find(experiment=NAME, owner=owner, limit=PAGE, offset=offset):
            if run.status not in ENDED:
                under_way.append(run)
            wanted = [
                each for each in SIGNS if each.name not in visits and run.config.get("exhibit") in (each.name, "all")
            ]
            if wanted and run.status != "queued":
                visits |= {visit.sign.name: visit for visit in _visits(reader, run, wanted)}
        if len(visits) == len(SIGNS):
            break
    return Museum(visits, tuple(under_way))


def _visits(reader: Reader, run: RunRow, wanted: list[Sign]) -> Iterator[Visit]:
    """Yield the exhibits that both versions have finished, with all values that they measure today."""
    events = [(event.kind, *event.detail.partition(": ")) for event in reader.details.events(run.id)]
    said = {(kind, name): words for kind, name, _, words in events}
    means = {(each.metric, each.rank): each.mean for each in reader.details.summaries(run.id)}
    ended = [
        sign
        for sign in wanted
        if (HELD, sign.name) in said
        and ((BROKEN, sign.name) in said or (UNSEEN, sign.name) in said)
        and all((sign.metric_of(number), rank) in means for number in sign.numbers for rank in range(len(WAYS)))
    ]
    series = reader.curves.series(run.id, [sign.metric for sign in ended]) if ended else []
    charts = {(each.metric, each.rank): dict(zip(each.steps, each.values, strict=True)) for each in series}
    for sign in ended:
        outcomes: dict[Way, Outcome] = {}
        for rank, way in enumerate(WAYS):
            found = {number.key: means[sign.metric_of(number), rank] for number in sign.numbers}
            numbers = {key: mean for key, mean in found.items() if mean is not None}
            error = said.get((ERROR, sign.name), "") if way == "wrong" else ""
            outcomes[way] = Outcome(numbers, charts.get((sign.metric, rank), {}), error)
        yield Visit(sign, run, outcomes, said.get((BROKEN, sign.name), ""), said.get((UNSEEN, sign.name), ""))
