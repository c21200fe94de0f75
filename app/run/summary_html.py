"""The summary of a run as HTML: state and cause, progress, result, key metrics, time of ranks, ranks and events."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from markupsafe import Markup, escape

from app.core.assets import at
from app.core.formatting import absolute, ago, duration, scaled
from app.run.why import ANSWERS, EXCHANGE_OF_TRAINERS, summary_sentence, why
from app.ui.documentation import guide
from app.ui.html import (
    bar,
    facts,
    joined,
    link,
    moment,
    nowrap,
    number,
    paragraph,
    quiet,
    small,
    stacked,
    strip,
    strong,
    sweep_link,
    table,
    term,
    term_within,
    tile,
    tile_row,
    titled,
    when,
)
from app.ui.run_state import cause_of, place_in_words, time_left
from engine.analysis import comparability
from engine.analysis.comparability import named
from engine.analysis.result import Ranked, ranked, upper_first
from engine.analysis.scaling.scaling_data import SERVE, SHARES, PhaseBar, kind_of
from engine.errors import enumeration
from engine.experiment import HEADLINE
from engine.hang.rules import CURES
from engine.metrics import EVALUATION, LAST_EPISODES, LOSS, STATISTICS, Of, metric
from engine.queue.cluster_wait import in_words, job_state
from engine.registry import known_experiment
from engine.seeding import SEEDING
from engine.store import Reader
from engine.store.queue.cluster_jobs import ClusterJob
from engine.store.records import ENDED, Event, RankRow, Run, RunRow, Summary, silent_since
from engine.store.runs.origins import Origin
from engine.system.runner_process import lost_runs
from engine.trace.health import BAD, Health, RankState, Verdict


def cause(run: Run, entry: RunRow, reader: Reader) -> Markup:
    """Return the state of a started or ended run and its cause, as a sentence; of one that stands still in lines."""
    health = reader.details.health(run.id) if run.status in ("starting", "running") else None
    if last := silent_since(run):
        return Markup("Its program, which Parallab did not start, has missed reports: last report {}.").format(
            when(last)
        )
    if health and health.verdict.state in BAD:
        return stacked(map(escape, standstill(health.verdict)))
    return escape(_cause(run, entry, reader))


def standstill(verdict: Verdict) -> list[str]:
    """Return a verdict on a standstill as short sentences: what is seen, why, and what to do."""
    seen, _, why = verdict.sentence.partition(": ")
    lines = (f"{verdict.state.capitalize()}: {seen.rstrip('.')}.", upper_first(why), CURES.get(verdict.cause, ""))
    return [*filter(None, lines)]


def _cause(run: Run, entry: RunRow, reader: Reader) -> str:
    if run.status == "starting" and any(run.id == lost.id for lost in lost_runs(reader.db.home, reader)):
        return "The worker is gone and no runner is running. The next runner ends the run as lost, or starts it again."
    if run.status == "starting":
        return "The worker is starting the ranks and loading the data."
    if run.status == "running" and run.reported:
        return "Its program, which Parallab did not start, reports it."
    if run.status == "running" and run.command and not run.progress_total:
        own, estimate = time_left(entry), time_left(entry, reader)
        left = own if own == estimate else f"by similar runs {estimate}"
        return f"{_without_progress(run, entry, reader)}, {left}."
    if run.status == "running":
        done = (
            f"{run.progress_done:,} of {run.progress_total:,} {run.progress_unit}"
            if run.progress_total
            else "no step count yet"
        )
        return f"{entry.progress:.0%} done ({done}), {time_left(entry, reader)}."
    if run.status == "stopping":
        how = "killed" if run.stop_kind == "force" else "ended"
        return f"Stop requested by {run.stop_requested_by}; processes are being {how}."
    return cause_of(run) or "Ended without a recorded cause."


def _without_progress(run: Run, entry: RunRow, reader: Reader) -> str:
    """Return what a script has shown that says of no total how far it is."""
    if any(not name.startswith("perf/") for name in (*entry.last, *entry.nonfinite)):
        return "The script names no total of steps or epochs"
    folder = reader.db.home.run_folder(run.id)
    for source, path in reader.details.logs(run.id):
        with suppress(OSError):
            if source != "worker" and (folder / path).stat().st_size:
                return "No measurements yet: looking for lines such as 'step 10: loss 0.5', and for TensorBoard files"
    return "Waiting for the script's first line"


MOST_OF_NOTE = 200
"""Letters of a note that the overview shows; its hover and the section Notes have all."""
MOST_BARS = 8
"""Number of ranks up to which each has its own bar; more have one for each kind of rank."""
DISTURBED_NUMBER = "Other programs disturbed this run: times, and what follows from the order of its ranks, may differ."
ACTIVITIES = dict(zip(SHARES, ("compute", "communicate", "wait", "other"), strict=True))


def showed(run: Run, entry: RunRow, reader: Reader) -> Markup:
    """Return what the run showed, why its system works as it does with a link to the guide, and what it cost."""
    sentence = finding(run, entry, reader)
    if not sentence:
        return Markup("")
    details = reader.details
    reason = why(run, details.summaries(run.id), details.phases(run.id), details.ranks(run.id))
    has_number = reason != why(run, [], {}, [])
    if reader.exercises.withholds([run.id]) or (not has_number and run.active):  # it will have one later
        reason = ""
    lines = [term_within(line, "this bubble", "bubble") for line in _in_lines(reason)]
    link_to_guide = guide(run.experiment, section=ANSWERS.get(run.experiment, ""))
    has_timeline = EXCHANGE_OF_TRAINERS in reason and reader.traces.newest(run.id)
    operations = link("Timeline", f"{at('/run')}?run={run.id}&section=Timeline") if has_timeline else ""
    more = [
        joined(
            filter(None, (line, operations if EXCHANGE_OF_TRAINERS in line else "", "" if place else link_to_guide)),
            " ",
        )
        for place, line in enumerate(lines)
    ]
    if has_number and entry.disturbed:
        more.append(quiet(DISTURBED_NUMBER))
    return stacked([strong(term_within(sentence, "updates old", "staleness")), *more])


def _in_lines(reason: str) -> list[str]:
    """Return the clauses of a reason, each as a sentence."""
    return [f"{upper_first(clause).rstrip('.')}." for clause in re.split(r"(?:;|(?<=\.)) ", reason) if clause]


def finding(run: Run, entry: RunRow, reader: Reader) -> str:
    """Return what the run showed, as plain text; empty before the first result."""
    details = reader.details
    return summary_sentence(run, entry, details.summaries(run.id), details.phases(run.id), details.ranks(run.id))


def result(entry: RunRow) -> Markup:
    """Return the run's result for its header; empty before the first, and before a resumed run runs."""
    found = None if entry.status in ("queued", "starting") else ranked(entry)
    if found is None:
        return Markup("")
    known = found.metric
    return small(known.label) + " " + strong(" ".join(filter(None, (number(found.value, unit=known.unit), known.unit))))


