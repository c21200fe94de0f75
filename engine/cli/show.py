"""`show`: one run in full; also the summary that `run` prints at its end."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from engine.analysis.chance_level import not_learned
from engine.analysis.disturbance import in_words, named
from engine.analysis.result import ranked
from engine.analysis.total_work import declared
from engine.cli.answers import duration, moment, number, plain, print_json, table
from engine.cli.frame import json_option
from engine.home import Home
from engine.metrics import PHASES, metric
from engine.queue.cluster_wait import job_state
from engine.seeding import SEEDING
from engine.store import Reader
from engine.store.records import Event, RankRow, Run


@click.command("show")
@click.argument("run_id", metavar="ID", type=int)
@json_option
def show_command(run_id: int, as_json: bool) -> None:
    """Show one run: status, cause, progress, metrics, ranks, phases, config, environment, events.

    --json prints everything on the run's page, and its worker's `pid`; the export command exports curves.
    """
    with Reader.open(Home.find()) as reader:
        found = in_full(reader, run_id)
        if as_json:
            print_json(found)
        else:
            click.echo(_text(reader, run_id, found))


def summary(reader: Reader, run_id: int) -> dict[str, Any]:
    """Return the outcome of a run: its row in the list, with `metrics` (last values) in place of `last`, and its
    result.
    """
    entry = reader.runs.entry(run_id)
    row, result = plain(entry), ranked(entry)
    row["metrics"] = row.pop("last")
    bad = not_learned(entry)
    return {
        **row,
        "not_learned": bad.sentence if bad else "",
        "disturbance": entry.disturbance,
        "disturbed": entry.disturbed,
        "elapsed_s": entry.elapsed_s,
        "result": {**result.plain, "words": result.words} if result else None,
        "error": reader.runs.one(run_id).error,
    }


def summary_text(found: Mapping[str, Any]) -> str:
    """Return the summary as text."""
    word = "in" if found["status"] == "finished" else "after"
    startup = f" (start-up {duration(found['startup_time_s'])})" if found["startup_time_s"] is not None else ""
    times = f" {word} {duration(found['elapsed_s'])}{startup}" if found["elapsed_s"] is not None else ""
    cause = f" {found['cause']}" if found["cause"] else ""
    lines = [f"Run {found['id']} {found['status']}{times}.{cause}"]
    if found["result"]:
        lines.append(f"Result: {found['result']['words']}.")
    if found["not_learned"]:
        lines.append(found["not_learned"])
    if found["status"] == "failed" and found["error"]:
        lines += ["", *found["error"].rstrip().splitlines()[-20:]]
    if found["metrics"]:
        lines += ["", _metrics(found)]
    return "\n".join(lines)


def in_full(reader: Reader, run_id: int) -> dict[str, Any]:
    """Return everything on the run's page, as plain values."""
    run = reader.runs.one(run_id)
    job = job_state(run, reader.cluster_jobs.of(run_id))
    found = {
        **summary(reader, run_id),
        **plain(run),
        "config": reader.runs.config(run_id) or run.config,
        "pid": run.worker.pid if run.worker else None,
        "resumed_as": reader.runs.resumed_as(run_id),
        "retried_as": reader.runs.retried_as(run_id),
        "chain": [each for each, _ in reader.runs.chain(run_id)],
        "queue_position": reader.queue.position(run_id) if run.status == "queued" else None,
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
        "spans": [{"rank": rank, **plain(span)} for rank, span in reader.details.spans(run_id)],
    }
    return {name: plain(value) for name, value in found.items()}


def _metrics(found: Mapping[str, Any]) -> str:
    rows = [
        (metric(name).label, name, _value(value), _value(found["best"].get(name)), metric(name).unit)
        for name, value in sorted(found["metrics"].items())
    ]
    return table(("METRIC", "NAME", "LAST", "BEST", "UNIT"), rows)


