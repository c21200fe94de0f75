"""`list`, `show`, `logs` and `ranks`: the runs, and one run in full, its logs and the activity of its ranks."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from engine.analysis.comparability import code_in_words, in_words, named
from engine.cli.answers import (
    answer,
    duration,
    moment,
    number,
    picked,
    plain,
    print_json,
    short,
    table,
    wants_json,
)
from engine.cli.frame import ID, command, option
from engine.errors import ConfigError, StoreBusy, UnknownName, counted, enumeration
from engine.filter.tree import Field
from engine.home import Home
from engine.metrics import PHASES, metric
from engine.queue.cluster_wait import job_state
from engine.seeding import SEEDING
from engine.store import Reader
from engine.store.records import BAD_ENDS, ENDED, Event, RankRow, Run, RunRow, Status
from engine.store.scripts import rendered
from engine.trace.health import Health

LOGS_POLL_S = 0.2
LONGEST_LINE = 1 << 20
"""Bytes; longer lines of a log are split."""
RANKS_EVERY_S = 1.0


@command("list")
def list_command(
    statuses: Sequence[Status] = option("Only runs with this status; repeatable.", "--status"),
    experiment: str | None = option("Only runs of this experiment."),
    owner: str | None = option("Only runs of this person."),
    sweep: int | None = option("Only runs of this sweep."),
    search: str = option("Only runs whose name, owner, experiment, preset, tags or id contain this text.", default=""),
    text: str = option(
        "Only runs that match a filter, such as 'trainers >= 4 and test/accuracy.best > 98'; see docs/filter.md.",
        "--filter",
        default="",
    ),
    sort: str | None = option("Sort by a field, such as duration; -test/accuracy.best sorts in descending order."),
    archived: bool = option("Include archived runs."),
    limit: int = option("Maximum number of runs to list.", type=click.IntRange(1, 100_000), default=50),
    offset: int = option("Number of runs to skip.", type=click.IntRange(0), default=0),
) -> None:
    """List runs, highest number first; archived ones only with --archived. Fields that --filter and --sort name are
    columns.

    A run gets its number when it is queued or imported; --sort -created sorts by the time that is recorded.
    """
    with Reader.open(Home.find()) as reader:
        if sweep is not None:
            reader.sweeps.one(sweep)  # raises for an unknown sweep
        matching = reader.fields.filter(text)
        away = None if archived or matching.mentions("archived") else False
        asked: dict[str, Any] = {"experiment": experiment, "owner": owner, "sweep": sweep, "search": search}
        asked |= {"statuses": statuses or None, "matching": matching, "archived": away}
        order = reader.fields.order(sort) if sort else None
        rows = reader.runs.find(**asked, order=order, limit=limit, offset=offset)
        total, unequal = reader.runs.count(**asked), ""
        notes = [*matching.notes, *reader.fields.notes_on_experiment(experiment)]
        if sweep is not None:
            from engine.analysis.scaling.scaling_data import unequal_of_sweep  # only here: it imports the configs

            unequal = unequal_of_sweep(reader, sweep)
        named = [order.field] if order else []
        named += sorted(matching.fields.difference(named), key=lambda field: field.written)
        more = _columns(named, rows, reader) if named and not wants_json() else {}
    for note in notes:
        click.echo(note, err=True)
    if wants_json():
        print_json(rows)
        return
    launch_one = "No matching runs. Launch one with: python -m engine run hogwild --preset quick"
    if any(row.tags for row in rows):
        more = {"TAGS": {row.id: short(", ".join(row.tags)) for row in rows}, **more}
    cells = [(*_cells(row), *(own.get(row.id) for own in more.values())) for row in rows]
    click.echo(table((*_HEADINGS, *more), cells, "No more runs." if total else launch_one))
    if total > len(rows) > 0:
        click.echo(f"Showing {len(rows):,} of {total:,}; use --limit and --offset for more.", err=True)
    if rows and unequal:
        click.echo(unequal)


_HEADINGS = ("ID", "SWEEP", "STATUS", "DONE", "EXPERIMENT", "PRESET", "NAME", "OWNER", "CREATED", "EXECUTION")
_IN_TABLE = {*map(str.lower, _HEADINGS), "duration", "tag", "tags"}


def _columns(fields: Iterable[Field], rows: Sequence[RunRow], reader: Reader) -> dict[str, dict[int, object]]:
    """Return the values of the fields that the table of runs lacks, by heading and run."""
    from engine.config_values import value_in_words  # only here: it imports pydantic

    ids, found = [row.id for row in rows], dict[str, dict[int, object]]()
    for field in fields:
        if field.source == "config":
            found[field.written] = {
                row.id: held if isinstance(held, int | float) and not isinstance(held, bool) else value_in_words(held)
                for row in rows
                if (held := row.config.get(field.name)) is not None
            }
        elif field.source == "metric":
            found[f"{field.name}.{field.of}"] = {**reader.fields.values(ids, field)}
        elif field.name not in _IN_TABLE:
            shown = {"seconds": lambda held: duration(float(held)), "time": moment, "flag": value_in_words}
            held = reader.fields.texts(ids, [field])[field]
            found[field.written] = {run_id: shown.get(field.kind, str)(one) for run_id, one in held.items()}
    return found


def _cells(row: RunRow) -> tuple[object, ...]:
    unknown = row.reported or (row.status in ENDED and not row.progress)  # other programs record none
    return (
        *(row.id, row.sweep_id, row.status, "" if unknown else f"{row.progress:.0%}", row.experiment, row.preset),
        *(short(row.name), short(row.owner)),
        *(moment(row.created_at), duration(row.elapsed_s)),
    )


@command("show")
def show_command(
    run_id: int | None = ID,
    latest: str | None = option(
        "The run with the highest number that matches, such as 'experiment == \"hogwild\"'.", metavar="FILTER"
    ),
) -> None:
    """Show one run, by its ID or the last one of a filter: status, cause, progress, metrics, ranks, phases, config,
    environment, events.

    --json prints everything on the run's page, and its worker's `pid`; the export command exports curves.
    """
    if (run_id is None) == (latest is None):
        raise ConfigError.of("id", "show needs either the id of a run or --latest FILTER.")
    with Reader.open(Home.find()) as reader:
        if latest is not None:
            run_id = reader.runs.newest(reader.fields.filter(latest))
        if run_id is None:
            raise ConfigError.of("latest", f"No run matches {latest!r}. `list --filter` shows what matches.")
        found = in_full(reader, run_id)
        answer(found, lambda: _text(reader, run_id, found))


def summary(reader: Reader, run_id: int) -> dict[str, Any]:
    """Return the outcome of a run: its row in the list, with `metrics` (last values) in place of `last`, and its
    result.
    """
    from engine.analysis.result import (
        not_learned,  # these import the configs
        ranked,
    )

    entry, run = reader.runs.entry(run_id), reader.runs.one(run_id)
    row, result = plain(entry), ranked(entry)
    row["metrics"] = row.pop("last")
    row["units"] = entry.units
    del row["metric_settings"]
    bad = not_learned(entry)
    return {
        **row,
        "not_learned": bad.sentence if bad else "",
        **picked(entry, "disturbance", "disturbed", "elapsed_s"),
        "result": {**result.plain, "words": result.words} if result else None,
        "command": rendered(run.command, run.config).argv if run.command else None,
        "error": run.error,
    }


def summary_text(found: Mapping[str, Any], *, has_logs: bool = True) -> str:
    """Return the summary as text; runs of other programs have no logs here."""
    word = "in" if found["status"] == "finished" else "after"
    startup = f" (start-up {duration(found['startup_time_s'])})" if found["startup_time_s"] is not None else ""
    times = f" {word} {duration(found['elapsed_s'])}{startup}" if found["elapsed_s"] is not None else ""
    cause = f" {found['cause']}" if found["cause"] else ""
    lines = [f"Run {found['id']} {found['status']}{times}.{cause}"]
    if found["result"]:
        lines.append(f"Result: {found['result']['words']}.")
    if found["not_learned"]:
        lines.append(found["not_learned"])
    if found["status"] in BAD_ENDS:
        if found["error"]:
            lines += ["", *found["error"].rstrip().splitlines()[-20:]]
        if has_logs:
            lines += ["", f"Whole logs: python -m engine logs {found['id']}"]
    if metrics := _metrics(found):
        lines += ["", metrics]
    return "\n".join(lines)


def in_full(reader: Reader, run_id: int) -> dict[str, Any]:
    """Return everything on the run's page, as plain values."""
    run = reader.runs.one(run_id)
    job = job_state(run, reader.cluster_jobs.of(run_id))
    found = {
        **summary(reader, run_id),
        **plain(replace(run, command=None)),
        **_script(run),
        "config": reader.runs.config(run_id) or run.config,
        "pid": run.worker.pid if run.worker else None,
        "resumed_as": reader.runs.resumed_as(run_id),
        "cloned_from": reader.runs.cloned_from(run_id),
        "cloned_as": reader.runs.cloned_as(run_id),
        "retried_as": reader.runs.retried_as(run_id),
        "chain": [each for each, _ in reader.runs.chain(run_id)],
        "queue_position": reader.queue.position(run_id) if run.status == "queued" else None,
        "wait_reason": _wait_reason(reader, run),
        "job": plain(job) | {"cluster": run.target} if job else None,
        "ranks": reader.details.ranks(run_id),
        "summaries": reader.details.summaries(run_id),
        "phases": reader.details.phases(run_id),
        "events": reader.details.events(run_id),
        "logs": [{"source": source, "path": path} for source, path in reader.details.logs(run_id)],
        "machine": reader.details.machine(run_id),
        "histograms": [
            {"rank": rank, "name": name, "counts": counts}
            for (rank, name), counts in reader.details.histograms(run_id).items()
        ],
        "spans": [{"rank": rank, **span._asdict()} for rank, span in reader.details.spans(run_id)],
    }
    return {name: plain(value) for name, value in found.items()}