def rank_strip(seconds: Mapping[int, Mapping[str, float]], ranks: Sequence[RankRow]) -> Markup:
    """Return for each rank, or each kind of rank if there are many, the shares of its time in which it computed,
    communicated and waited; empty before any was recorded.

    A server's handler threads work while its main thread waits: their time counts as work.
    """
    roles = {row.rank: row.role for row in ranks}
    groups: dict[str, list[Mapping[str, float]]] = {}
    for rank, spent in seconds.items():
        role = roles.get(rank, f"rank {rank}")
        groups.setdefault(role if len(seconds) <= MOST_BARS else kind_of(role), []).append(_own(spent))
    bars = {name: PhaseBar((), len(each), name, _summed(each)) for name, each in groups.items()}
    rows = [
        (
            name if bar.count == 1 else f"{name} ({bar.count})",
            [(word, bar.share(*SHARES[share])) for share, word in ACTIVITIES.items()],
        )
        for name, bar in bars.items()
        if bar.whole_s
    ]
    return strip(rows) if rows else Markup("")


def _own(spent: Mapping[str, float]) -> Mapping[str, float]:
    served = min(spent.get(SERVE, 0.0), spent.get("wait", 0.0))
    return {**spent, "wait": spent.get("wait", 0.0) - served, "compute": spent.get("compute", 0.0) + served}


def _summed(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(spent.get(name, 0.0) for spent in each) for name in {name for spent in each for name in spent}}


def progress(entry: RunRow) -> Markup:
    """Return a run's progress bar, grey after its end; nothing of a run that a program reports, whose amount of work is
    unknown.
    """
    return (
        Markup()
        if entry.reported
        else bar(entry.progress, f"Progress of run {entry.id}", is_over=entry.status in ENDED)
    )


