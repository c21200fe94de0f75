"""The sections of a run's page below its curves; each reads what it shows and nothing else."""

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape

import streamlit as st

from app.charts import plotly_figures
from app.run import header, live_update, summary_html
from app.run.histograms import histograms
from app.run.pipeline_section import pipeline
from app.ui import components, current_user
from app.ui.html import slot, table, when
from app.ui.store_access import command
from engine.home import Home
from engine.registry import known_experiment
from engine.rl.pictures import PICTURE
from engine.store import Reader, Store
from engine.store.records import Run


def ranks(run: Run, reader: Reader) -> None:
    """Show each rank as last heard of, and where its time went."""
    found = reader.details.ranks(run.id)
    if not found:
        st.write("Its ranks have not been started yet." if run.active else "It ended before any rank was started.")
        return
    st.html(slot("ranks", summary_html.ranks_table(found)))
    for key, shown in live_update.phases(run, reader).items():
        st.markdown("**Where each rank's time went**")
        components.shown(key, shown)


def machine(run: Run, reader: Reader) -> None:
    """Show what the machine did while the run was on."""
    samples = reader.details.machine(run.id)
    if not samples:
        st.write(
            "Nothing was sampled yet; samples come once a second while the run is on."
            if run.active
            else "The run was too short to be sampled."
        )
        return
    if not any(sample.source.startswith("gpu") for sample in samples):
        st.caption("The run's machine showed no GPU, so there is none to chart.")
    drawn = live_update.machine(run, samples)
    for start in range(0, len(names := plotly_figures.machine_names(samples)), 2):
        for column, name, key in zip(
            st.columns(2, gap="large"), names[start : start + 2], list(drawn)[start : start + 2], strict=False
        ):
            with column:
                st.markdown(f"**{plotly_figures.machine_label(name)}**")
                components.shown(key, drawn[key])


def log(run: Run, reader: Reader) -> None:
    """Show the logs of the worker and of each rank."""
    sources = sorted(
        (source for source, _ in reader.details.logs(run.id)), key=lambda source: (source != "worker", source)
    )
    if sources:
        components.log_view(run.id, sources, active=run.active)
    else:
        st.write("No log has been opened yet." if run.active else "This run left no log.")


def events(run: Run, reader: Reader) -> None:
    """Show who did what to the run, and when."""
    st.html(slot("events", summary_html.events_table(reader.details.events(run.id))))


def config(run: Run, reader: Reader) -> None:
    """Show the run's settings; those that differ from the defaults stand out."""
    st.caption("Values in bold differ from the experiment's defaults.")
    st.html(header.settings_table(run))
    if source := header.source_of(run):
        st.caption(f"After {source}.")


def environment(run: Run, reader: Reader) -> None:
    """Show what the run ran on and with."""
    if not run.environment:
        st.write("The worker writes this down when it takes the run.")
        return
    rows = [
        [escape(name.replace("_", " ")), _value(value)] for name, value in run.environment.items() if name != "boot_id"
    ]
    st.html(table(["What", "Value"], rows, caption="The run's environment"))


def notes(run: Run, reader: Reader) -> None:
    """Let people name the run, and leave a note and tags on it; who may not reads them."""
    if not current_user.may("note", [run.owner]):
        _noted(run)
        return
    name = st.text_input(
        "Name", value=run.name, key=f"name-{run.id}", placeholder="What lists call it beside its experiment."
    )
    tags = st.text_input(
        "Tags, apart by commas",
        value=", ".join(run.tags),
        key=f"tags-{run.id}",
        help="Words that the search on Runs and Results finds.",
    )
    text = st.text_area(
        "Note",
        value=run.note,
        key=f"note-{run.id}",
        max_chars=4_000,
        placeholder="What this run showed, for whoever finds it later.",
    )
    if st.button("Save", key=f"save-{run.id}"):
        _save(run, [tag for part in tags.split(",") if (tag := part.strip())], text, name.strip())


def _noted(run: Run) -> None:
    """Show the name, the tags and the note of a run that is somebody else's."""
    rows = [["Name", escape(run.name) or "–"], ["Tags", escape(", ".join(run.tags)) or "–"]]
    st.html(table(["What", "Value"], rows, caption="What people call the run"))
    st.text(run.note or "No note has been written yet.")


def episode(run: Run, reader: Reader) -> None:
    """Show the episode that was drawn last, which the run draws anew now and then."""
    path = Home.find().run_folder(run.id) / PICTURE
    st.image(path.read_bytes())
    at = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    st.html(
        f'<p class="pl-caption">One episode, in which the policy always does what it thinks best; drawn {when(at)}.</p>'
    )


def _save(run: Run, tags: list[str], text: str, name: str) -> None:
    who = current_user.whoever()

    def change(store: Store) -> bool:
        for tag in dict.fromkeys(tags):
            if tag not in run.tags:
                store.annotations.add_tag(run.id, tag, by=who)
        for tag in run.tags:
            if tag not in tags:
                store.annotations.remove_tag(run.id, tag, by=who)
        if name != run.name:
            store.annotations.rename(run.id, name, by=who)
        if text != run.note:
            store.annotations.set_note(run.id, text, by=who)
        return True

    if command(change):
        st.rerun()


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "<br>".join(f"{escape(str(name))} {escape(str(version))}" for name, version in value.items())
    if isinstance(value, list):
        return "<br>".join(escape(str(item)) for item in value) or "none"
    return escape(str(value)) if value not in ("", None) else "not known"


SECTIONS = {
    "Ranks": ranks,
    "Pipeline": pipeline,
    "Histograms": histograms,
    "Episode": episode,
    "Machine": machine,
    "Log": log,
    "Events": events,
    "Config": config,
    "Environment": environment,
    "Notes": notes,
}


def section(run: Run, reader: Reader, picture: bool) -> str:
    """Show the section chosen and return its name; the choice stands in the address. `picture`: whether Episode is
    offered.
    """
    known = known_experiment(run.experiment)
    own = known.sections if known else ()
    there = {
        "Pipeline": lambda: "Pipeline" in own and reader.details.has_spans(run.id),
        "Histograms": lambda: reader.details.has_histograms(run.id),
        "Episode": lambda: picture,
    }
    names = [name for name in SECTIONS if name not in there or there[name]()]
    chosen = st.segmented_control(
        "Section",
        names,
        key="section",
        default=names[0],
        required=True,
        bind="query-params",
        label_visibility="collapsed",
        wrap=True,
    )
    name = chosen or names[0]
    SECTIONS[name](run, reader)
    return name