def _wait_reason(reader: Reader, run: Run) -> str | None:
    if run.status != "queued":
        return None
    from engine.queue.forecast import wait_reason  # imports psutil and pydantic

    return wait_reason(reader, run)


def _script(run: Run) -> dict[str, Any]:
    """Return the command of a run: its words as it runs, and what they were read from."""
    if run.command is None:
        return {}
    as_run = rendered(run.command, run.config)
    return {
        "command": as_run.argv,
        "command_environment": as_run.environment,
        "pasted": list(run.command.argv),
        **picked(run.command, "folder", "python", "script", "level"),
    }


def _metrics(found: Mapping[str, Any]) -> str:
    """Return the metrics as a table; of a run that failed only those of learning, without its use of the machine."""
    names = [
        name for name in sorted(found["metrics"]) if found["status"] not in BAD_ENDS or not name.startswith("perf/")
    ]
    if not names:
        return ""
    rows = [
        (
            metric(name).label,
            name,
            *(_value(found[of].get(name)) for of in ("metrics", "best")),
            found["units"].get(name, metric(name).unit),
        )
        for name in names
    ]
    return table(("METRIC", "NAME", "LAST", "BEST", "UNIT"), rows)


def _value(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def _text(reader: Reader, run_id: int, found: Mapping[str, Any]) -> str:
    run = reader.runs.one(run_id)
    from engine.analysis.total_work import work_of  # imports the configs

    work = work_of(reader.runs.entry(run_id), reader.studies.surroundings([run_id]).get(run_id))
    blocks = [
        summary_text(found, has_logs=run.has_ranks) if not run.active else _state(run),
        _facts(run, found, work.in_words() if work else ""),
    ]
    if run.active:
        blocks.append(_metrics(found))
    if ranks := reader.details.ranks(run_id):
        blocks.append(_ranks(ranks, reader.details.phases(run_id)))
    blocks.append("\n".join(f"{name} = {value}" for name, value in run.config.items()))
    blocks.append(_events(reader.details.events(run_id)))
    return "\n\n".join(filter(None, blocks))


def _state(run: Run) -> str:
    share = f", {run.progress_done / run.progress_total:.0%} done" if run.progress_total else ""
    return f"Run {run.id} is {run.status}{share}.{f' {run.cause}' if run.cause else ''}"


def _facts(run: Run, found: Mapping[str, Any], work: str) -> str:
    starts = [each for each in reversed(found["events"]) if each["kind"] == "starting"]
    facts = {
        "experiment": run.experiment + (f", preset {run.preset}" if run.preset else ""),
        "command": rendered(run.command, run.config).text if run.command else "",
        "folder": run.command.folder if run.command else "",
        "name": run.name,
        "owner": run.owner,
        "sweep": f"{run.sweep_id} (list its runs: list --sweep {run.sweep_id})" if run.sweep_id else "",
        "resumes" if run.resumes else "retries": f"run {run.parent_id}" if run.parent_id else "",
        "waits": (found["wait_reason"] or "").removeprefix("waits "),
        "waited": next((told["detail"].partition("; waited ")[2] for told in starts), ""),
        "resumed as": _ids(found["resumed_as"]),
        "clone of": found["cloned_from"] or "",
        "cloned as": _ids(found["cloned_as"]),
        "retried as": _ids(found["retried_as"]),
        "chain": _ids(found["chain"]) if len(found["chain"]) > 2 else "",
        "total work": work,
        "limits": _terms(run),
        "created": moment(run.created_at),
        "started": moment(run.started_at),
        "ended": moment(run.ended_at),
        "resources": _resources(run) if run.has_ranks else "",
        "runs on": _place(run, found["job"]),
        "worker": f"pid {run.worker.pid}" if run.worker else "",
        "seeding": f"rule {run.seeding}" if run.has_ranks and run.seeding != SEEDING else "",
        "tags": ", ".join(run.tags),
        "note": run.note,
        "disturbance": _disturbance(run, found),
        "code": code_in_words(run.environment),
        "Parallab": " ".join(str(run.environment.get(name, "")) for name in ("parallab", "git_commit")).strip(),
        "host": str(run.environment.get("host", "")),
    }
    return "\n".join(f"{name:<12}{value}" for name, value in facts.items() if value)


def _resources(run: Run) -> str:
    demand = run.demand
    return (
        f"{counted(demand.ranks, 'rank')}, {counted(demand.threads_per_rank, 'thread')} per rank, "
        f"{counted(demand.cores, 'core')}, GPUs: {list(run.gpus) or 'none'}"
    )


def _disturbance(run: Run, found: Mapping[str, Any]) -> str:
    if found["disturbance"] is None:
        return "unknown" if run.has_ranks and run.execution_time_s is not None else ""
    return "; ".join(filter(None, [in_words(found["disturbance"]) + ", disturbed" * found["disturbed"], named(run)]))


def _place(run: Run, job: Mapping[str, str] | None) -> str:
    """Return the cluster of a run, with its job and what Slurm says of it; empty for this machine."""
    if not run.target:
        return ""
    nodes = f", {run.nodes} nodes" if run.nodes > 1 else ""
    if job is None:
        return f"{run.target}{nodes}"
    reason = f"({job['reason']})" if job["reason"] else ""
    state = " ".join(filter(None, [job["state"], reason, job["nodes"]]))
    return f"{run.target}{nodes}, job {job['job_id'] or 'not submitted yet'}{f': {state}' if state else ''}"


def _ids(runs: Sequence[int]) -> str:
    return ", ".join(f"run {run_id}" for run_id in runs)


def _terms(run: Run) -> str:
    longest = f"at most {run.terms.max_run_time_s:,.12g} s" if run.terms.max_run_time_s else ""
    retries = f"retry {run.attempt} of {run.terms.max_retries}" if run.terms.max_retries else ""
    return ", ".join(filter(None, [longest, retries, "ends if it hangs" if run.terms.end_when_hung else ""]))


def _ranks(ranks: Sequence[RankRow], phases: Mapping[int, Mapping[str, float]]) -> str:
    seen = [name for name in PHASES if any(name in seconds for seconds in phases.values())]
    rows = [
        (
            *(rank.rank, rank.role, rank.pid, rank.device, rank.state, rank.last_step),
            *(phases.get(rank.rank, {}).get(name) for name in seen),
        )
        for rank in ranks
    ]
    return table(("RANK", "ROLE", "PID", "DEVICE", "STATE", "STEP", *(f"{name.upper()} S" for name in seen)), rows)


def _events(events: Sequence[Event]) -> str:
    rows = [(moment(event.at), event.kind, event.who, event.detail) for event in events]
    return table(("TIME", "EVENT", "BY", "DETAIL"), rows) if rows else ""


@command("logs")
def logs_command(
    run_id: int = ID,
    wanted: Sequence[str] = option("Only this log, such as worker or trainer1; repeatable.", "--source"),
    follow: bool = option("Keep printing until the run ends.", "--follow", "-f"),
    lines: int | None = option(
        "Number of lines to print from the end of each log (default: all).", type=click.IntRange(0)
    ),
) -> None:
    """Print the logs of a run, each line prefixed by its source; with --json, one object per line."""
    for source, line in read_logs(Home.find(), run_id, wanted, follow=follow, lines=lines):
        answer({"source": source, "line": line}, line if len(wanted) == 1 else f"{source:<10}| {line}")


@dataclass
class LogFollower:
    """Reads new lines of one log file; the last, partial line only with `final`."""

    path: Path
    offset: int = 0
    rest: bytes = b""

    def read(self, *, final: bool = False) -> Iterator[str]:
        """Yield the new lines."""
        from engine.system.run_files import offset_now, pieces  # ctypes, which no other command here needs

        if self.path.is_file():
            self.offset = offset_now(self.path, self.offset)
        for piece in pieces(self.path, self.offset):
            self.offset = piece.end
            *whole, self.rest = (self.rest + piece.text).split(b"\n")
            if len(self.rest) >= LONGEST_LINE:
                whole, self.rest = [*whole, self.rest], b""
            yield from map(_line, whole)
        if final and self.rest:
            rest, self.rest = self.rest, b""
            yield _line(rest)


def _line(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def read_logs(
    home: Home, run_id: int, wanted: Sequence[str] = (), *, follow: bool = False, lines: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (source, line) of each log; with `follow`, until the run has ended and everything is read."""
    tails: dict[str, LogFollower] = {}
    active = True
    while active:
        active = _discover(home, run_id, tails, follow)
        chosen = {source: tail for source, tail in tails.items() if not wanted or source in wanted}
        if not active and (unknown := [source for source in wanted if source not in tails]):
            raise UnknownName("log of this run", unknown[0], tails)
        for source, tail in chosen.items():
            first = tail.offset == 0
            found: Iterable[str] = tail.read(final=not active)
            if first and lines is not None:
                found = deque(found, maxlen=lines)
            yield from ((source, line) for line in found)
        if active:
            time.sleep(LOGS_POLL_S)


def _discover(home: Home, run_id: int, tails: dict[str, LogFollower], follow: bool) -> bool:
    """Add new logs; return whether to keep following."""
    try:
        with Reader.open(home) as reader:
            run = reader.runs.one(run_id)  # before the files are read, so that the last lines are not missed
            for source, path in reader.details.logs(run_id):
                tails.setdefault(source, LogFollower(home.run_folder(run_id) / path))
    except StoreBusy:
        if not follow:
            raise
        return True
    return follow and run.active


@command("ranks")
def ranks_command(run_id: int = ID, watch: bool = option("Print again each second until the run ends.")) -> None:
    """Show what each rank of a run is doing, whom it waits for, and whether one stands still."""
    while True:
        with Reader.open(Home.find()) as reader:
            run = reader.runs.one(run_id)
            health = reader.details.health_now(run_id, _wait_reason(reader, run))
        answer(health.plain(), _activity(health))
        if not watch or run.status in ENDED:
            return
        time.sleep(RANKS_EVERY_S)


def _activity(health: Health) -> str:
    rows = [
        (
            *(rank.role, rank.pid, rank.state, rank.phase, "" if rank.operation == rank.phase else rank.operation),
            *(rank.step, enumeration(rank.waits_for), duration(rank.since_s), rank.place),
        )
        for rank in health.ranks
    ]
    headings = ("RANK", "PID", "PROCESS", "PHASE", "OPERATION", "STEP", "WAITS FOR", "QUIET", "PLACE")
    verdict = f"{health.verdict.state}. {health.verdict.sentence}".strip()
    return f"{table(headings, rows)}\n\n{verdict}" if rows else verdict