def facts_of(
    run: Run, origin: Origin | None = None, entry: RunRow | None = None, job: ClusterJob | None = None
) -> Markup:
    """Return the run's facts: owner, times, cluster and its job, resources, disturbance, and origin if it was
    imported.
    """
    pairs = [("Owner", run.owner), ("Launched", when(run.created_at))]
    pairs.append(("Ended", when(run.ended_at)) if run.ended_at else ("Started", when(run.started_at)))
    if known_experiment(run.experiment) is None:
        pairs.append(("Duration", titled(duration(run.elapsed_s), "From its start to its end, as recorded.")))
    else:
        pairs += [
            (term(title), titled(duration(time_s), metric(name).help))
            for title, time_s, name in (
                ("Execution time", run.elapsed_s, "perf/execution_time_s"),
                ("Start-up time", run.startup_time_s, "perf/startup_time_s"),
            )
        ]
    if run.reported:
        pairs.append(("Reported from", run.environment.get("host") or "unknown"))
    pairs += _cluster(run, job)
    if run.has_ranks:
        pairs.append((term("Ranks", "rank"), str(run.demand.ranks)))
    if run.terms.priority != "normal":
        pairs.append(("Priority", run.terms.priority))
    if run.cores or run.terms.oversubscribe:
        numbers = (
            f"{len(run.cores)} ({'number' if len(run.cores) == 1 else 'numbers'} {', '.join(map(str, run.cores))})"
        )
        pairs.append(("Cores", "shared with other runs" if run.terms.oversubscribe else numbers))
    pairs += _disturbance(run, entry)
    pairs += _limits(run)
    if run.sweep_id:
        pairs.append(("Part of", sweep_link(f"sweep {run.sweep_id}", run.sweep_id)))
    if origin is not None:
        pairs.append(("Imported from", origin.words))
    if run.tags:
        pairs.append(("Tags", ", ".join(run.tags)))
    if run.note:
        note = " ".join(run.note.split())
        pairs.append(("Note", titled(note if len(note) <= MOST_OF_NOTE else f"{note[:MOST_OF_NOTE]}…", run.note)))
    return facts([*pairs, *_other_rule(run)])


def _cluster(run: Run, job: ClusterJob | None) -> list[tuple[str, str]]:
    """Return where a run on a cluster runs or ran, and what Slurm says of its job until that is over."""
    if not run.target:
        return []
    found, known = [("Runs on", place_in_words(run))], job_state(run, job)
    if known and known.job_id:
        said = ", ".join(filter(None, (known.state, in_words(known.reason))))
        found.append(("Job", f"{known.job_id}{f': {said}' if said else ''}"))
    return [*found, ("Nodes", known.nodes)] if known and known.nodes else found


def _limits(run: Run) -> list[tuple[str, str]]:
    """Return what ends the run or starts it again."""
    terms = run.terms
    found: list[tuple[str, str]] = []
    if terms.max_run_time_s:
        found.append(("Time limit", duration(terms.max_run_time_s)))
    if terms.max_retries:
        found.append(("Retries", f"{run.attempt} of {terms.max_retries}"))
    if terms.end_when_hung:
        found.append(("If it hangs", "ends as failed"))
    return found


def _disturbance(run: Run, entry: RunRow | None) -> list[tuple[str, str]]:
    """Return how much others took from an ended run."""
    if entry is None or run.execution_time_s is None or not run.has_ranks:
        return []
    share = "unknown" if entry.disturbance is None else comparability.in_words(entry.disturbance)
    return [(term("Disturbance"), titled(share, named(run) or metric("perf/disturbance").help))]


def _other_rule(run: Run) -> list[tuple[str, str]]:
    """Return the run's seeding rule if it differs from this version's; runs of other programs have none."""
    return (
        []
        if not run.has_ranks or run.seeding == SEEDING
        else [("Seeding", f"rule {run.seeding} (this version: {SEEDING})")]
    )


def tiles(summaries: Sequence[Summary], entry: RunRow) -> Markup:
    """Return the run's result, then other key metrics, each labelled with its statistic; tests and rewards also show
    their best.
    """
    by_name = {summary.metric for summary in summaries}
    result, known = ranked(entry), known_experiment(entry.experiment)
    told = known.headline if known else HEADLINE
    first = [result.result.metric] if result else []
    names = [name for name in dict.fromkeys([*first, *told]) if name in by_name and name in entry.last]
    return tile_row(_tile(name, entry, result) for name in names)


