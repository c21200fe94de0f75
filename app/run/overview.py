"""The first tab of a run page: what the run showed, its key metrics, what its ranks do, its curves and the machine."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from app.actions import submit
from app.actions.submit import Again
from app.charts import plotly_figures
from app.charts.curve_charts import FEW, FOREIGN_AXES
from app.charts.curve_points import AXES, has_passes, usual_axis
from app.core.assets import at
from app.core.formatting import duration
from app.links import addresses
from app.links.compare import CompareView, query_of
from app.links.launch import clone_query, launch_query
from app.run import live_update
from app.run.lineage import lineage
from app.run.own_command import about_command, not_recorded
from app.run.recognised import recognised, revision
from app.ui import components, current_user
from app.ui.html import as_text, link, slot
from app.ui.widgets import PAGES
from engine.analysis.run_values import lower_title
from engine.errors import ConfigError, counted
from engine.experiment import Experiment
from engine.home import Home
from engine.launch import why_not_resumable, why_not_retriable
from engine.launch_options import PRIORITIES
from engine.metrics import metric
from engine.museum.exhibit import SIGNS
from engine.museum.latest_runs import NAME as MUSEUM
from engine.registry import definition, experiment, known_experiment
from engine.store import Reader
from engine.store.records import Run, RunRow
from engine.system.checkpoint_state import last_checkpoint

# ---- The buttons that resume or retry a run ------------------------------------------------------------------------


def resume_button(run: Run) -> None:
    """Show the Resume button, for a run that ended early and whose experiment saves checkpoints."""
    if run.active or run.status == "finished" or not _keeps_checkpoints(run):
        return
    refusal = why_not_resumable(Home.find(), run)
    why_not = why_not_again(run) or (str(refusal) if refusal else None)
    if submit.button(
        "Resume",
        f"resume-{run.id}",
        **current_user.off(why_not, help=None if why_not else as_text(_resume_help(run))),
    ):
        submit.submit(Again(run.id, resumes=True))


def retry_button(run: Run) -> None:
    """Show the Retry button, for a cancelled, lost or failed run."""
    if why_not_retriable(run) is not None:
        return
    words = f"Queues a new run with the same settings at once, from the start, and opens it. Run {run.id} is kept."
    if submit.button("Retry", f"retry-{run.id}", **current_user.off(why_not_again(run), help=words)):
        submit.submit(Again(run.id, resumes=False))


def why_not_again(run: Run) -> str | None:
    """Return why the user may not resume or retry this run at its priority; None if allowed."""
    refusal = current_user.why_not("retry", [run.owner], f"Run {run.id}")
    if run.command:
        refusal = refusal or current_user.why_no_commands()
    return refusal or (current_user.why_not("prefer") if run.terms.priority == PRIORITIES[-1] else None)


def what_next(run: Run) -> None:
    """Explain what the buttons do for a cancelled, lost or failed run, and why Resume is disabled."""
    if why_not_retriable(run) is not None or why_not_again(run):
        return
    said = ["Retry starts over with the same settings."]
    if _keeps_checkpoints(run):
        refusal = why_not_resumable(Home.find(), run)
        said.insert(0, str(refusal) if refusal else f"Resume continues from {_resume_point(run)}.")
    limit = (
        f" Both keep the time limit of {duration(run.terms.max_run_time_s)}; clone the run to change it."
        if run.stop_kind == "time limit"
        else ""
    )
    st.caption(as_text(f"{' '.join(said)} Clone lets you change the settings first.{limit}"))


def _keeps_checkpoints(run: Run) -> bool:
    known = known_experiment(run.experiment)
    return known is not None and known.resumable


def _resume_point(run: Run) -> str:
    """Return the step that a resumed run would continue from."""
    found = last_checkpoint(Home.find().run_folder(run.id))
    return f"step {found.step:,}" if found else "the last checkpoint"


def _resume_help(run: Run) -> str:
    return (
        f"Queue a new run that continues from {_resume_point(run)} with the same settings and keeps the curves so far."
    )


# ---- The first tab of a run page -----------------------------------------------------------------------------------
# what the run showed, its key metrics, what its ranks do, its curves and the machine.

SMOOTHING, MOST = 0.9, 0.98
"""Usual and greatest smoothing of curves."""
MOST_LINES = 20
"""Lines of a failed command that are shown."""
UNFOLDED = "machine.unfolded"  # the run that an address of an earlier version opened with its machine's load


def overview(run: Run, reader: Reader) -> None:
    """Show what a reader of the run wants first."""
    found = live_update.overview(run, reader)
    about_command(run, reader)
    lineage(run, reader)
    what_next(run)
    if run.error:
        with st.expander("Error details", expanded=run.status == "failed"):
            _error(run)
    st.html(slot("showed", found["showed"]))
    with st.container(key="run-numbers"):
        next_steps(run, reader)
        numbers, times = st.columns(2, gap="medium")
        numbers.html(slot("tiles", found["tiles"]))
        times.html(slot("strip", found["strip"]))
    with st.container(key="run-curves"):
        curves(run, reader)
    recognised(run, reader)
    _machine(run, reader)
    not_recorded(run, reader)
    st.html(slot("facts", found["facts"]))


def _error(run: Run) -> None:
    """Show the traceback of a run, or the last lines of the rank of a command that failed."""
    lines = run.error.splitlines()
    if run.command:
        st.code("\n".join(lines[-MOST_LINES:]), language=None, wrap_lines=True)
        st.html(link("Whole log", f"{at('/run')}?run={run.id}&section=Log"))
    else:
        st.code(run.error, language=None, wrap_lines=True, height=240 if len(lines) > 10 else "content")


def axes(run: Run, reader: Reader) -> tuple[list[str], str]:
    """Return the x-axes of a run's charts, and the default, on which all its ranks agree."""
    known = known_experiment(run.experiment)
    missing = {
        *(() if has_passes(reader, run) else ("passes",)),
        *(() if known and known.update_clock else ("updates",)),
    }
    return [name for name in AXES if name not in missing], usual_axis(reader, [run])


