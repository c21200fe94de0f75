"""A student's way through an exercise, on one page: read, predict, run, compare, answer, hand in."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import streamlit as st

from app.actions import queue_actions
from app.core.caches import VersionedCache
from app.exercises import prediction_chart
from app.exercises.catalogue import takes
from app.exercises.prediction_form import prediction
from app.ui import components, config_form, current_user, widgets
from app.ui.documentation import GUIDES, linked, page_body, pages
from app.ui.html import TERMS, as_text
from app.ui.store_access import give, message_of, say_trouble
from engine.errors import ConfigError, EngineError, counted
from engine.exercises.attempts import ANSWER_LENGTH, hand_in, launch_attempt, predict
from engine.exercises.files import Exercise, exercise_of
from engine.exercises.outcome import distance, measured
from engine.home import ROOT, Home
from engine.queue.forecast import Wait
from engine.registry import experiment, experiment_title
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt, ExerciseState

_DRAFT = "exercise.draft"
NEW = 0
"""The choice of another attempt, among the ids of those that were made."""
FRESH_S = 5.0
"""Greatest age of the estimates of the queue, which a whole class shares."""
ALONE = (
    "Its figure depends on time, so no two runs are at work at once; the runs of a class take turns. Nothing is "
    "graded by the time on the clock."
)
SHARED = "The runs of a class take turns in the queue. Runs of the same settings differ a little."
_WAITS: VersionedCache[dict[int, Wait]] = VersionedCache()
Shows = Callable[[ExerciseAttempt, Reader], None]
"""Shows something of the runs of an attempt; the page gives it."""
_MARK = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|^#.*$|^ {4}.*$)", re.M)


def matter(exercise: Exercise) -> None:
    """Show the text of an exercise, with the terms of the glossary marked, and the guide of its experiment below."""
    st.markdown(marked(linked(exercise.text, ROOT / exercise.name)))
    name = f"{GUIDES}{exercise.experiment}"
    if name in pages() and st.toggle(f"Guide: {experiment_title(exercise.experiment)}", key=f"guide.{exercise.name}"):
        with st.container(border=True, height=560):
            page_body(pages()[name])


def marked(text: str) -> str:
    """Return Markdown in which the first mention of each term of the glossary opens its definition."""
    for term in sorted(TERMS, key=len, reverse=True):
        link, place = f"[\\1](#term={term.replace(' ', '%20')})", re.compile(rf"\b({re.escape(term)}(?:e?s)?)\b", re.I)
        parts = _MARK.split(text)
        for at, part in enumerate(parts):
            if at % 2 == 0 and place.search(part):
                parts[at] = place.sub(link, part, count=1)
                break
        text = "".join(parts)
    return text


def student(
    exercise: Exercise, state: ExerciseState, reader: Reader, progress: Shows, why: Shows | None
) -> ExerciseAttempt | None:
    """Show the steps of the attempt that is chosen, by default the newest; return it, None for one to begin."""
    who = current_user.name()
    own = reader.exercises.attempts(exercise=exercise.name, person=who) if who else []
    attempt = _chosen(exercise, own, state)
    refusal = current_user.why_not("predict") or state.refusal("a new attempt") or None
    if attempt:
        exercise = exercise_of(exercise.name, attempt.head, exercise.text)  # as it was then
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("1 Predict", lambda: _predicted(exercise, attempt) if attempt else _begin(exercise, refusal)),
        ("2 Run", lambda: _run(exercise, attempt, state, reader, progress)),
        ("3 Compare", lambda: _compare(exercise, attempt, reader, why)),
        ("4 Answer and hand in", lambda: _answer(exercise, attempt, state)),
    )
    for title, show in steps:
        with st.container(border=True, key=f"step-{title[0]}"):
            st.header(title, anchor=False)
            show()
    return attempt


def _predicted(exercise: Exercise, attempt: ExerciseAttempt) -> None:
    others = ", ".join(name for name in attempt.people if name != current_user.name())
    asked, shared = exercise.predict.text or exercise.predict.label, f" with {others}" if others else ""
    st.markdown(f"**{as_text(prediction_chart.in_words(exercise, attempt.prediction))}**")
    st.caption(as_text(f"{asked} Predicted{shared}; it can't be changed."))


def _chosen(exercise: Exercise, own: Sequence[ExerciseAttempt], state: ExerciseState) -> ExerciseAttempt | None:
    if not own:
        return None
    by_id, key = {attempt.id: attempt for attempt in own}, f"exercise.{exercise.name}.attempt"
    more = own[-1].has_ended and state.is_open
    options = [*by_id, *[NEW] * more]
    if st.session_state.get(key) not in options:
        st.session_state[key] = own[-1].id
    if len(options) == 1:
        return own[0]
    names = {attempt.id: f"Attempt {at}: {attempt.state}" for at, attempt in enumerate(own, 1)}
    names[NEW] = "Another attempt"
    picked = st.segmented_control("Attempt", options, key=key, format_func=names.__getitem__, required=True, wrap=True)
    return by_id.get(picked or NEW)


def _begin(exercise: Exercise, refusal: str | None) -> None:
    key = f"exercise.{exercise.name}"
    value = prediction(exercise, key, disabled=refusal is not None)
    people = _others(key, disabled=refusal is not None)
    st.caption(as_text(refusal or "A prediction can't be changed. After its runs you can make another attempt."))
    # Free while incomplete: a press right after typing sends the value, which the page does not know yet.
    if st.button("Predict", type="primary", key=f"{key}.predict", **current_user.off(refusal)):
        if value is None:
            st.error("The prediction is incomplete: set each value, then predict.")
        else:
            _predict(exercise, value, people)


def _others(key: str, *, disabled: bool) -> list[str]:
    """Show the choice of the others of a group; return their names."""
    with Reader.open(Home.find()) as reader:
        accounts = [one.name for one in reader.people.everyone() if one.active and one.role != "viewer"]
        known = accounts or sorted({name for each in reader.exercises.attempts() for name in each.people})
    offered = [name for name in known if name != current_user.name()]
    return st.multiselect(
        "Group (optional)",
        offered,
        key=f"{key}.group",
        placeholder="Others who share this hand-in",
        accept_new_options=not accounts,
        disabled=disabled,
    )


def _predict(exercise: Exercise, value: Any, people: Sequence[str]) -> None:
    def order(by: str) -> None:
        predict(Home.find(), exercise, value, people=people, by=by)
        for name in [each for each in st.session_state if str(each).startswith(f"exercise.{exercise.name}.")]:
            del st.session_state[name]  # the next attempt begins with an empty form

    carry_out(order, "Save and predict")


def carry_out(order: Callable[[str], object], button: str = "Save and continue") -> None:
    """Carry out an order under a person's name, which is asked for first; show the page as it is then, or the error."""
    current_user.require_name(partial(carry_out, order, button), button)
    try:
        order(current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        st.rerun()


def _run(
    exercise: Exercise, attempt: ExerciseAttempt | None, state: ExerciseState, reader: Reader, progress: Shows
) -> None:
    if attempt and attempt.runs:
        if attempt.state == "waiting":
            st.write(as_text(_place(attempt, reader)))
        progress(attempt, reader)
        return
    known = replace(experiment(exercise.experiment), name=f"exercise.{exercise.name}")
    usual = exercise.settings_with({})
    for name in exercise.change:
        st.session_state.setdefault(config_form.key_of(known.name, name), config_form.as_typed(usual[name]))
    changes = {name: st.session_state[config_form.key_of(known.name, name)] for name in exercise.change}
    problems: dict[str, str] = {}
    try:
        exercise.settings_with(changes)
    except ConfigError as error:
        problems = {each.field: each.sentence for each in error.problems}
    notes = {name: f"Here: {each.words}" for name, each in exercise.change.items() if each.words and not each.values}
    lists = {name: each.values for name, each in exercise.change.items() if each.values}
    closed = current_user.why_not("launch") or state.refusal("a launch") or None
    config_form.grid(known, list(exercise.change), problems, notes, lists, disabled=closed is not None)
    cells = f": {', '.join(exercise.cells)}" if exercise.cells else ""
    times = f", {exercise.repeats} times each" if exercise.repeats > 1 else ""
    st.caption(as_text(f"{takes(exercise)}{cells}{times}. {ALONE if exercise.time_counts else SHARED}"))
    refusal = closed or (None if attempt else "Predict first: then you can launch.")
    off = current_user.off(refusal, disabled=bool(problems))
    if refusal:
        st.caption(as_text(refusal))
    with st.container(horizontal_alignment="right"):  # not where Predict was: a double click would launch
        pressed = st.button("Launch", type="primary", key=f"exercise.{exercise.name}.launch", **off)
    if pressed and attempt:
        carry_out(partial(_launch, attempt.id, changes, [config_form.key_of(known.name, name) for name in changes]))


def _launch(attempt_id: int, changes: Mapping[str, Any], keys: Sequence[str], by: str) -> None:
    """Launch an attempt; the next one begins with the exercise's settings, as its fields have these `keys`."""
    launch_attempt(Home.find(), attempt_id, changes, by=by)
    for key in keys:
        st.session_state.pop(key, None)


def _place(attempt: ExerciseAttempt, reader: Reader) -> str:
    """Return why the next run of an attempt waits, its position, and when it is expected to start."""
    version = reader.exercises.token(), monotonic() // FRESH_S
    waits = _WAITS.get(Home.find(), version, lambda: queue_actions.waits(reader))
    first = next((run_id for run_id in waits if run_id in attempt.runs), next(iter(attempt.runs)))
    return queue_actions.why(reader.runs.entry(first), waits.get(first), reader)


def _compare(exercise: Exercise, attempt: ExerciseAttempt | None, reader: Reader, why: Shows | None) -> None:
    if attempt is None:
        st.caption("Your prediction and the measured result, in one chart.")
        return
    found, given = measured(reader, attempt), attempt.prediction
    value = found.value if attempt.has_ended else None
    results = [value] if value is not None else []
    figure, colours = prediction_chart.chart(exercise, [("Your prediction", given)], results)
    alt = f"{exercise.title}: prediction{' and result' if results else ''}"
    components.figure(
        f"exercise-{attempt.id}", figure, alt=alt, height=prediction_chart.HEIGHT_PX, colours=colours, table=True
    )
    if value is None:
        lost = attempt.has_ended and found.missing
        words = f"No result: {', '.join(filter(None, found.missing)) or 'the run'} recorded no value." if lost else ""
        st.caption(as_text(words or "The result is drawn here when the runs have ended."))
        return
    apart = distance(given, value)
    st.markdown(f"Measured: **{as_text(prediction_chart.in_words(exercise, value))}**")
    st.markdown(f"Your prediction: **{as_text(apart.words)}**")
    if exercise.time_counts:
        fewest = found.fewest
        of = f"mean of at least {fewest} runs" if fewest > 1 else "value from at least one run"
        st.caption(f"No other run of the lab was at work; each {of}.")
    if why and attempt.handed_in_at:
        why(attempt, reader)
    elif why:
        st.caption(widgets.WITHHELD)


def _answer(exercise: Exercise, attempt: ExerciseAttempt | None, state: ExerciseState) -> None:
    if attempt and attempt.handed_in_at:
        for question, answer in zip(exercise.questions, attempt.answers, strict=False):
            st.markdown(f"**{as_text(question)}**")
            st.text(answer)
        st.success(as_text(f"Handed in by {attempt.handed_in_by}."))
        return
    if attempt is None:
        st.caption(f"{counted(len(exercise.questions), 'question')}, shown after your prediction.")
        return
    answers = []
    for at, question in enumerate(exercise.questions):
        st.markdown(f"**{as_text(question)}**")
        key = f"exercise.{exercise.name}.answer.{attempt.id}.{at}"
        st.session_state.setdefault(key, attempt.drafts[at] if at < len(attempt.drafts) else "")
        answers.append(
            st.text_area(
                f"Answer {at + 1}",
                key=key,
                height=90,
                max_chars=ANSWER_LENGTH,
                placeholder="In a sentence; it is kept until you hand in",
                label_visibility="collapsed",
                on_change=_keep_draft,
                args=(attempt.id, at, key),
            )
        )
    say_trouble(_DRAFT)
    refusal = current_user.why_not("hand in") or state.refusal("an answer") or None
    if not refusal and not attempt.has_ended:
        refusal = "You can hand in when the runs have ended."
    off = current_user.off(refusal)
    if refusal:
        st.caption(as_text(refusal))
    if st.button("Hand in", type="primary", key=f"exercise.{exercise.name}.hand_in", **off):
        carry_out(lambda by: hand_in(Home.find(), attempt.id, answers, by=by))


def _keep_draft(attempt_id: int, at: int, key: str) -> None:
    text, by = st.session_state[key][:ANSWER_LENGTH], current_user.whoever()
    give(lambda store: store.exercises.draft(attempt_id, at, text, by=by), _DRAFT)
