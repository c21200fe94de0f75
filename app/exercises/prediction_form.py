"""The form of a prediction: a number, an order, or a curve that is drawn or typed."""

import math
import re
from functools import partial
from typing import Any

import streamlit as st

from app.exercises.prediction_chart import in_words, lower_label
from app.ui import components
from app.ui.html import as_text
from engine.analysis.run_values import lower_title
from engine.exercises.files import Exercise
from engine.exercises.outcome import places


def prediction(exercise: Exercise, key: str, *, disabled: bool = False) -> Any:
    """Show the form, whose state is under `key`; return the prediction, None while it is incomplete."""
    task = exercise.predict
    if task.text:
        st.markdown(f"**{as_text(task.text)}**")
    if task.kind == "number":
        typed = st.text_input(task.label, key=f"{key}.number", placeholder="a number, such as 2.5", disabled=disabled)
        return _number(exercise, typed)
    if task.kind == "order":
        return _order(exercise, key, disabled=disabled)
    return _curve(exercise, key, disabled=disabled)


def _number(exercise: Exercise, text: str) -> float | None:
    """Say how a typed number is read, with a point or a comma; return it. The line is always there, so that the button
    below stays in its place.
    """
    value = read_number(text)
    words = (
        f"You predict {in_words(exercise, value)}." if value is not None else f"Not a number: {text}." if text else ""
    )
    st.caption(as_text(words or "Type a number."))
    return value


_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def read_number(text: str) -> float | None:
    """Return a typed number: `2.5`, `2,5`, or `30,000` with a comma for thousands as pages write it; None for another
    text.
    """
    written = text.strip()
    try:
        value = float(written.replace(",", "" if _THOUSANDS.fullmatch(written) else "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _order(exercise: Exercise, key: str, *, disabled: bool) -> list[str] | None:
    chosen = st.multiselect(
        f"Order, from the {exercise.predict.first} {lower_label(exercise)}",
        exercise.cells,
        key=f"{key}.order",
        placeholder="Choose the first one, then the next",
        disabled=disabled,
    )
    left = len(exercise.cells) - len(chosen)
    if chosen:
        st.markdown("\n".join(f"{at}. {as_text(cell)}" for at, cell in enumerate(chosen, 1)))
    if left:
        st.caption(f"{left} of {len(exercise.cells)} to choose.")
    return None if left else chosen


def _curve(exercise: Exercise, key: str, *, disabled: bool) -> list[tuple[float, float]] | None:
    task, along = exercise.predict, places(exercise)
    keys = _keys(key, len(along), st.session_state.get(f"{key}.strokes", 0))
    for each in keys:
        st.session_state.setdefault(each, "")
    values = [read_number(st.session_state[each]) for each in keys]
    title, low, high = lower_title(exercise.axis), float(task.low or 0.0), float(task.high or 100.0)
    data = {
        "places": [label for _, _, label in along],
        "values": values,
        "low": low,
        "high": high,
        "x": title.capitalize(),
        "y": task.label,
        "unit": task.unit,
        "alt": f"Empty chart to draw a prediction on: {task.label} by {title}",
        "disabled": disabled,
    }
    components.draw(f"{key}.draw", data, partial(_drawn, key, len(along)))
    with st.expander("Type the values instead"), st.container(horizontal=True):
        for each, (_, _, label) in zip(keys, along, strict=True):
            st.text_input(f"{title} {label}", key=each, width=130, disabled=disabled, persist_state="session")
    points = [(x, y) for (x, _, _), y in zip(along, values, strict=True) if y is not None]
    if len(points) < len(along):
        st.caption(f"{len(along) - len(points)} of {len(along)} values to set.")
        return None
    return points


def _keys(key: str, count: int, strokes: int) -> list[str]:
    """Return the keys of the fields, new ones after each stroke: a browser that has not drawn it yet sends the old
    values.
    """
    return [f"{key}.value.{at}{f'#{strokes}' if strokes else ''}" for at in range(count)]


def _drawn(key: str, count: int) -> None:
    """Take the values of a stroke into the fields."""
    if not (values := st.session_state[f"{key}.draw"]["values"]):
        return
    st.session_state[f"{key}.strokes"] = strokes = st.session_state.get(f"{key}.strokes", 0) + 1
    for each, value in zip(_keys(key, count, strokes), values, strict=False):
        st.session_state[each] = "" if value is None else f"{value:.12g}"
