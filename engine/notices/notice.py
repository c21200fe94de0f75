"""Content of a message: what ended, its cause, duration, result and link. Composed from the store when it is sent."""

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
from engine.trace.health import BAD

LONGEST_TEXT = 600
"""Maximum length of a cause or a name in a message."""


@dataclass(frozen=True)
class Notice:
    """One message, before formatting for a channel; all plain text."""

    key: str
    """Idempotency key, the same for repeated deliveries."""
    kind: str
    at: str
    """When it ended (UTC ISO 8601)."""
    subject: str
    facts: tuple[tuple[str, str], ...]
    """Labels and their values."""
    bad: bool
    link: str = ""
    """URL of the page with details; empty if the console's URL is not set."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The content for programs."""

    @property
    def text(self) -> str:
        """The whole message, one line per fact."""
        return "\n".join(
            [self.subject, *(f"{label}: {words}" for label, words in self.facts), *([self.link] if self.link else [])]
        )


def notice_of(reader: Reader, due: Due, base: str = "") -> Notice:
    """Return the current content of a message; raises NoSuchRun, NoSuchSweep, NoSuchDuel after a deletion."""
    if due.kind == "test":
        facts = (
            ("Channel", f"{due.channel_id}, of {due.owner}"),
            ("Purpose", "test of this channel, which will notify you of ended runs"),
        )
        return Notice(due.key, "test", due.made_at, "Parallab: a test message", facts, False, base)
    with reader.db.snapshot():
        if due.kind == "run":
            return _of_run(reader, due, reader.runs.entry(due.run_id or 0), base)
        if due.kind == "failure":
            return _of_failure(reader, due, base)
        return _of_duel(reader, due, base) if due.kind == "duel" else _of_sweep(reader, due, base)


def _of_run(reader: Reader, due: Due, run: RunRow, base: str) -> Notice:
    if run.status not in ENDED:
        return _of_standstill(reader, due, run, base)
    facts = [
        ("Run", f"{run.id}: {title_of(run)}"),
        ("Cause", run.cause),
        ("Duration", _took(run)),
        ("Result", found.words if (found := ranked(run)) else ""),
    ]
    subject = f"Run {run.id} {_ended(run.status)}: {title_of(run)}"
    data = {"run": _plain_run(run)}
    return _notice(due, subject, facts, run.status in BAD_ENDS, _link(base, "run", run.id), data)


def _of_standstill(reader: Reader, due: Due, run: RunRow, base: str) -> Notice:
    """Return the message about a run that has not ended: it stands still, or did when the message was written."""
    kinds = {state.lower() for state in BAD}
    said = [event.detail for event in reader.details.events(run.id) if event.kind in kinds]
    verdict = reader.details.health_now(run.id).verdict
    facts = [
        ("Run", f"{run.id}: {title_of(run)}"),
        ("Cause", said[-1] if said else verdict.sentence),
        ("Now", "" if verdict.state in BAD else "it continues"),
        ("Next step", "see its ranks; cancel it if it does not continue"),
    ]
    subject = f"Run {run.id} stands still: {title_of(run)}"
    return _notice(due, subject, facts, True, _link(base, "run", run.id), {"run": _plain_run(run)})


def _of_sweep(reader: Reader, due: Due, base: str) -> Notice:
    sweep = reader.sweeps.one(due.sweep_id or 0)
    runs = reader.sweeps.runs(sweep.id)
    facts = [("Sweep", f"{sweep.id}: {_title_of_sweep(sweep)}"), ("Runs", _counted(sweep.statuses)), *_first_bad(runs)]
    facts += [("Duration", _whole_time(sweep.created_at, runs)), ("Best result", _best(runs))]
    data = {
        "sweep": {
            "id": sweep.id,
            "name": sweep.name,
            "experiment": sweep.experiment,
            "owner": sweep.owner,
            "statuses": dict(sweep.statuses),
        }
    }
    subject = f"Sweep {sweep.id} ended: {_title_of_sweep(sweep)}"
    return _notice(due, subject, facts, _any_bad(runs), _link(base, "sweep", sweep.id), data)


def _of_duel(reader: Reader, due: Due, base: str) -> Notice:
    duel = reader.duels.one(due.duel_id or 0)
    runs = [run for each in reader.duels.runs(duel.id).values() for run in each]
    stuck = duel.stage == "tuning"
    facts = [
        ("Duel", f"{duel.id}: {_short(duel.name) or 'unnamed'}"),
        ("Runs", _counted(duel.statuses)),
        *_first_bad(runs),
    ]
    facts += [("Next step", "the judged runs could not be queued; see the duel's page")] if stuck else []
    facts += [("Duration", _whole_time(duel.created_at, runs))]
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
        f"Duel {duel.id} {'stopped after tuning' if stuck else 'ended'}{f': {_short(duel.name)}' if duel.name else ''}"
    )
    return _notice(due, subject, facts, stuck or _any_bad(runs), _link(base, "duel", duel.id), data)


def _of_failure(reader: Reader, due: Due, base: str) -> Notice:
    run = reader.runs.entry(due.run_id or 0)
    if run.status not in ENDED:
        return _of_standstill(reader, due, run, base)
    if due.sweep_id is not None:
        whole = f"sweep {due.sweep_id}: {_title_of_sweep(reader.sweeps.one(due.sweep_id))}"
    else:
        whole = f"duel {due.duel_id}: {_short(reader.duels.one(due.duel_id or 0).name) or 'unnamed'}"
    facts = [("Run", f"{run.id}: {title_of(run)}"), ("Part of", whole), ("Cause", run.cause), ("Duration", _took(run))]
    facts += [("Next step", "the other runs continue; the next message comes when all have ended")]
    subject = f"Run {run.id} {_ended(run.status)}, the first failure of {whole}"
    part = {"sweep": {"id": due.sweep_id}} if due.sweep_id is not None else {"duel": {"id": due.duel_id}}
    return _notice(due, subject, facts, True, _link(base, "run", run.id), {"run": _plain_run(run), **part})


def _notice(
    due: Due, subject: str, facts: Iterable[tuple[str, str]], bad: bool, link: str, data: Mapping[str, Any]
) -> Notice:
    kept = tuple((label, _short(words)) for label, words in facts if words)
    return Notice(due.key, due.kind, due.made_at, _short(subject, 200), kept, bad, link, data)


def title_of(run: RunRow) -> str:
    """Return a run's title in a message: its name, experiment and preset."""
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
    """Return the best result, and its run if there are several; empty without results."""
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
    return "" if run.elapsed_s is None else duration(run.elapsed_s)


def _whole_time(start: str, runs: Iterable[RunRow]) -> str:
    ends = [run.ended_at for run in runs if run.ended_at]
    return f"{duration(_seconds(start, max(ends)))} including waiting" if ends else ""


def _seconds(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _plain_run(run: RunRow) -> dict[str, Any]:
    """Return a run as plain values."""
    same = "id name experiment preset owner status cause created_at started_at ended_at execution_time_s sweep_id"
    result = ranked(run)
    return {**{name: getattr(run, name) for name in same.split()}, "result": result.plain if result else None}


def _link(base: str, page: str, number: int) -> str:
    return f"{base}/{page}?{page}={number}" if base else ""


def _short(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text as one line, cut to a maximum length, without control characters and bidirectional marks."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
