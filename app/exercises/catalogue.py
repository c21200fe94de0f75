"""The list of exercises: what each asks for, whether it is open, how far a person is; broken files for teachers."""

from collections.abc import Collection, Sequence
from zoneinfo import ZoneInfo

import streamlit as st

from app.core.formatting import moment
from app.ui import current_user
from app.ui.html import as_cell, as_text, block, entry, exercise_link, joined, stacked, strong
from engine.errors import counted
from engine.exercises.catalogue import ExerciseCatalogue, ExerciseFile
from engine.exercises.files import Exercise
from engine.home import Home
from engine.registry import experiment_title
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt, ExerciseState
from engine.store.records import Status

KINDS = {"number": "predict a number", "order": "predict an order", "curve": "draw a curve"}
STATES: dict[str, tuple[Status, str]] = {
    "predicted": ("starting", "predicted"),
    "waiting": ("queued", "queued"),
    "running": ("running", "running"),
    "to hand in": ("stopping", "to hand in"),
    "handed in": ("finished", "handed in"),
}
"""The status that gives an attempt's state its colour, and its word."""


def state_cell(attempt: ExerciseAttempt | None) -> str:
    """Return how far an attempt is, as a badge."""
    status, words = STATES[attempt.state] if attempt else ("cancelled", "waiting for prediction")
    return as_cell(words, status)


def listed(files: Sequence[ExerciseFile], reader: Reader, person: str) -> None:
    """Show the exercises as cards, those that are open for a class first."""
    states = reader.exercises.states()
    own = {each.exercise: each for each in reader.exercises.attempts(person=person)} if person else {}
    first = sorted(files, key=lambda file: not (states.get(file.name) and states[file.name].is_open))
    cards = [_card(file, states.get(file.name) or ExerciseState(file.name), own.get(file.name)) for file in first]
    st.html(block("pl-cards", joined(filter(None, cards), "")))


def _card(file: ExerciseFile, state: ExerciseState, attempt: ExerciseAttempt | None) -> str:
    if file.exercise is None:
        return ""
    facts = [
        experiment_title(file.exercise.experiment),
        KINDS[file.exercise.predict.kind],
        takes(file.exercise),
        *filter(None, [state_in_words(state).rstrip(".") if state.is_open else "closed"]),
    ]
    return entry(
        strong(exercise_link(file.exercise.title, file.name)),
        [*facts, *([state_cell(attempt)] if attempt else [])],
    )


def taught(reader: Reader) -> Collection[str] | None:
    """Return the exercises whose class this person sees and may end: None for all, as an admin. In a lab without
    accounts the teacher of an exercise is who opened it.
    """
    here = current_user.standing()
    if not here.open:
        return None if here.may("open exercise") else ()
    states = reader.exercises.states().values()
    return {each.name for each in states if here.name and (each.opened_by or each.closed_by) == here.name}


def unpredicted(reader: Reader) -> frozenset[str]:
    """Return the exercises that are open for a class, and that this person neither teaches nor has predicted: Home
    leaves out their runs, which give the answer away.
    """
    if (own := taught(reader)) is None:
        return frozenset()
    name = current_user.name()
    begun = {each.exercise for each in reader.exercises.attempts(person=name)} if name else set()
    opened = {state.name for state in reader.exercises.states().values() if state.opened_by and state.is_open}
    return frozenset(opened - begun - {*own})


def may_open(state: ExerciseState) -> bool:
    """Return whether this person is offered to open and close an exercise: not one that another teacher opened."""
    here = current_user.standing()
    return here.may("open exercise") and (not here.open or state.opened_by in ("", here.name))


def takes(exercise: Exercise) -> str:
    """Return how many runs an attempt launches and what they take, such as `6 runs, about 2 min on two idle cores`."""
    about = f", about {exercise.minutes} min on two idle cores" if exercise.minutes else ""
    return counted(max(1, len(exercise.cells)) * exercise.repeats, "run") + about


def browser_zone() -> ZoneInfo:
    """Return the time zone of the browser; UTC if it is unknown."""
    return ZoneInfo(st.context.timezone or "UTC")


def state_in_words(state: ExerciseState) -> str:
    """Return who opened an exercise and until when, or why it is closed; empty if no teacher set anything."""
    if not state.is_open:
        return state.refusal("work").partition(", so ")[0] + "."
    if not state.opened_by:
        return ""
    until = "without a deadline"
    if state.deadline:
        until = f"until {moment(state.deadline).astimezone(browser_zone()):%Y-%m-%d %H:%M %Z}"
    return f"Opened by {state.opened_by}, {until}."


def opened(home: Home, reader: Reader) -> str:
    """Return links to the exercises that are open for a class, with their deadlines, as HTML; empty without any."""
    states = [state for state in reader.exercises.states().values() if state.opened_by and state.is_open]
    files = ExerciseCatalogue(home).listed if states else {}
    return stacked(
        exercise_link(files[state.name].title, state.name) + f": {state_in_words(state)}"
        for state in states
        if state.name in files
    )


def broken(catalogue: ExerciseCatalogue) -> None:
    """Show the files that can't be used, with their problems."""
    for file in catalogue.listed.values():
        if file.problems:
            sentences = "\n".join(f"- {as_text(sentence)}" for sentence in file.problems)
            st.error(f"**exercises/{as_text(file.name)}.md** can't be used.\n\n{sentences}")