def curves(run: Run, reader: Reader) -> None:
    """Show the run's curves, with x-axis and smoothing controls; the address holds both. A run whose curves are all too
    short to be smoothed has no control for it; of an ended one without curves a line says so.
    """
    known = known_experiment(run.experiment)
    summaries = reader.details.summaries(run.id)
    if not run.active and not any(metric(each.metric).live for each in summaries):
        st.caption("This run recorded no curves.")
        return
    offered, usual = axes(run, reader)
    if (x := st.query_params.get("x", "").lower()) in offered:  # addresses of earlier versions
        usual = x
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        x = st.segmented_control(
            "X-axis",
            offered,
            key="axis",
            default=usual,
            required=True,
            format_func=lambda name: AXES[name],
            bind="query-params",
        )
        smoothing = SMOOTHING
        if live_update.is_smoothed(summaries):
            addresses.take("smooth", SMOOTHING)
            st.session_state["smooth"] = min(MOST, max(0.0, st.session_state["smooth"]))
            smoothing = st.slider(
                "Smoothing",
                0.0,
                MOST,
                step=0.02,
                key="smooth",
                on_change=addresses.keep,
                args=("smooth", SMOOTHING),
                width=200,
                help=f"Exponential moving average for noisy curves with more than {FEW} points; the raw line stays "
                "visible. Short curves and the start of each are smoothed less, sums and constants never.",
            )
    found = known.clock(run.config) if known else None
    clock = asdict(found) if found else None
    titles = None if known else {name: FOREIGN_AXES[name] for name in ("step", "time")}
    if run.experiment == MUSEUM:  # an exhibit counts what its own chart counts
        titles = {"step": next((sign.x for sign in SIGNS if sign.name == run.config.get("exhibit")), "Of each exhibit")}
    components.curves(
        run.id,
        active=run.active,
        x=x or usual,
        clock=clock,
        smoothing=smoothing,
        titles=titles,
        apart=known is None,
        revision=revision(run, reader),
    )


def _machine(run: Run, reader: Reader) -> None:
    """Show the load of the machine during the run, folded; drawn only while it is open."""
    if not reader.details.has_machine_samples(run.id):
        return
    # By its default: from a link inside the console, Streamlit resets a bound widget that the address does not have.
    unfolded = st.session_state.get(UNFOLDED) == str(run.id)
    with st.expander(
        "Machine", unfolded, key="machine", on_change="rerun", bind="query-params", type="compact"
    ) as fold:
        if not fold.open:
            return
        drawn = live_update.machine(run, reader)
        samples = reader.details.machine(run.id)
        if not any(sample.source.startswith("gpu") for sample in samples):
            st.caption("No GPU metrics: no GPU was detected on the machine.")
        names = plotly_figures.machine_names(samples)
        for start in range(0, len(names), 2):
            for column, name, key in zip(
                st.columns(2, gap="large"), names[start : start + 2], list(drawn)[start : start + 2], strict=False
            ):
                with column:
                    st.markdown(f"**{plotly_figures.machine_label(name)}**")
                    components.shown(key, drawn[key])


# ---- What to do after a run has finished: links to the filled launch form, to a sweep and to a comparison ----------

REFERENCE = "reference"
MOST_REFERENCES = 200
REPEATS = 3


@dataclass(frozen=True)
class NextStep:
    """One link: its label, its help, and the page with its query."""

    label: str
    help: str
    page: str
    query: Mapping[str, str | list[str]]


