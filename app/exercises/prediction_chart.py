"""Predictions and measured values in one chart, for a student and for a whole class; pure."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from app.charts.plotly_figures import PlainFigure, as_label, axis_title
from app.ui.html import number
from engine.config_values import value_in_words
from engine.exercises.files import Exercise
from engine.exercises.outcome import Points, Prediction, places

HEIGHT_PX = 360
PREDICTED, MEASURED = 1, 0
"""Palette indices."""
MOST_NAMES = 12
"""Predictions up to which each has its name on the axis or at its line."""


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
    labels, points = {x: label for x, _, label in places(exercise)}, cast(Points, value)
    heights = ", ".join(number(y, unit=unit) for _, y in points)
    along = ", ".join(labels.get(x, f"{x:g}") for x, _ in points)
    return f"{heights} {unit}".strip() + (f" at {exercise.axis.replace('_', ' ')} {along}" if with_places else "")


def chart(
    exercise: Exercise,
    predictions: Sequence[tuple[str, Prediction]],
    results: Sequence[Prediction],
    *,
    named: bool = True,
) -> tuple[PlainFigure, list[int]]:
    """Return the figure of predictions by person and of results, and the palette index of each trace. Several results
    have their mean as a line; equal predictions are one line, which is wider; without `named` no trace has a person's
    name.
    """
    if not named:  # the order of the students would tell who is who
        predictions = sorted(predictions, key=lambda each: cast(float, each[1]))
    is_number = exercise.predict.kind == "number"
    if is_number:
        labels = [person if named else str(at) for at, (person, _) in enumerate(predictions, 1)]
        heights = [value for _, value in predictions]
        traces = [_trace("Predicted", range(len(labels)), heights, mode="markers", marker={"size": 13})]
    else:
        labels = [place[2] for place in places(exercise)] if exercise.predict.kind == "curve" else [*exercise.cells]
        people: dict[Prediction, list[str]] = {}
        for person, value in predictions:
            people.setdefault(value, []).append(person)
        alone = len(people) == 1
        traces = [
            _trace(
                ", ".join(own) if named else f"{len(own)} of {len(predictions)}",
                *_points(exercise, value),
                mode="lines+markers",
                line={"dash": "dot" if alone else "solid", "width": 2 if alone else 0.4 + len(own)},
                marker={"size": 9},
                opacity=1 if alone else 0.6,
            )
            for value, own in people.items()
        ]
    colours = [PREDICTED] * len(traces)
    if results:
        x, y = _points(exercise, results[0])
        y = [float(each) for each in np.mean([_points(exercise, value)[1] for value in results], axis=0)]
        name = "Measured" if len(results) == 1 else f"Measured, mean of {len(results)}"
        x, mode = ([-0.5, max(0.5, len(labels) - 0.5)], "lines") if is_number else (x, "lines+markers")
        traces.append(_trace(name, x, y * (2 if is_number else 1), mode=mode, line={"width": 4}, marker={"size": 11}))
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


def _points(exercise: Exercise, value: Prediction) -> tuple[list[float], list[float]]:
    """Return x as positions of the axis, which has one place per value, and y; of an order the place of each cell."""
    if isinstance(value, int | float):
        return [0.0], [value]
    if exercise.predict.kind == "order":
        order = cast(tuple[str, ...], value)
        return [float(at) for at in range(len(order))], [float(order.index(cell) + 1) for cell in exercise.cells]
    stands, points = [place[0] for place in places(exercise)], cast(Points, value)
    along = np.interp([x for x, _ in points], stands, range(len(stands)))
    return [float(x) for x in along], [y for _, y in points]


def _trace(name: str, x: Sequence[float], y: Sequence[Any], **style: Any) -> dict[str, Any]:
    hover = "%{y:.4~r} {y unit}<extra>%{fullData.name}</extra>"
    return {"type": "scatter", "name": as_label(name), "x": list(x), "y": list(y), "hovertemplate": hover, **style}


def _x_axis(exercise: Exercise, labels: Sequence[str]) -> dict[str, Any]:
    title = "" if exercise.predict.kind != "curve" else value_in_words(exercise.axis).replace("_", " ")
    shown = labels if len(labels) <= 3 * MOST_NAMES else [""] * len(labels)
    return {
        "title": {"text": axis_title(title.capitalize())},
        "tickvals": list(range(len(labels))),
        "ticktext": [as_label(each) for each in shown],
        "range": [-0.4, max(1, len(labels)) - 0.6],
        "zeroline": False,
    }


def _y_axis(exercise: Exercise) -> dict[str, Any]:
    task = exercise.predict
    if task.kind == "order":
        ticks = {"tickvals": list(range(1, len(exercise.cells) + 1)), "range": [len(exercise.cells) + 0.4, 0.6]}
        return {"title": {"text": axis_title(f"Place (1: {task.first} {lower_label(exercise)})")}, **ticks}
    return {"title": {"text": axis_title(task.label.removesuffix(f" ({task.unit})"))}, "rangemode": "tozero"}
