"""Exercises: predict, run, compare, hand in. One by its name (`?exercise=NAME`), for its students and their teacher;
without a name, the list, and for a teacher the class.
"""

from urllib.parse import quote

import streamlit as st

from app.core.assets import at
from app.exercises import attempt as steps
from app.exercises import catalogue, teacher
from app.links import addresses
from app.run.summary_html import progress as progress_bar
from app.run.summary_html import showed
from app.run.why import why_of
from app.sweep.chart import matrix
from app.sweep.header import share_done
from app.ui import components, current_user, widgets
from app.ui.html import as_text, bar, breadcrumb, link, run_link, sweep_link
from app.ui.store_access import reading
from engine.config_values import values_in_words
from engine.errors import EngineError
from engine.exercises.catalogue import ExerciseCatalogue
from engine.exercises.files import Exercise
from engine.home import Home
from engine.museum.latest_runs import NAME as MUSEUM
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from engine.store.records import ENDED

VIEWS = ("Exercise", "Class")
EVERY_MS = 2_000
wanted = st.query_params.get("exercise", "")
of = st.query_params.get("experiment", "")
found = ExerciseCatalogue(Home.find())


def progress(attempt: ExerciseAttempt, reader: Reader) -> None:
    """Show how far the runs of an attempt are."""
    if attempt.sweep_id is not None:
        sweep, runs = reader.sweeps.one(attempt.sweep_id), reader.sweeps.runs(attempt.sweep_id)
        if sweep.active:
            st.html(bar(share_done(runs), f"Progress of sweep {sweep.id}"))
        st.html(matrix(sweep, runs))
        st.html(sweep_link(f"Sweep {sweep.id}", sweep.id))
        return
    for run_id in attempt.runs:
        entry = reader.runs.entry(run_id)
        if entry.status not in ENDED:
            st.html(progress_bar(entry))
        st.html(run_link(f"Run {run_id}: {entry.status}", run_id))
        if attempt.handed_in_at and entry.experiment == MUSEUM:  # its page answers the questions
            exhibit = entry.config["exhibit"]
            address = f"/museum?exhibit={exhibit}&by={quote(entry.owner)}"
            st.html(link("Exhibit with both versions of the code", at(address)))


def why(attempt: ExerciseAttempt, reader: Reader) -> None:
    """Show what the last run of an attempt showed, and why its system works as it does, with its numbers."""
    run = reader.runs.one([*attempt.runs][-1])
    if said := showed(run, reader.runs.entry(run.id), reader):
        cell = values_in_words({name: run.config.get(name) for name in attempt.head.get("sweep") or {}})
        st.html(run_link(f"Run {run.id}{f', {cell}' if cell else ''}", run.id) + ": " + said)


@addresses.fragment
def one(exercise: Exercise) -> None:
    """Show an exercise; rerun when the class changes, or the progress of the attempt in sight."""
    with reading(lambda: components.pulse(-1, of_exercises=True)) as reader, reader.db.snapshot():
        token, state = reader.exercises.token(), reader.exercises.state(exercise.name)
        kept = addresses.kept("view", VIEWS[0], VIEWS)
        view = VIEWS[0]
        if catalogue.may_open(state):
            view = st.segmented_control("View", VIEWS, required=True, label_visibility="collapsed", **kept) or view
        if view == VIEWS[1]:
            teacher.hand_out(exercise, state)
            names = catalogue.taught(reader)
            if names is None or exercise.name in names:
                teacher.watch(exercise, reader)
            else:
                st.caption("Whoever opens the exercise is its teacher, and follows the class here.")
            components.pulse(token, of_exercises=True, every_ms=EVERY_MS)
            return
        widgets.runner_banner(reader)
        if state.is_open and (words := catalogue.state_in_words(state)):
            st.caption(as_text(words))
        text, work = st.columns([4, 5], gap="large")
        with text:
            steps.matter(exercise)
        with work:
            chosen = steps.student(exercise, state, reader, progress, why if why_of(exercise.experiment) else None)
        if chosen and chosen.state == "running":
            sweep_id, run_id = chosen.sweep_id, next(iter(chosen.runs))
            version = reader.runs.token(run_id) if sweep_id is None else reader.sweeps.token(sweep_id)
            components.pulse(version, run_id=run_id if sweep_id is None else None, sweep_id=sweep_id, every_ms=EVERY_MS)
        else:
            components.pulse(token, of_exercises=True, every_ms=EVERY_MS)


@addresses.fragment
def everything() -> None:
    """Show the list, and for a teacher the class; rerun when the class changes."""
    with reading(lambda: components.pulse(-1, of_exercises=True)) as reader:
        token = reader.exercises.token()
        files = [file for file in found.listed.values() if not of or (file.exercise and file.exercise.experiment == of)]
        if current_user.may("open exercise"):
            catalogue.broken(found)
            teacher.board({name: file.title for name, file in found.listed.items()}, reader)
            st.header("All exercises", anchor=False)
        catalogue.listed(files, reader, current_user.name() or "")
    components.pulse(token, of_exercises=True, every_ms=EVERY_MS)


if wanted:
    try:
        exercise = found.exercise(wanted)
    except EngineError as error:
        st.title("Exercises", anchor=False)
        st.error(as_text(str(error)))
        st.html(link("All exercises", at("/exercises")))
        st.stop()
    st.set_page_config(page_title=f"{exercise.title} · Parallab")
    st.html(breadcrumb([link("Exercises", at("/exercises"))], exercise.title))
    st.title(as_text(exercise.title), anchor=False)
    one(exercise)
else:
    st.title("Exercises", anchor=False)
    st.write("Predict, run, compare: say what you expect before the run, then see how far it was.")
    everything()
components.preload_plotly()
