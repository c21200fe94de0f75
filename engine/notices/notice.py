"""What a message says: what has ended, how, why, how long it took, its result, and where to look. Made from the store
when it is sent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.analysis.result import ranked
from engine.errors import EngineError
from engine.filter.times import duration
from engine.metrics import metric
from engine.registry import experiment
from engine.store import Reader, RunRow, Sweep
from engine.store.notices.delivery import Due
from engine.store.records import BAD_ENDS, ENDED

LONGEST_TEXT = 600
"""Characters of a cause or a name in a message."""


@dataclass(frozen=True)
class Notice:
    """One message, before it is written for a channel; all of it plain text."""

    key: str
    """What a receiver knows it by again where it comes twice."""
    kind: str
    at: str
    """When it ended (UTC ISO 8601)."""
    subject: str
    facts: tuple[tuple[str, str], ...]
    """Labels with what stands behind them."""
    bad: bool
    link: str = ""
    """The page that shows more; empty where the console's URL is not set."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""

    @property
    def text(self) -> str:
        """All of it, a line a fact."""
        return "\n".join(
            [self.subject, *(f"{label}: {words}" for label, words in self.facts), *([self.link] if self.link else [])]
        )


def notice_of(reader: Reader, due: Due, base: str = "") -> Notice:
    """Return what a message says as of now; raises NoSuchRun, NoSuchSweep, NoSuchDuel where that was
    deleted meanwhile.
    """
    if due.kind == "test":
        facts = (
            ("Channel", f"{due.channel_id}, of {due.owner}"),
            ("What this is", "a test: what ends is told here from now on"),
        )
        return Notice(due.key, "test", due.made_at, "Parallab: a test message", facts, False, base)
    with reader.db.snapshot():
        if due.kind == "run":
            return _of_run(due, reader.runs.entry(due.run_id or 0), base)
        if due.kind == "failure":
            return _of_failure(reader, due, base)
        return _of_duel(reader, due, base) if due.kind == "duel" else _of_sweep(reader, due, base)


def _of_run(due: Due, run: RunRow, base: str) -> Notice:
    facts = [
        ("Run", f"{run.id}: {title_of(run)}"),
        ("Why", run.cause),
        ("Took", _took(run)),
        ("Result", found.words if (found := ranked(run)) else ""),
    ]
    subject = f"Run {run.id} {_ended(run.status)}: {title_of(run)}"
    data = {"run": _plain_run(run)}
    return _notice(due, subject, facts, run.status in BAD_ENDS, _link(base, "run", run.id), data)


def _of_sweep(reader: Reader, due: Due, base: str) -> Notice:
    sweep = reader.sweeps.one(due.sweep_id or 0)
    runs = reader.sweeps.runs(sweep.id)
    facts = [("Sweep", f"{sweep.id}: {_title_of_sweep(sweep)}"), ("Runs", _counted(sweep.statuses)), *_first_bad(runs)]
    facts += [("Took", _whole_time(sweep.created_at, runs)), ("Best result", _best(runs))]
    data = {
        "sweep": {
            "id": sweep.id,
            "name": sweep.name,
            "experiment": sweep.experiment,
            "owner": sweep.owner,
            "statuses": dict(sweep.statuses),
        }
    }
    subject = f"Sweep {sweep.id} has ended: {_title_of_sweep(sweep)}"
    return _notice(due, subject, facts, _any_bad(runs), _link(base, "sweep", sweep.id), data)


def _of_duel(reader: Reader, due: Due, base: str) -> Notice:
    duel = reader.duels.one(due.duel_id or 0)
    runs = [run for each in reader.duels.runs(duel.id).values() for run in each]
    stuck = duel.stage == "tuning"
    facts = [
        ("Duel", f"{duel.id}: {_short(duel.name) or 'no name'}"),
        ("Runs", _counted(duel.statuses)),
        *_first_bad(runs),
    ]
    facts += [("What now", "it could not go on to the runs that are judged; its page says why")] if stuck else []
    facts += [("Took", _whole_time(duel.created_at, runs))]
    data = {
        "duel": {
            "id": duel.id,
            "name": duel.name,
            "owner": duel.owner,
            "stage": duel.stage,
            "statuses": dict(duel.statuses),
        }
    }
    subject = (
        f"Duel {duel.id} "
        f"{'stopped after its tuning' if stuck else 'has ended'}{f': {_short(duel.name)}' if duel.name else ''}"
    )
    return _notice(due, subject, facts, stuck or _any_bad(runs), _link(base, "duel", duel.id), data)