def _value(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def _text(reader: Reader, run_id: int, found: Mapping[str, Any]) -> str:
    run = reader.runs.one(run_id)
    blocks = [summary_text(found) if not run.active else _state(run), _facts(run, found)]
    if run.active and found["metrics"]:
        blocks.append(_metrics(found))
    if ranks := reader.details.ranks(run_id):
        blocks.append(_ranks(ranks, reader.details.phases(run_id)))
    blocks.append("\n".join(f"{name} = {value}" for name, value in run.config.items()))
    blocks.append(_events(reader.details.events(run_id)))
    return "\n\n".join(filter(None, blocks))


def _state(run: Run) -> str:
    share = f", {run.progress_done / run.progress_total:.0%} done" if run.progress_total else ""
    return f"Run {run.id} is {run.status}{share}.{f' {run.cause}' if run.cause else ''}"


def _facts(run: Run, found: Mapping[str, Any]) -> str:
    facts = {
        "experiment": run.experiment + (f", preset {run.preset}" if run.preset else ""),
        "name": run.name,
        "owner": run.owner,
        "sweep": f"{run.sweep_id} (list its runs: list --sweep {run.sweep_id})" if run.sweep_id else "",
        "resumes" if run.resumes else "retries": f"run {run.parent_id}" if run.parent_id else "",
        "resumed as": _named(found["resumed_as"]),
        "retried as": _named(found["retried_as"]),
        "chain": _named(found["chain"]) if len(found["chain"]) > 2 else "",
        "total work": work.in_words() if (work := declared(run.experiment, found["config"])) else "",
        "limits": _terms(run),
        "created": moment(run.created_at),
        "started": moment(run.started_at),
        "ended": moment(run.ended_at),
        "resources": (
            f"{run.demand.ranks} ranks, {run.demand.threads_per_rank} threads per rank, "
            f"{run.demand.cores} cores, GPUs: "
            f"{list(run.gpus) or 'none'}"
        ),
        "runs on": _place(run, found["job"]),
        "worker": f"pid {run.worker.pid}" if run.worker else "",
        "seeding": f"rule {run.seeding}" if run.seeding != SEEDING else "",
        "tags": ", ".join(run.tags),
        "note": run.note,
        "disturbance": _disturbance(run, found),
        "commit": str(run.environment.get("git_commit", "")),
        "host": str(run.environment.get("host", "")),
    }
    return "\n".join(f"{name:<12}{value}" for name, value in facts.items() if value)


def _disturbance(run: Run, found: Mapping[str, Any]) -> str:
    if found["disturbance"] is None:
        return "unknown" if run.execution_time_s is not None else ""
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


def _named(runs: Sequence[int]) -> str:
    return ", ".join(f"run {run_id}" for run_id in runs)


def _terms(run: Run) -> str:
    longest, retries = run.terms.max_run_time_s, run.terms.max_retries
    said = [
        f"at most {longest:,.12g} s" if longest else "",
        f"retry {run.attempt} of {retries}" if retries else "",
        "ends if it hangs" if run.terms.end_when_hung else "",
    ]
    return ", ".join(filter(None, said))


def _ranks(ranks: Sequence[RankRow], phases: Mapping[int, Mapping[str, float]]) -> str:
    seen = [name for name in PHASES if any(name in seconds for seconds in phases.values())]
    rows = [
        (
            rank.rank,
            rank.role,
            rank.pid,
            rank.device,
            rank.state,
            rank.last_step,
            *(phases.get(rank.rank, {}).get(name) for name in seen),
        )
        for rank in ranks
    ]
    return table(("RANK", "ROLE", "PID", "DEVICE", "STATE", "STEP", *(f"{name.upper()} S" for name in seen)), rows)


def _events(events: Sequence[Event]) -> str:
    return (
        table(
            ("TIME", "EVENT", "BY", "DETAIL"),
            [(moment(event.at), event.kind, event.who, event.detail) for event in events],
        )
        if events
        else ""
    )
