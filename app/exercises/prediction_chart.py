"""Predictions and measured values in one chart, for a student and for a whole class; pure."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from app.charts.plotly_figures import PlainFigure, as_label, axis_title
from app.ui.html import number
from engine.config_values import value_in_words
from engine.exercises.files import Exercise
from engine.exercises.outcome import Points, Prediction

HEIGHT_PX = 360
PREDICTED, MEASURED = 1, 0
"""Palette indices."""
MOST_NAMES = 12
"""Predictions up to which each has its name on the axis or at its line."""


def places(exercise: Exercise) -> list[tuple[float, str]]:
    """Return the places along x of a curve: the number that stands for each value of the sweep, and its label."""
    values = exercise.sweep[exercise.axis]
    is_number = [isinstance(value, int | float) and not isinstance(value, bool) for value in values]
    found = [(float(value) if all(is_number) else at, value_in_words(value)) for at, value in enumerate(values)]
    return sorted(found)


def lower_label(exercise: Exercise) -> str:
    """Return the predicted value within a sentence, without its unit."""
    label = exercise.predict.label.removesuffix(f" ({exercise.predict.unit})")
    return f"{label[:1].lower()}{label[1:]}"


def in_words(exercise: Exercise, value: Prediction | None, *, with_places: bool = True) -> str:
    """Return a prediction or a result as text; a curve `with_places` along x."""
    unit = exercise.predict.unit
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{number(value, unit=unit)} {unit}".strip()
    if exercise.predict.kind == "order":
        return ", then ".join(cast(tuple[str, ...], value))
    labels, points = dict(places(exercise)), cast(Points, value)
    heights = ", ".join(number(y, unit=unit) for _, y in points)
    along = ", ".join(labels.get(x, f"{x:g}") for x, _ in points)
    return f"{heights} {unit}".strip() + (f" at {exercise.axis.replace('_', ' ')} {along}" if with_places else "")


def chart(
    exercise: Exercise,
    predictions: Sequence[tuple[str, Prediction]],
    results: Sequence[tuple[str, Prediction]],
    *,
    named: bool = True,
) -> tuple[PlainFigure, list[int]]:
    """Return the figure of predictions and results by person, and the palette index of each trace. Several results
    have their mean as a line; without `named` no trace has a person's name.
    """
    if not named:  # the order of the students would tell who is who
        predictions = sorted(predictions, key=lambda each: cast(float, each[1]))
    labels = [label for _, label in places(exercise)] if exercise.predict.kind == "curve" else list(exercise.cells)
    traces, colours = [], []
    if exercise.predict.kind == "number":
        labels = [person if named else str(at) for at, (person, _) in enumerate(predictions, 1)]
        values = [value for _, value in predictions]
        traces.append(_trace("Predicted", range(len(values)), values, mode="markers", marker={"size": 13}))
        colours.append(PREDICTED)
        measured = [value for _, value in results]
        if measured:
            centre = float(np.mean(np.array(measured, dtype=float)))
            ends = [-0.5, max(0.5, len(labels) - 0.5)]
            name = "Measured" if len(measured) == 1 else f"Measured, mean of {len(measured)}"
            traces.append(_trace(name, ends, [centre, centre], mode="lines", line={"width": 3}))
            colours.append(MEASURED)
    else:
        for person, count, x, y in _lines(exercise, predictions, named):
            line = {"dash": "dot", "width": 2} if len(predictions) == 1 else {"width": 0.4 + count}
            look = {"line": line, "marker": {"size": 9}, "opacity": 1 if len(predictions) == 1 else 0.6}
            traces.append(_trace(person, x, y, mode="lines+markers", **look))
            colours.append(PREDICTED)
        if results:
            each = [_points(exercise, value) for _, value in results]
            centre = np.mean([np.interp(each[0][0], *points) for points in each], axis=0)
            name = "Measured" if len(each) == 1 else f"Measured, mean of {len(each)}"
            style: dict[str, Any] = {"mode": "lines+markers", "line": {"width": 4}, "marker": {"size": 11}}
            traces.append(_trace(name, each[0][0], [float(value) for value in centre], **style))
            colours.append(MEASURED)
    layout = {
        "height": HEIGHT_PX,
        "hovermode": "closest",
        "showlegend": 1 < len(traces) <= MOST_NAMES,
        "meta": {"units": {"x": "", "y": "" if exercise.predict.kind == "order" else exercise.predict.unit}},
        "xaxis": _x_axis(exercise, labels),
        "yaxis": _y_axis(exercise),
    }
    return {"data": traces, "layout": layout}, colours


def _lines(
    exercise: Exercise, predictions: Sequence[tuple[str, Prediction]], named: bool
) -> list[tuple[str, int, Sequence[Any], Sequence[Any]]]:
    """Return the predicted lines, each with a name, how many people drew it, x and y. Equal orders are one line; curves
    without names are one trace, whose parts are not joined.
    """
    if exercise.predict.kind == "order" and len(predictions) > 1:
        by_order: dict[Prediction, list[str]] = {}
        for person, value in predictions:
            by_order.setdefault(value, []).append(person)
        return [
            (
                ", ".join(people) if named else f"{len(people)} of {len(predictions)}",
                len(people),
                *_points(exercise, each),
            )
            for each, people in by_order.items()
        ]
    lines = [(person, *_points(exercise, value)) for person, value in predictions]
    if len(lines) > 1 and not named:
        x, y = ([each for line in lines for each in (*line[at], None)] for at in (1, 2))
        return [(f"{len(lines)} predictions", 1, x, y)]
    return [(person, 1, x, y) for person, x, y in lines]


def _points(exercise: Exercise, value: Prediction) -> tuple[list[float], list[float]]:
    """Return a curve with x as positions of the axis, which has one place per value; of an order the place of each
    cell.
    """
    if exercise.predict.kind == "order":
        order = cast(tuple[str, ...], value)
        return [float(at) for at in range(len(order))], [float(order.index(cell) + 1) for cell in exercise.cells]
    stands, points = [x for x, _ in places(exercise)], cast(Points, value)
    along = np.interp([x for x, _ in points], stands, range(len(stands)))
    return [float(x) for x in along], [y for _, y in points]


def _trace(name: str, x: Sequence[float], y: Sequence[Any], **style: Any) -> dict[str, Any]:
    hover = "%{y:.4~r} {y unit}<extra>%{fullData.name}</extra>"
    return {"type": "scatter", "name": as_label(name), "x": list(x), "y": list(y), "hovertemplate": hover, **style}


def _x_axis(exercise: Exercise, labels: Sequence[str]) -> dict[str, Any]:
    title = "" if exercise.predict.kind != "curve" else value_in_words(exercise.axis).replace("_", " ")
    shown = labels if len(labels) <= 3 * MOST_NAMES else [""] * len(labels)
    ends = [-0.4, max(1, len(labels)) - 0.6]
    return {
        "title": {"text": axis_title(title.capitalize())},
        "tickvals": list(range(len(labels))),
        "ticktext": [as_label(each) for each in shown],
        "range": ends,
        "zeroline": False,
    }


def _y_axis(exercise: Exercise) -> dict[str, Any]:
    task = exercise.predict
    if task.kind == "order":
        ticks = {"tickvals": list(range(1, len(exercise.cells) + 1)), "range": [len(exercise.cells) + 0.4, 0.6]}
        return {"title": {"text": axis_title(f"Place (1: {task.first} {lower_label(exercise)})")}, **ticks}
    title = axis_title(task.label.removesuffix(f" ({task.unit})"))
    return {"title": {"text": title}, "rangemode": "tozero"}
