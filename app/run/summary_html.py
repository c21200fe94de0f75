"""What a run's page tells of it, as HTML: where it is and why, how far, its most telling numbers, its ranks and its
events.
"""

from collections.abc import Sequence
from html import escape

from app.core.formatting import absolute, ago, duration, since
from app.ui.html import bar, facts, number, sweep_link, table, when
from app.ui.run_state import time_left
from engine.analysis.result import Ranked, ranked
from engine.experiment.definition import HEADLINE, STATISTICS, Of
from engine.metrics import metric
from engine.registry import known_experiment
from engine.seeding import SEEDING
from engine.store.records import Event, RankRow, Run, RunRow, Summary
from engine.store.runs.origins import Origin


def cause(run: Run, entry: RunRow) -> str:
    """Return where a run that has left the queue is and why, in a sentence."""
    if run.status == "starting":
        return "The worker starts its ranks and loads the data."
    if run.status == "running":
        done = (
            f"{run.progress_done:,} of {run.progress_total:,} {run.progress_unit}" if run.progress_total else "its work"
        )
        return escape(f"{entry.progress:.0%} done ({done}), {time_left(entry)}.")
    if run.status == "stopping":
        how = "killed" if run.stop_kind == "force" else "ended"
        return escape(f"Asked to stop by {run.stop_requested_by}; its processes are being {how}.")
    return escape(run.cause or "It ended without saying why.")


def progress(entry: RunRow) -> str:
    """Return how far a run is, as a bar."""
    return bar(entry.progress, f"Progress of run {entry.id}")


def facts_of(run: Run, origin: Origin | None = None) -> str:
    """Return who launched the run, when, how long it takes, what it holds, and where it comes from if it
    was imported.
    """
    pairs = [("Owner", escape(run.owner)), ("Launched", when(run.created_at))]
    pairs.append(("Ended", when(run.ended_at)) if run.ended_at else ("Started", when(run.started_at)))
    on_for = run.execution_time_s
    if on_for is None and (here := since(run.started_at, run.ended_at)) is not None:
        on_for = run.time_before_s + here
    pairs.append(
        ("Execution time", f'<span title="{escape(metric("perf/execution_time_s").help)}">{duration(on_for)}</span>')
    )
    pairs.append(
        (
            "Start-up time",
            f'<span title="{escape(metric("perf/startup_time_s").help)}">{duration(run.startup_time_s)}</span>',
        )
    )
    if run.demand.ranks:
        pairs.append(("Ranks", str(run.demand.ranks)))
    if run.terms.priority != "normal":
        pairs.append(("Priority", run.terms.priority))
    if run.cores or run.terms.oversubscribe:
        pairs.append(("Cores", "shared with other runs" if run.terms.oversubscribe else ", ".join(map(str, run.cores))))
    if run.terms.max_run_time_s:
        pairs.append(("Time limit", duration(run.terms.max_run_time_s)))
    if run.terms.max_retries:
        pairs.append(("Retries", f"{run.attempt} of {run.terms.max_retries}"))
    if run.sweep_id:
        pairs.append(("Part of", sweep_link(f"sweep {run.sweep_id}", run.sweep_id)))
    if origin is not None:
        pairs.append(("Comes from", escape(origin.words)))
    if run.tags:
        pairs.append(("Tags", escape(", ".join(run.tags))))
    return facts([*pairs, *_other_rule(run, origin)])


def _other_rule(run: Run, origin: Origin | None) -> list[tuple[str, str]]:
    """Return the rule that the run draws random numbers by, where it is not this version's; another
    program's has none.
    """
    foreign = origin is not None and origin.kind != "parallab"
    return [] if foreign or run.seeding == SEEDING else [("Seeding", f"rule {run.seeding} (this version: {SEEDING})")]


def tiles(summaries: Sequence[Summary], entry: RunRow) -> str:
    """Return the run's result, then the other telling metrics, each with the statistic that it is, and tests and
    rewards with their best.
    """
    by_name = {summary.metric for summary in summaries}
    result, known = ranked(entry), known_experiment(entry.experiment)
    told = known.headline if known else HEADLINE
    first = [result.result.metric] if result else []
    names = [name for name in dict.fromkeys([*first, *told]) if name in by_name and name in entry.last]
    return f'<div class="pl-tiles">{"".join(_tile(name, entry, result) for name in names)}</div>'


def _tile(name: str, entry: RunRow, result: Ranked | None) -> str:
    known, best = metric(name), entry.best.get(name)
    is_result = result is not None and result.result.metric == name
    of: Of = result.result.of if result and is_result else "mean" if known.band else "last"
    value = (entry.mean if of == "mean" else entry.last).get(name)
    beside = [STATISTICS[of]] if known.live else []
    beside += [f"best {number(best)}"] if best is not None and name.startswith(("test/", "charts/")) else []
    label = f"Result: {known.label.lower()}" if is_result else known.label
    help_text = f"{known.help} The experiment's runs are ranked by it." if is_result else known.help
    unit = f" <small>{escape(known.unit)}</small>" if known.unit else ""
    return (
        '<div class="pl-tile" '
        f'title="{escape(help_text)}"><div>{escape(label)}</div><strong>{number(value)}{unit}</strong><div>{"; ".join(beside)}</div></div>'  # noqa: E501
    )


def ranks_table(found: Sequence[RankRow]) -> str:
    """Return each rank as last heard of."""
    headers = ["Rank", "Role", "State", "Last step", "Device", "Process", "CPU", "Memory", "Heartbeat"]
    rows = [
        [
            str(row.rank),
            escape(row.role),
            f"{row.state}{f', exit code {row.exit_code}' if row.exit_code else ''}",
            number(row.last_step, 9),
            escape(row.device),
            str(row.pid or "–"),
            f"{row.cpu_percent:.0f} %" if row.cpu_percent is not None else "–",
            f"{row.memory_mb:,.0f} MB" if row.memory_mb is not None else "–",
            f'<span title="{absolute(row.heartbeat_at)}">{ago(row.heartbeat_at)}</span>',
        ]
        for row in found
    ]
    return table(headers, rows, caption="Ranks of the run")


def events_table(found: Sequence[Event]) -> str:
    """Return who did what to the run, and when."""
    rows = [
        [
            f'<span class="pl-nowrap">{when(event.at)}</span>',
            escape(event.kind),
            escape(event.who),
            escape(event.detail),
        ]
        for event in found
    ]
    return table(["When", "What", "Who", "Detail"], rows, caption="Events of the run")
