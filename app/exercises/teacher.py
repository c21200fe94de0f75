"""A teacher's view: hand out, open and close an exercise, watch the class, export, and end the class."""

import io
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import segno
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.core.assets import macro
from app.core.caches import VersionedCache
from app.core.formatting import absolute, moment
from app.exercises import prediction_chart
from app.exercises.attempt import carry_out
from app.exercises.catalogue import browser_zone, state_cell, state_in_words, taught
from app.ui import components, current_user, dialogs
from app.ui.html import as_text, joined, nowrap, quiet, run_link, stacked, sweep_link, table, wide
from app.ui.widgets import page_address, say_reach
from engine.errors import counted
from engine.exercises.attempts import close_exercise, end_class, open_exercise
from engine.exercises.export import class_bundle, class_csv, latest, members, outcomes
from engine.exercises.files import Exercise
from engine.exercises.outcome import Distance, Measured
from engine.home import Home
from engine.notices.public_url import public_url
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt, ExerciseState
from engine.store.records import ENDED

_DONE = "exercises.done"
_QR = macro("ui/pieces.html", "qr")
Outcomes = Mapping[int, tuple[Measured, Distance | None]]
_OUTCOMES: VersionedCache[Outcomes] = VersionedCache()


def hand_out(exercise: Exercise, state: ExerciseState) -> None:
    """Show the address as text and as a QR code, and what opens and closes the exercise."""
    path = f"/exercises?exercise={exercise.name}"
    url = f"{public_url()}{path}" if public_url() else page_address(path)
    code, settings = st.columns([1, 2], gap="large")
    with code:
        drawn = segno.make(url, error="m", micro=False).svg_data_uri(omitsize=True, border=2, light="#fff")
        st.html(_QR(drawn, url, state_in_words(state) if state.deadline and state.is_open else ""))
        say_reach(url)
    with settings, st.container(border=True):
        st.caption(as_text(state_in_words(state) or "Everyone can work on it; a class finds an opened one first."))
        opens, zone = current_user.control("open exercise"), browser_zone()
        present = state.deadline if state.is_open else None
        with st.container(horizontal=True, vertical_alignment="bottom"):  # the open calendar covers what is below
            until = st.datetime_input(
                f"Deadline (optional, {zone.key.replace('_', ' ')})",
                value=moment(present).astimezone(zone).replace(tzinfo=None) if present else None,
                key=f"exercise.{exercise.name}.deadline.{present}",
                width=280,
            )
            deadline = until.replace(tzinfo=zone).isoformat() if until else ""
            is_open = state.opened_by and state.is_open
            words = "Set deadline" if is_open else "Open for the class"
            opened = st.button(words, type="primary", key="exercise.open", **opens)
            freed = present is not None and st.button("Remove deadline", key="exercise.endless", **opens)
            closes = current_user.control("close exercise", disabled=not state.is_open)
            closed = st.button("Close for the class", key="exercise.close", **closes)
        words = "Runs that the class launches come before other queued runs of their priority."
        first = st.toggle(
            "Class goes first",
            value=bool(state.class_first or not is_open),
            key=f"exercise.{exercise.name}.first.{state.class_first if is_open else None}",
            **current_user.control("open exercise", help=words),
        )
        if opened and is_open and not deadline:
            st.error("Choose a deadline first.")
        elif opened or freed:
            carry_out(partial(_open, exercise.name, "" if freed else deadline, first))
        elif closed:
            carry_out(lambda by: close_exercise(Home.find(), exercise.name, by=by))
        elif is_open and first != state.class_first:
            carry_out(partial(_open, exercise.name, state.deadline or "", first))


def _open(name: str, deadline: str, class_first: bool, by: str) -> None:
    open_exercise(Home.find(), name, by=by, deadline=deadline, class_first=class_first)


