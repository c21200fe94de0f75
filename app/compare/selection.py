"""Resolving the compared runs: by ids, then by filter, with a message for each run not shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.links.compare import CompareView, ids_text
from app.ui.widgets import title_of
from engine.analysis.run_values import field, field_names, most_telling_first
from engine.config_values import value_in_words
from engine.errors import EngineError
from engine.store import Reader
from engine.store.records import RunRow

MOST_RUNS = 30
LONGEST_NAME, MOST_NAMED = 46, 4


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
    if view.filter:
        try:
            found, total = matching_ids(reader, view.filter, MOST_RUNS + len(view.runs))
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


def names(runs: Sequence[RunRow]) -> dict[int, str]:
    """Return a distinguishing name for each run: its id, and its own name, or its differing fields, or its title."""
    apart = most_telling_first(field_names(runs, that_differ=True))
    return {run.id: f"{run.id}: {_short(run.name or _differences(run, apart) or title_of(run))}" for run in runs}


def _differences(run: RunRow, apart: Sequence[str]) -> str:
    said = [(name, value) for name in apart if (value := field(run, name)) is not None][:MOST_NAMED]
    return ", ".join(value if isinstance(value, str) else f"{name} {value_in_words(value)}" for name, value in said)


def _short(text: str) -> str:
    """Return a long name with its middle removed: runs of one sweep differ at the end."""
    start = LONGEST_NAME // 3
    return text if len(text) <= LONGEST_NAME else f"{text[:start].rstrip()}…{text[start + 1 - LONGEST_NAME :].lstrip()}"
