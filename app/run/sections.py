"""The sections of a run page, a tab each; each reads only the data that it shows.

CONTRIBUTING.md tells how a chart is added: the first tab is in `overview.py`, figures are in `app/charts`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import streamlit as st

from app.links.compare import names_text, read_names
from app.run import live_update, log_tail, summary_html
from app.run.files_section import files, has_files
from app.run.histograms import histograms
from app.run.lineage import lineage
from app.run.memory_section import memory
from app.run.overview import overview
from app.run.own_command import about_command
from app.run.pipeline_section import pipeline, show_disturbance
from app.ui import components, current_user
from app.ui.config_form import label_of
from app.ui.html import as_text, caption, slot, stacked, strong, table, titled, when
from app.ui.store_access import command
from engine.analysis.comparability import environment_shown
from engine.analysis.run_values import setting_title
from engine.config import empty_means, unused_because
from engine.config_values import VALUE_TITLES, field_title, value_in_words
from engine.hang.stacks import last_collectives, last_stacks
from engine.home import Home
from engine.registry import definition, known_experiment
from engine.rl.kinds import PICTURE
from engine.store import Reader, Store
from engine.store.records import Run

# CONTRIBUTING.md tells how a chart is added: the first tab is in `overview.py`, figures are in `app/charts`.

CAPTION = "Run settings"
RECORDED_S = 5.0
"""Seconds of operations that a click stores."""


def first(run: Run, reader: Reader) -> None:
    """Show the overview; of a queued run without values why it waits, and its facts."""
    if run.status != "queued" or reader.details.summaries(run.id):
        overview(run, reader)
        return
    about_command(run, reader)
    lineage(run, reader)
    st.text("Curves appear here after the start.")  # the heading says why it waits
    st.html(slot("facts", live_update.overview(run, reader)["facts"]))


def ranks(run: Run, reader: Reader) -> None:
    """Show the last known state of each rank, and its time breakdown."""
    found = reader.details.ranks(run.id)
    if not found:
        st.write("No ranks started yet." if run.active else "The run ended before any rank started.")
        return
    st.html(slot("ranks", live_update.ranks(run, reader)["ranks"]))
    _evidence(run, [rank.role for rank in found])
    for key, shown in live_update.phases(run, reader).items():
        st.markdown("**Time per rank**")
        components.shown(key, shown)


def _evidence(run: Run, roles: Sequence[str]) -> None:
    """Show what each rank wrote when the run was suspected to stand still."""
    folder = Home.find().run_folder(run.id)
    kept = {role: stacks for role in roles if (stacks := last_stacks(folder, role))}
    if not kept:
        return
    with st.expander("Stacks of the ranks"):
        st.caption("Written by each rank when the run was suspected to stand still; a stopped process writes none.")
        role = st.selectbox("Rank", list(kept), key=f"stacks-{run.id}", width=240)
        if collectives := last_collectives(folder, role):
            st.text("Its last collectives, as torch recorded them")
            st.code(collectives, language=None)
        st.code(kept[role], language=None, height=400)


def timeline(run: Run, reader: Reader) -> None:
    """Show the recorded operations of all ranks; the picture loads and zooms by itself."""
    if not reader.traces.newest(run.id):
        if run.active:
            st.write("No operations recorded yet. They appear a moment after all ranks are ready.")
        else:
            st.write("No recorded operations: the run ended before its ranks were ready, or is of an earlier version.")
        return
    if run.status == "running" and st.button(
        f"Store the next {RECORDED_S:g} s",
        key=f"trace-{run.id}",
        **current_user.control("trace", [run.owner], what=f"Run {run.id}"),
    ):
        command(lambda store: store.runs.trace(run.id, RECORDED_S, by=current_user.whoever()))
    st.caption(
        as_text(
            "All operations are recorded; stored are the start, samples of a few steps, and the end. "
            f"For Perfetto: python -m engine trace {run.id} --out run-{run.id}.json"
        )
    )
    show_disturbance(reader.runs.entry(run.id))
    components.timeline(run.id, len(reader.details.ranks(run.id)), active=run.active)


def log(run: Run, reader: Reader) -> None:
    """Show the logs of the worker and of each rank."""
    if sources := log_tail.sources(Home.find(), run, reader):
        components.log_view(run.id, sources, active=run.active)
    else:
        st.write("No logs yet." if run.active else "This run has no logs.")


def events(run: Run, reader: Reader) -> None:
    """Show the run's events."""
    st.html(slot("events", summary_html.events_table(reader.details.events(run.id))))


def config(run: Run, reader: Reader) -> None:
    """Show the run's settings; values that differ from the defaults are bold."""
    if run.command:
        st.caption("Values in bold differ from the command as it was pasted.")
    elif known_experiment(run.experiment):
        st.caption("Values in bold differ from the experiment's defaults.")
    elif not run.config:
        st.write("This run has no parameters.")
        return
    st.html(settings_table(run))
    if source := source_of(run):
        st.caption(f"Source: {source}.")


def source_of(run: Run) -> str:
    """Return the paper or tutorial behind the run's experiment; empty if the experiment is unknown."""
    known = known_experiment(run.experiment)
    return known.source if known else ""