def next_steps(run: Run, reader: Reader) -> None:
    """Show what to do next, in a row; nothing before the run has finished."""
    if run.status != "finished" or not (found := list(steps(run, reader))):
        return
    with st.container(key="run-next", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Next steps", width="content")
        for step in found:
            st.page_link(PAGES[step.page], label=step.label, help=as_text(step.help), query_params=step.query)


def steps(run: Run, reader: Reader) -> Iterator[NextStep]:
    """Yield the next steps of a finished run that this person may take."""
    launches = current_user.may("launch")
    if run.command and launches:
        yield from _sweep_of_command(run)
        yield _repeats(clone_query(run))
    known = known_experiment(run.experiment)
    if known is None or known.config.model_fields.keys() - run.config.keys():
        return
    count = next(iter(known.counts), None)
    if count and launches:
        yield from _with_fewer(known, run, count)
    if launches:
        yield from _contrast(known, run)
    yield from _reference(known, run, reader, launches)
    if launches and (axis := count or known.axis):
        query = launch_query(known, run.preset, run.config) | {"sweep": axis, "clone": str(run.id)}
        name = lower_title(axis)
        yield NextStep(f"Sweep {name}", f"Open the sweep form with this run's settings over {name}.", "launch", query)
    if launches:
        yield _repeats(launch_query(known, run.preset, run.config) | {"clone": str(run.id)})


def _repeats(query: Mapping[str, str | list[str]]) -> NextStep:
    """Return the sweep that varies nothing: how far equal runs lie apart."""
    words = f"Open the sweep form with this run's settings, {REPEATS} times: how far do the results lie apart?"
    return NextStep(f"Repeat {REPEATS} times", words, "launch", {**query, "seeds": str(REPEATS)})


def _sweep_of_command(run: Run) -> Iterator[NextStep]:
    """Yield the sweep over the first setting of a command that could vary."""
    if axis := definition(run).axis:
        query = clone_query(run) | {"sweep": axis}
        yield NextStep(f"Sweep {axis}", f"Open the sweep form with this run's command over {axis}.", "launch", query)


def _with_fewer(known: Experiment, run: Run, count: str) -> Iterator[NextStep]:
    """Yield the same run with a single trainer, or with two if it had one, if the experiment allows that."""
    number = 2 if run.config[count] == 1 else 1
    named = counted(number, known.counts[count])
    for changes in ({count: number}, {count: number, known.axis: number}):
        try:
            config = known.config.check({**run.config, **changes})
        except (ConfigError, TypeError):
            continue
        query = launch_query(known, run.preset, config.model_dump(mode="json")) | {"clone": str(run.id)}
        return (yield NextStep(f"Same with {named}", "Fill the launch form.", "launch", query))


def _contrast(known: Experiment, run: Run) -> Iterator[NextStep]:
    """Yield the same run with each other value of the choice that a ready-made contest of the experiment varies."""
    contests = [ready.over for ready in known.ready_sweeps if ready.answer == "contest"]
    chosen = [(name, values) for over in contests for name, values in over.items() if name not in known.counts]
    for name, values in chosen[:1]:
        for value in (text.strip() for text in values.split(",")):
            try:
                config = known.config.check({**run.config, name: value})
            except (ConfigError, TypeError):
                continue
            if getattr(config, name) != run.config[name]:
                query = launch_query(known, run.preset, config.model_dump(mode="json")) | {"clone": str(run.id)}
                label = f"Same, {lower_title(name)} {value}"
                yield NextStep(label, "Fill the launch form, to compare both.", "launch", query)


def _reference(known: Experiment, run: Run, reader: Reader, launches: bool) -> Iterator[NextStep]:
    """Yield the comparison with the most similar finished run of the reference, or without one its launch."""
    is_own_task = any(run.config.get(name) == value for name, value in known.result.own_tasks)
    if known.duel is None or known.name == REFERENCE or is_own_task:  # another model, or no training to compare
        return
    reference = experiment(REFERENCE)
    shared = {name: run.config[name] for name in reference.config.model_fields if name in run.config}
    candidates = reader.runs.find(statuses=["finished"], experiment=REFERENCE, archived=False, limit=MOST_REFERENCES)
    alike = [one for one in candidates if one.config.get("dataset") == shared.get("dataset")]
    if alike:
        nearest = max(alike, key=lambda one: (one.pinned_by is not None, _equal(one, shared), one.id))
        view = CompareView(runs=(nearest.id, run.id), x="time", group=())
        words = f"Compare with run {nearest.id}: the same data and model in one process."
        yield NextStep("Compare with Reference", words, "compare", query_of(view))
    elif launches:
        try:
            config = reference.config.check(shared)
        except ConfigError:
            return
        query = launch_query(reference, None, config.model_dump(mode="json"))
        yield NextStep("Run the Reference", "The same data and model in one process, to compare with.", "launch", query)


def _equal(one: RunRow, shared: Mapping[str, Any]) -> int:
    return sum(one.config.get(name) == value for name, value in shared.items())