def _of_failure(reader: Reader, due: Due, base: str) -> Notice:
    run = reader.runs.entry(due.run_id or 0)
    if due.sweep_id is not None:
        whole = f"sweep {due.sweep_id}: {_title_of_sweep(reader.sweeps.one(due.sweep_id))}"
    else:
        whole = f"duel {due.duel_id}: {_short(reader.duels.one(due.duel_id or 0).name) or 'no name'}"
    facts = [("Run", f"{run.id}: {title_of(run)}"), ("Part of", whole), ("Why", run.cause), ("Took", _took(run))]
    facts += [("What now", "the others go on; the next message comes when all have ended")]
    subject = f"Run {run.id} {_ended(run.status)}, the first of {whole}"
    part = {"sweep": {"id": due.sweep_id}} if due.sweep_id is not None else {"duel": {"id": due.duel_id}}
    return _notice(due, subject, facts, True, _link(base, "run", run.id), {"run": _plain_run(run), **part})


def _notice(
    due: Due, subject: str, facts: Iterable[tuple[str, str]], bad: bool, link: str, data: Mapping[str, Any]
) -> Notice:
    kept = tuple((label, _short(words)) for label, words in facts if words)
    return Notice(due.key, due.kind, due.made_at, _short(subject, 200), kept, bad, link, data)


def title_of(run: RunRow) -> str:
    """Return what a run is called in a message: its name, or its experiment and preset."""
    kind = _title(run.experiment)
    kind = f"{kind}, {run.preset}" if run.preset else kind
    return f"{_short(run.name, 120)} ({kind})" if run.name else kind


def _title_of_sweep(sweep: Sweep) -> str:
    return _short(sweep.name, 120) or _title(sweep.experiment)


def _title(name: str) -> str:
    try:
        return experiment(name).title
    except EngineError:
        return name


def _ended(status: str) -> str:
    return {"cancelled": "was cancelled", "lost": "was lost"}.get(status, status)


def _best(runs: Iterable[RunRow]) -> str:
    """Return the best result, and of several runs which has it; empty where none has any."""
    found = [(result, run) for run in runs if (result := ranked(run))]
    if not found:
        return ""
    is_least = metric(found[0][0].result.metric).better == "min"
    result, run = (min if is_least else max)(found, key=lambda each: each[0].value)
    return f"{result.words}{f', run {run.id}' if len(found) > 1 else ''}"


def _first_bad(runs: Iterable[RunRow]) -> list[tuple[str, str]]:
    bad = [run for run in runs if run.status in BAD_ENDS]
    return [("First failure", f"run {bad[0].id} {_ended(bad[0].status)}: {bad[0].cause}")] if bad else []


def _any_bad(runs: Iterable[RunRow]) -> bool:
    return any(run.status in BAD_ENDS for run in runs)


def _counted(statuses: Mapping[Any, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status in ENDED if (count := statuses.get(status)))


def _took(run: RunRow) -> str:
    if run.execution_time_s is not None:
        return duration(run.execution_time_s)
    return duration(_seconds(run.started_at, run.ended_at)) if run.started_at and run.ended_at else ""


def _whole_time(start: str, runs: Iterable[RunRow]) -> str:
    ends = [run.ended_at for run in runs if run.ended_at]
    return f"{duration(_seconds(start, max(ends)))}, waiting counted" if ends else ""


def _seconds(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _plain_run(run: RunRow) -> dict[str, Any]:
    """Return a run for programs."""
    same = "id name experiment preset owner status cause created_at started_at ended_at execution_time_s sweep_id"
    result = ranked(run)
    return {**{name: getattr(run, name) for name in same.split()}, "result": result.plain if result else None}


def _link(base: str, page: str, number: int) -> str:
    return f"{base}/{page}?{page}={number}" if base else ""


def _short(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text in one line of plain characters, cut where it is long: control characters and marks that turn
    writing round are left out.
    """
    plain = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
