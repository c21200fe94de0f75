"""Content of a message: what ended, its cause, duration, result and link. Composed from the store when it is sent."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from engine.analysis.result import better_values, ranked
from engine.analysis.run_values import kind_in_words
from engine.filter.tree import duration
from engine.registry import experiment_title
from engine.store import Reader, RunRow, StoredDuel, Sweep
from engine.store.notices.outbox import Message
from engine.store.records import BAD_ENDS, ENDED
from engine.trace.health import BAD

LONGEST_TEXT, LONGEST_SUBJECT, LONGEST_NAME = 600, 200, 120
Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Notice:
    """One message; all plain text."""

    key: str
    """Idempotency key, the same for repeated deliveries."""
    subject: str
    facts: tuple[tuple[str, str], ...]
    """Labels and their values."""
    bad: bool
    link: str = ""
    """URL of the page with details; empty if the console's URL is not set."""

    @property
    def text(self) -> str:
        """The message below its subject, one line per fact."""
        return "\n".join([*(f"{label}: {words}" for label, words in self.facts), *([self.link] if self.link else [])])


def notice_of(reader: Reader, message: Message, base: str = "") -> Notice:
    """Return the current content of a message; raises NoSuchRun, NoSuchSweep, NoSuchDuel after a deletion."""
    if message.kind == "test":
        facts = [("Purpose", f"test of subscription {message.subscription_id}, which will notify you of ended runs")]
        return _notice(message, "Parallab: a test message", facts, False, base)
    with reader.db.snapshot():
        if message.run_id is None:
            return _of_whole(reader, message, base)
        run = reader.runs.entry(message.run_id)
        if run.status not in ENDED:
            return _of_standstill(reader, message, run, base)
        name, ended = f"{run.id}: {title_of(run)}", _ended(run.status)
        took = "" if run.elapsed_s is None else duration(run.elapsed_s)
        facts = [("Run", name), ("Cause", run.cause), ("Duration", took)]
        if message.kind == "run":
            facts.append(("Result", result.words if (result := ranked(run)) else ""))
            subject, bad = f"Run {run.id} {ended}: {title_of(run)}", run.status in BAD_ENDS
        else:
            kind, whole, _ = _whole(reader, message)
            facts.insert(1, ("Part of", f"{kind} {_name(whole)}"))
            facts.append(("Next step", "the other runs continue; the next message comes when all have ended"))
            subject, bad = f"Run {run.id} {ended}, the first failure of {kind} {_name(whole)}", True
        return _notice(message, subject, facts, bad, _link(base, "run", run.id))


def _of_standstill(reader: Reader, message: Message, run: RunRow, base: str) -> Notice:
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
    return _notice(message, subject, facts, True, _link(base, "run", run.id))


def _whole(reader: Reader, message: Message) -> tuple[Literal["sweep", "duel"], Sweep | StoredDuel, list[RunRow]]:
    if message.sweep_id is not None:
        return "sweep", reader.sweeps.one(message.sweep_id), reader.sweeps.runs(message.sweep_id)
    runs = reader.duels.runs(message.duel_id or 0)
    return "duel", reader.duels.one(message.duel_id or 0), [run for each in runs.values() for run in each]


def _name(whole: Sweep | StoredDuel) -> str:
    otherwise = experiment_title(whole.experiment) if isinstance(whole, Sweep) else "unnamed"
    return f"{whole.id}: {_short(whole.name, LONGEST_NAME) or otherwise}"


def _of_whole(reader: Reader, message: Message, base: str) -> Notice:
    kind, whole, runs = _whole(reader, message)
    stuck = isinstance(whole, StoredDuel) and whole.stage == "tuning"
    bad = [run for run in runs if run.status in BAD_ENDS]
    ends = [run.ended_at for run in runs if run.ended_at]
    facts = [
        (kind.capitalize(), _name(whole)),
        ("Runs", ", ".join(f"{count:,} {status}" for status in ENDED if (count := whole.statuses.get(status)))),
        ("First failure", f"run {bad[0].id} {_ended(bad[0].status)}: {bad[0].cause}" if bad else ""),
        ("Next step", "the judged runs could not be queued; see the duel's page" if stuck else ""),
        ("Duration", f"{duration(_seconds(whole.created_at, max(ends)))} including waiting" if ends else ""),
        ("Best result", _best(runs) if kind == "sweep" else ""),
    ]
    subject = f"{kind.capitalize()} {'stopped after tuning' if stuck else 'ended'}, {_name(whole)}"
    return _notice(message, subject, facts, stuck or bool(bad), _link(base, kind, whole.id))


def _notice(message: Message, subject: str, facts: Facts, bad: bool, link: str) -> Notice:
    kept = tuple((label, _short(words)) for label, words in facts if words)
    return Notice(message.key, _short(subject, LONGEST_SUBJECT), kept, bad, link)


def title_of(run: RunRow) -> str:
    """Return a run's title in a message: its name, experiment and preset."""
    kind = kind_in_words(run.experiment, run.preset, run.config)
    return f"{_short(run.name, LONGEST_NAME)} ({kind})" if run.name else kind


def _ended(status: str) -> str:
    return {"cancelled": "was cancelled", "lost": "was lost"}.get(status, status)


def _best(runs: Iterable[RunRow]) -> str:
    """Return the best result, and its run if there are several; empty without results, and where neither direction is
    better.
    """
    results = [(result, run) for run in runs if (result := ranked(run))]
    better = better_values(results[0][0].result.metric, (run for _, run in results)) if results else None
    if not results or (better is None and len(results) > 1):
        return ""
    result, run = (min if better == "min" else max)(results, key=lambda each: each[0].value)
    return f"{result.words}{f', run {run.id}' if len(results) > 1 else ''}"


def _seconds(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _link(base: str, page: str, number: int) -> str:
    return f"{base}/{page}?{page}={number}" if base else ""


def _short(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text as one line, cut to a maximum length, without control characters and bidirectional marks."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