def _tile(name: str, entry: RunRow, result: Ranked | None) -> Markup:
    known, best = entry.metric(name), entry.best.get(name)
    is_result = result is not None and result.result.metric == name
    of: Of = result.result.of if result and is_result else "mean" if known.band else "last"
    value = (entry.mean if of == "mean" else entry.last).get(name)
    beside = [] if known.is_single else [STATISTICS[of]]
    beside += (
        [f"best {number(best, unit=known.unit)}"] if best is not None and name.startswith(("test/", "charts/")) else []
    )
    if known.name == EVALUATION and is_result:
        beside[0] += " test, of greedy actions"
    if name == LAST_EPISODES and result and result.result.metric == EVALUATION:
        beside.append("of training, whose actions are drawn at random")
    if name == LOSS and "environment" in entry.config:
        beside.append("of the policy: its size does not tell how well it plays")
    if target := _target(name, entry, value):
        beside.append(target)
    label = f"Result: {known.label.lower()}" if is_result else known.label
    by_it = is_result and (name == entry.ranked_by or known_experiment(entry.experiment))
    help_text = f"{known.help} Runs of this experiment are ranked by it." if by_it else known.help
    value, unit = (None, known.unit) if value is None else scaled(value, known.unit)
    shown = number(value, unit=unit) + (" " + small(unit) if unit else "")
    return tile(term(label), shown, "; ".join(beside), help_text)


def _target(name: str, entry: RunRow, value: float | None) -> str:
    """Return whether a finished run meets the least value that its preset states; empty if its settings, apart from the
    seed, differ from the preset's or none is stated.
    """
    known = known_experiment(entry.experiment)
    preset = known.presets.get(entry.preset or "") if known else None
    if known is None or preset is None or value is None or name not in preset.expects or entry.status != "finished":
        return ""
    settings = known.configure(entry.preset).model_dump(mode="json")
    if any(settings[field] != given for field, given in entry.config.items() if field in settings and field != "seed"):
        return ""
    least = preset.expects[name]
    unit = entry.metric(name).unit
    said = f"{least:g}{f' {unit}' if unit else ''} that preset {entry.preset} states as its minimum"
    return f"meets the {said}" if value >= least else f"below the {said}"


def ranks_table(found: Sequence[RankRow], health: Health | None = None) -> Markup:
    """Return the last known state of each rank; `health` adds what each is doing and the verdict on them."""
    doing = {state.rank: state for state in health.ranks} if health else {}
    headers = ["Rank", "Role", "State", *(_DOING if doing else ()), "Last step"]
    headers += ["Device", "Process", "CPU", "Memory", "Heartbeat"]
    rows = [
        [
            str(row.rank),
            row.role,
            f"{row.state}{f', exit code {row.exit_code}' if row.exit_code else ''}",
            *(_doing(doing.get(row.rank)) if doing else ()),
            number(row.last_step, 9),
            row.device,
            str(row.pid or "–"),
            f"{row.cpu_percent:.0f} %" if row.cpu_percent is not None else "–",
            f"{row.memory_mb:,.0f} MB" if row.memory_mb is not None else "–",
            titled(ago(row.heartbeat_at), absolute(row.heartbeat_at)),
        ]
        for row in found
    ]
    said = health.verdict.sentence if health and health.verdict.state not in BAD else ""  # the heading says those
    return Markup("{}{}").format(
        paragraph(f"{health.verdict.state.capitalize()}: {said}") if health and said else "",
        table(headers, rows, caption="Ranks"),
    )


_DOING = ("Doing", "Waits for", "No progress for", "Place in the code")


def _doing(state: RankState | None) -> tuple[str, ...]:
    """Return the cells of what a rank is doing."""
    if state is None:
        return ("–",) * len(_DOING)
    process = f" ({state.state})" if state.state in ("stopped", "disk wait", "dead") else ""
    return (
        f"{state.operation or state.phase or '–'}{process}",
        enumeration(state.waits_for) or "–",
        duration(state.since_s) if state.since_s >= 1 else "–",
        state.place or "–",
    )


def events_table(found: Sequence[Event]) -> Markup:
    """Return the run's events."""
    rows = [
        [
            nowrap(moment(absolute(event.at), event.at, ago(event.at))),
            event.kind,
            event.who,
            event.detail,
        ]
        for event in found
    ]
    return table(["When", "Event", "User", "Detail"], rows, caption="Run events")
