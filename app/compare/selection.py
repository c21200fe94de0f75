"""Resolving the compared runs: by ids, then by filter, with a message for each run not shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from app.charts.curve_points import AXES, BYTES, axis_of, metric_of
from app.compare.session_state import key_of, runs_field, show
from app.core.formatting import moment
from app.links.compare import MOST_RUNS, CompareView, ids_text
from app.ui.run_state import outcome
from app.ui.widgets import FILTER_EXAMPLE, FILTER_HELP, title_of
from engine.analysis.run_values import (
    ABOUT,
    EXPERIMENT,
    SEEDING,
    field,
    field_in_words,
    field_names,
    grouping_names,
    metric_names,
    most_telling_first,
    names,
    resolved,
)
from engine.errors import EngineError, counted
from engine.filter.syntax import LONGEST
from engine.registry import experiment_title, known_experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow, Status
from engine.store.sweeps.sweeps import REPEAT, SEED

LONGEST_NAME, MOST_NAMED = 60, 4
NOTES = {"note": "Note", "tags": "Tags", "status": "Status"}
"""Columns beside the charts besides values and settings."""


@dataclass(frozen=True)
class Chosen:
    """The compared runs by id, and messages about runs that are not shown."""

    runs: tuple[RunRow, ...]
    sentences: tuple[str, ...]


def matching_ids(reader: Reader, text: str, limit: int) -> tuple[list[int], int]:
    """Return the ids of the newest runs that match a filter, at most `limit`, and the total number of matches; raises
    FilterError for an invalid filter.
    """
    found = reader.fields.filter(text)
    return [run.id for run in reader.runs.find(matching=found, limit=limit)], reader.runs.count(matching=found)


def chosen(reader: Reader, view: CompareView) -> Chosen:
    """Return the runs of a view; an invalid filter matches none and adds a message."""
    said, found, total = list[str](), list[int](), 0
    if view.filter or view.newest:
        most = min(view.newest or MOST_RUNS, MOST_RUNS)
        try:
            found, total = matching_ids(reader, view.filter, most + len(view.runs) * (not view.newest))
            total = min(total, view.newest or total)
        except EngineError as error:
            said.append(str(error))
        else:
            said += [] if found else [f"No runs match the filter '{view.filter}'."]
    wanted = list(dict.fromkeys([*view.runs, *found]))
    runs = reader.runs.some(wanted[: MOST_RUNS + len(view.runs)])
    there = {run.id for run in runs}
    if gone := [run_id for run_id in view.runs if run_id not in there]:
        subject = f"Run {gone[0]} is" if len(gone) == 1 else f"Runs {ids_text(gone)} are"
        said.append(f"{subject} not in this lab: never launched or deleted. The other runs are shown.")
    matched = total + len([run_id for run_id in view.runs if run_id in there and run_id not in found])
    if matched > MOST_RUNS:
        said.append(
            f"At most {MOST_RUNS} runs can be compared; got {matched:,}. Showing the first {MOST_RUNS}: select "
            "fewer, or use a filter."
        )
    return Chosen(tuple(sorted(runs[:MOST_RUNS], key=lambda run: run.id)), tuple(said))


def names_of(runs: Sequence[RunRow]) -> dict[int, str]:
    """Return a distinguishing name for each run: its id, and its own name, or its differing fields, or its title; with
    its experiment where several stand together.
    """
    fields, several = telling(runs), len({run.experiment for run in runs}) > 1
    said = _shortened([run.name or _differences(run, fields) or title_of(run) for run in runs])
    kinds = [experiment_title(run.experiment) if several else "" for run in runs]
    said = [text if kind in text else f"{kind}, {text}" for kind, text in zip(kinds, said, strict=True)]
    return {run.id: f"{run.id}: {text}" for run, text in zip(runs, said, strict=True)}


def short_names(runs: Sequence[RunRow]) -> list[str]:
    """Return names of runs for sentences: their experiments, or the values of the only setting in which they differ,
    where these are all different, else their numbers. With runs of other programs, as the legend names them.
    """
    numbers = [f"run {run.id}" for run in runs]
    titles = [experiment_title(run.experiment) for run in runs]
    values = [_differences(run, only_setting(runs)) for run in runs]
    are_ours = all(known_experiment(run.experiment) for run in runs)
    for said in (titles, values) if are_ours else (values,):
        if len(set(said)) == len(runs) and all(0 < len(name) <= LONGEST_NAME for name in said):
            return said
    return numbers if are_ours else [*names_of(runs).values()]


def only_setting(runs: Sequence[RunRow]) -> list[str]:
    """Return the setting in which runs of one experiment differ, if it is a single one and not the seed; none where
    names that people gave them, not a sweep, tell them apart.
    """
    if len({"" if run.sweep_id else run.name for run in runs}) > 1:
        return []
    apart = [name for name in field_names(runs, that_differ=True) if name not in ABOUT or name == EXPERIMENT]
    return apart if len(apart) == 1 and apart[0] not in (SEED, REPEAT, EXPERIMENT) else []


def swept(reader: Reader, runs: Sequence[RunRow]) -> set[str]:
    """Return the settings that the sweeps of runs vary; none if a run is of no sweep."""
    found = {run.sweep_id for run in runs}
    ids = [sweep_id for sweep_id in found if sweep_id]
    return (
        {name for sweep_id in ids for name in reader.sweeps.one(sweep_id).fields} if len(ids) == len(found) else set()
    )


def telling(runs: Sequence[RunRow]) -> list[str]:
    """Return the fields that names of runs hold: the first few that tell them apart, and the seeding rule."""
    apart = most_telling_first(field_names(runs, that_differ=True))
    fields = [name for name in fewest(runs, apart[:MOST_NAMED]) if name != SEEDING]
    rules = {run.seeding for run in runs if known_experiment(run.experiment)}
    return fields + [SEEDING] * (len(rules) > 1)  # such runs are no repetitions of each other


def fewest(runs: Sequence[RunRow], apart: Sequence[str]) -> Sequence[str]:
    """Return the fields that tell runs apart which those before them do not: none that follows from them, such as the
    length of a run from its number of trainers.
    """
    found, told = list[str](), 1
    for name in apart:
        different = len({tuple(str(field(run, each)) for each in (*found, name)) for run in runs})
        if different > told:
            found, told = [*found, name], different
    return found


def _differences(run: RunRow, apart: Sequence[str]) -> str:
    said = [(name, value) for name in apart if (value := field(run, name)) is not None]
    return ", ".join(field_in_words(name, value) for name, value in said)


def _shortened(texts: Sequence[str]) -> list[str]:
    """Return names of at most LONGEST_NAME letters, by cutting first from what all begin with, then from what all end
    with, then from the middle.
    """
    start = min(_alike(texts), max(map(len, texts), default=0) - LONGEST_NAME + 1)
    texts = [f"…{text[start:].lstrip()}" for text in texts] if start > 1 else texts
    end = min(_alike([text[::-1] for text in texts]), max(map(len, texts), default=0) - LONGEST_NAME + 1)
    return [_short(f"{text[:-end].rstrip()}…" if end > 1 else text) for text in texts]


def _alike(texts: Sequence[str]) -> int:
    """Return the number of letters that all of several different texts begin with."""
    return next((place for place, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), 0)


def _short(text: str) -> str:
    start = LONGEST_NAME // 3
    return text if len(text) <= LONGEST_NAME else f"{text[:start].rstrip()}…{text[start + 1 - LONGEST_NAME :].lstrip()}"


# ------------------------------------------------------------------------------------------------------------------
# Selecting runs on the Compare page: by id, by filter, or from a table of the newest runs; and warnings about
# unknown names in a link.

NEWEST = 100
BEGUN: tuple[Status, ...] = ("running", "stopping", *ENDED)
ROW_PX = 33


def choice(view: CompareView) -> tuple[CompareView, list[str]]:
    """Show the run fields; return the updated view, and an error message for each invalid part."""
    view, wrong = runs_field(view)
    help_text = f"Compares all matching runs, re-evaluated each time the link is opened. {FILTER_HELP}"
    text = st.text_input(
        "Filter", key=key_of("filter", view.filter), placeholder=FILTER_EXAMPLE, max_chars=LONGEST, help=help_text
    )
    newest = view.newest
    if text.strip() or newest:
        newest = st.number_input(
            "Newest",
            0,
            MOST_RUNS,
            step=1,
            key=key_of("newest", min(view.newest, MOST_RUNS)),
            width=110,
            help="Only so many of the newest matching runs; new ones take the place of older ones. 0 for all.",
        )
    return replace(view, filter=text.strip(), newest=int(newest)), wrong


def chooser(reader: Reader, view: CompareView, key: str) -> None:
    """Show the newest runs with recorded values for selection; the button adds the selected ones to the comparison."""
    newest = _listed(reader, key)
    if not newest:
        st.write("No run has recorded values yet.")
        return
    frame = pd.DataFrame(
        {
            "run": [run.id for run in newest],
            "what": [title_of(run) for run in newest],
            "owner": [run.owner for run in newest],
            "status": [outcome(run)[1] for run in newest],
            "launched": [moment(run.created_at) for run in newest],
        }
    )
    columns = {
        "run": st.column_config.NumberColumn("Run", width=60, format="%d"),
        "what": st.column_config.TextColumn("Title", width=260),
        "owner": st.column_config.TextColumn("Owner", width=110),
        "status": st.column_config.TextColumn("Status", width=90),
        "launched": st.column_config.DatetimeColumn("Launched", format="distance", timezone="UTC", width=120),
    }
    height = min(10, len(newest) + 1) * ROW_PX + 2
    ticked = st.dataframe(
        frame, column_config=columns, hide_index=True, height=height, row_height=ROW_PX, key=key, on_select="rerun", selection_mode="multi-row",  # noqa: E501
        alt=f"The newest {counted(len(newest), 'run')}",
    ).selection.rows  # fmt: skip
    ids = sorted({*view.runs, *(newest[row].id for row in ticked if row < len(newest))})
    verb = "Add" if view.runs else "Compare"
    if st.button(
        f"{verb} {len(ticked)} run{'s' * (len(ticked) > 1)}" if ticked else f"Select runs to {verb.lower()}",
        key=f"{key}.add",
        disabled=not ticked,
        type="primary",
    ):
        show(replace(view, runs=tuple(ids[-10 * MOST_RUNS :])))
        st.rerun()


def _listed(reader: Reader, key: str) -> list[RunRow]:
    """Return the newest runs with recorded values; those listed before while some are ticked, since ticks are rows."""
    before: list[int] = st.session_state.get(f"{key}.listed", [])
    if before and (state := st.session_state.get(key)) and state.selection.rows:
        return reader.runs.some(before)
    newest = [run for run in reader.runs.find(statuses=BEGUN, limit=NEWEST) if run.last]
    st.session_state[f"{key}.listed"] = [run.id for run in newest]
    return newest


def with_known_names(view: CompareView, runs: Sequence[RunRow]) -> tuple[CompareView, list[str]]:
    """Return the view with its numbers spelled as the runs have them, and a warning for each name that none has."""
    metrics, every = set(metric_names(runs)), set(names(runs))
    number, against, *axes = (resolved(name, every) for name in (view.number, view.against, *view.axes))
    x = view.x if view.x in {"", BYTES, *AXES} else axis_of(metric_of(view.x))
    view = replace(view, x=x, number=number, against=against, axes=tuple(axes))
    asked = [("metric", name) for name in view.metrics if name not in metrics]
    asked += [("axis", view.x)] if x not in {"", BYTES, *AXES, *map(axis_of, metrics)} else []
    asked += [("field", name) for name in view.group or () if name not in grouping_names(runs)]
    asked += [("number", name) for name in (number, against, *axes) if name and name not in every]
    of_view = (*view.pins, view.base, view.members, view.only)
    asked += [("run", str(one)) for one in dict.fromkeys(of_view) if one and one not in {run.id for run in runs}]
    asked += [("column", name) for name in view.columns or () if name not in {*every, *NOTES}]
    return view, [f"No {kind} '{name[:60]}' in these runs; ignored." for kind, name in asked]