def settings_table(run: Run) -> str:
    """Return the run's config as an HTML table; values that differ from the experiment's defaults are marked. The
    parameters of another program have no defaults: they are shown as recorded.
    """
    known = definition(run) if run.command else known_experiment(run.experiment)
    if known is None:
        return table(
            ["Parameter", "Value"], [[name, str(value)] for name, value in run.config.items()], caption=CAPTION
        )
    fields, rows = known.config.model_fields, []
    for name, value in run.config.items():
        changed = name in fields and value != fields[name].default
        shown = empty_means(fields[name]) if name in fields and value is None else str(value)
        if isinstance(value, str) and value in VALUE_TITLES:
            shown = titled(VALUE_TITLES[value], value)
        if name in fields and (why := unused_because(fields[name], run.config)):
            shown, changed = f"not used with {why}", False
        rows.append(
            [
                label_of(name, fields[name]) if name in fields else setting_title(name),
                strong(shown) if changed else shown,
                (fields[name].description or "") if name in fields else "",
            ]
        )
    return table(["Setting", "Value", "Description"], rows, caption=CAPTION)


def environment(run: Run, reader: Reader) -> None:
    """Show the hardware and software environment of the run."""
    if not run.environment:
        st.write("Recorded when a worker starts the run.")
        return
    rows = [[field_title(name), _value(value)] for name, value in environment_shown(run.environment).items()]
    st.html(table(["Property", "Value"], rows, caption="Run environment"))


def notes(run: Run, reader: Reader) -> None:
    """Edit the run's name, note and tags; read-only without permission."""
    if not current_user.may("note", [run.owner]):
        _read_only_notes(run)
        return
    if st.session_state.pop(f"saved-{run.id}", False):
        st.toast("Name, tags and note saved.")
    name = st.text_input(
        "Name", value=run.name, key=f"name-{run.id}", placeholder="Optional: shown in lists next to the experiment"
    )
    tags = st.text_input(
        "Tags (comma-separated)",
        value=", ".join(names_text([tag]) for tag in run.tags),
        key=f"tags-{run.id}",
        help="Search on Runs and Results finds runs by tag.",
    )
    text = st.text_area(
        "Note",
        value=run.note,
        key=f"note-{run.id}",
        max_chars=4_000,
        placeholder="What did this run show?",
    )
    if st.button("Save", key=f"save-{run.id}"):
        _save(run, read_names(tags), text, name.strip())


def _read_only_notes(run: Run) -> None:
    """Show the name, tags and note of a run read-only."""
    rows = [["Name", run.name or "–"], ["Tags", ", ".join(run.tags) or "–"]]
    st.html(table(["Field", "Value"], rows, caption="Name and tags"))
    st.text(run.note or "No note yet.")


def episode(run: Run, reader: Reader) -> None:
    """Show the latest episode picture, which the run updates periodically."""
    path = Home.find().run_folder(run.id) / PICTURE
    st.image(path.read_bytes())
    at = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    text = "One episode with the deterministic (greedy) policy, recorded " + when(at) + "."
    st.html(caption(text))


def _save(run: Run, tags: list[str], text: str, name: str) -> None:
    def change(store: Store) -> bool:
        who = current_user.whoever()
        for tag in dict.fromkeys(tags):
            if tag not in run.tags:
                store.annotations.tag([run.id], tag, by=who)
        for tag in run.tags:
            if tag not in tags:
                store.annotations.untag([run.id], tag, by=who)
        if name != run.name:
            store.annotations.rename(run.id, name, by=who)
        if text != run.note:
            store.annotations.set_note(run.id, text, by=who)
        return True

    if command(change):
        st.session_state[f"saved-{run.id}"] = True  # a message before the rerun would be lost
        st.rerun()


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return stacked(f"{name} {version}" for name, version in value.items())
    if isinstance(value, list):
        return stacked(value_in_words([each]) for each in value) or "none"
    return str(value) if value not in ("", None) else "unknown"


SECTIONS = {
    "Overview": first,
    "Ranks": ranks,
    "Timeline": timeline,
    "Pipeline": pipeline,
    "Memory": memory,
    "Histograms": histograms,
    "Episode": episode,
    "Files": files,
    "Log": log,
    "Events": events,
    "Config": config,
    "Environment": environment,
    "Notes": notes,
}


def tabs(run: Run, reader: Reader, picture: bool) -> list[str]:
    """Return the sections that the run has; `picture`: whether to offer Episode. A run of another program has those on
    ranks and their operations if it recorded some.
    """
    known = known_experiment(run.experiment)
    own = known.sections if known else ()
    there = {
        "Pipeline": lambda: "Pipeline" in own and reader.details.has_spans(run.id),
        "Memory": lambda: "Memory" in own,
        "Histograms": lambda: reader.details.has_histograms(run.id),
        "Episode": lambda: picture,
        "Files": lambda: has_files(run, reader),
        "Log": lambda: not run.reported,
        "Ranks": lambda: bool(known or (run.active and not run.reported) or reader.details.ranks(run.id)),
        "Timeline": lambda: bool(known or reader.traces.newest(run.id)),
    }
    return [name for name in SECTIONS if name not in there or there[name]()]