def watch(exercise: Exercise, reader: Reader) -> None:
    """Show the chart of all predictions, and a row for each student."""
    attempts = reader.exercises.attempts(exercise=exercise.name)
    counting, found = _outcomes(reader, attempts)
    unique = [*{own[-1].id: own[-1] for own in counting.values()}.values()]
    st.header("Predictions", anchor=False)
    if unique:
        with st.container(horizontal=True):
            named = st.toggle("Names", key="exercise.names")
            reveal = st.toggle("Reveal results", key="exercise.reveal")
        same = [each for each in unique if each.head.get("predict") == exercise.head.get("predict")]
        figure, colours = prediction_chart.chart(
            exercise,
            [(", ".join(each.people), each.prediction) for each in same],
            [value for each in same if reveal and (value := found[each.id][0].value) is not None],
            named=named,
        )
        components.figure(
            f"class-{exercise.name}",
            figure,
            alt=f"{counted(len(same), 'prediction')}: {exercise.predict.text or exercise.predict.label}",
            height=prediction_chart.HEIGHT_PX,
            colours=colours,
            table=True,
        )
        if left := len(unique) - len(same):
            st.caption(f"{counted(left, 'prediction')} of an earlier version of the file left out.")
    else:
        st.write("No predictions yet. They appear here, all in one chart, as students predict.")
        if reader.exercises.attempts(exercise=exercise.name, earlier_classes=True):
            st.caption("Those of classes that have ended are on the page Exercises, under Earlier classes.")
    st.header("Students", anchor=False)
    people = sorted({*(person for person, _ in counting), *members(reader)}, key=str.casefold)
    if people:
        heads = ["Student", "State", "Attempts", "Prediction", "Result", "Distance", "Answers", "Runs"]
        rows = [_row(exercise, person, counting.get((person, exercise.name), ()), found) for person in people]
        st.html(table(heads, rows, caption="Students"))
    if attempts:
        export(attempts, "exercise")


def _outcomes(
    reader: Reader, attempts: Sequence[ExerciseAttempt]
) -> tuple[Mapping[tuple[str, str], list[ExerciseAttempt]], Outcomes]:
    """Return the attempts of each person and exercise, and what those that count measured."""
    counting = latest(attempts)
    unique = {own[-1].id: own[-1] for own in counting.values()}
    version = reader.exercises.token()
    return counting, _OUTCOMES.get((Home.find(), *unique), version, lambda: outcomes(reader, [*unique.values()]))


def _row(exercise: Exercise, person: str, own: Sequence[ExerciseAttempt], found: Outcomes) -> list[str]:
    if not own:
        return [person, state_cell(None), *["–"] * 6]
    attempt, (result, apart) = own[-1], found[own[-1].id]
    group = [name for name in attempt.people if name != person]
    runs: str = joined(run_link(f"run {run_id}", run_id) for run_id in attempt.runs) or "–"
    if attempt.sweep_id is not None:
        runs = sweep_link(f"sweep {attempt.sweep_id}", attempt.sweep_id)
    return [
        joined([person, quiet(f"with {', '.join(group)}")], " ") if group else person,
        state_cell(attempt),
        str(len(own)),
        nowrap(prediction_chart.in_words(exercise, attempt.prediction, with_places=False)),
        nowrap(prediction_chart.in_words(exercise, result.value, with_places=False)),
        wide(apart.words) if apart else "–",
        wide(stacked(_lines(attempt.answers))) if attempt.answers else "–",
        nowrap(runs),
    ]


def _lines(answers: Sequence[str]) -> list[str]:
    """Return the lines of numbered answers, as they were typed."""
    return [line for at, answer in enumerate(answers, 1) for line in f"{at}. {answer}".splitlines()]


# ---- The whole class, over all exercises ----------------------------------------------------------------------------


def board(titles: Mapping[str, str], reader: Reader) -> None:
    """Show students by exercises, with the export and the end of the class; nothing before there is an attempt. Classes
    that have ended are below, one by one.
    """
    if done := st.session_state.pop(_DONE, None):
        st.success(done)
    names = taught(reader)
    by_end: dict[str | None, list[ExerciseAttempt]] = {}
    for attempt in reader.exercises.attempts(earlier_classes=True):
        if names is None or attempt.exercise in names:
            by_end.setdefault(attempt.class_ended_at, []).append(attempt)
    if present := by_end.pop(None, None):
        st.header("Class", anchor=False)
        _overview(titles, present, reader)
        with export(present, "class"):
            if st.button("End the class", key="exercises.end", **current_user.control("end class")):
                dialogs.open_soon(ask_end, names)
    if by_end:
        with st.expander("Earlier classes"):
            ended = st.selectbox("Ended", sorted(map(str, by_end), reverse=True), format_func=absolute, width=300)
            _overview(titles, by_end[ended], reader)
            export(by_end[ended], "earlier")


def _overview(titles: Mapping[str, str], attempts: Sequence[ExerciseAttempt], reader: Reader) -> None:
    """Show the students of a class by exercises."""
    counting, found = _outcomes(reader, attempts)
    names = [name for name in titles if any(exercise == name for _, exercise in counting)]
    people = {person for person, _ in counting} | {*members(reader, attempts[0].class_ended_at)}
    rows = [
        [person, *(_cell(counting.get((person, name)), found) for name in names)]
        for person in sorted(people, key=str.casefold)
    ]
    st.html(table(["Student", *(titles[name] for name in names)], rows, caption="Students by exercises"))


def _cell(own: Sequence[ExerciseAttempt] | None, found: Outcomes) -> str:
    if not own:
        return "–"
    apart = found[own[-1].id][1]
    return joined([state_cell(own[-1]), *([nowrap(apart.words)] if apart else [])], " ")


def export(attempts: Sequence[ExerciseAttempt], key: str) -> DeltaGenerator:
    """Show the buttons that save the class as a table and its runs as a bundle, in a row that is returned."""

    def write_csv() -> bytes:
        with Reader.open(Home.find()) as reader:
            return class_csv(reader, attempts)

    by = current_user.whoever()

    def write_bundle() -> bytes:
        file = io.BytesIO()
        with Reader.open(Home.find()) as reader:
            class_bundle(reader, attempts, file, by=by)
        return file.getvalue()

    row = st.container(horizontal=True)
    with row:
        st.download_button("Export CSV", write_csv, "class.csv", key=f"exercises.csv.{key}", on_click="ignore")
        if any(attempt.has_ended for attempt in attempts):
            st.download_button("Export runs", write_bundle, "class.zip", key=f"exercises.zip.{key}", on_click="ignore")
    return row


@st.dialog("End the class?")
def ask_end(exercises: Collection[str] | None) -> None:
    """Say what the end of the class of some exercises, or of all, does, and carry it out once confirmed."""
    with Reader.open(Home.find()) as reader:
        accounts = members(reader)
        attempts = [each for each in reader.exercises.attempts() if exercises is None or each.exercise in exercises]
    people = {*chain.from_iterable(attempt.people for attempt in attempts)}
    st.write(
        f"{'All exercises' if exercises is None else 'The exercises that you opened'} are closed. "
        f"{_runs_at_the_end(attempts)}Predictions, results and answers are kept: see Earlier classes on this page."
    )
    also: list[str] = []
    keeps = not (accounts and st.toggle("Disable their accounts", value=True, key="exercises.end.disable"))
    if not keeps:
        also = st.multiselect(
            "Accounts without an attempt to disable too", [name for name in accounts if name not in people]
        )
        st.write("The accounts of its students are disabled: they can't sign in until an admin enables them.")
    elif accounts:
        st.write("Its students can still sign in, such as for the next lesson.")
    with export(attempts, "end"):
        if st.button("End the class", type="primary", key="exercises.end.now"):
            carry_out(lambda by: _end(by, also, keeps, exercises))
        if st.button("Cancel", key="exercises.end.not"):
            st.rerun()


def _runs_at_the_end(attempts: Sequence[ExerciseAttempt]) -> str:
    """Return which runs the end of a class cancels and archives, as sentences; running ones are not archived."""
    statuses = [status for attempt in attempts for status in attempt.runs.values()]
    cancelled = sum(status not in ENDED for status in statuses)
    archived = sum(status in ENDED or status == "queued" for status in statuses)
    students = {*chain.from_iterable(attempt.people for attempt in attempts if attempt.runs)}
    of = f" of {counted(len(students), 'student')}"
    parts = [
        f"{counted(cancelled, 'run')} {'is' if cancelled == 1 else 'are'} cancelled" if cancelled else "",
        f"{counted(archived, 'run')}{of} {'is' if archived == 1 else 'are'} archived" if archived else "",
    ]
    return f"{said}. " if (said := "; ".join(filter(None, parts))) else ""


def _end(by: str, also: Sequence[str], keeps_accounts: bool, exercises: Collection[str] | None) -> None:
    ended = end_class(Home.find(), by=by, also=also, keep_accounts=keeps_accounts, exercises=exercises)
    st.session_state[_DONE] = (
        f"The class has ended: {counted(len(ended.attempts), 'attempt')}, {counted(ended.archived, 'run')} archived, "
        f"{counted(len(ended.disabled), 'account')} disabled. Its results are below, under Earlier classes."
    )
