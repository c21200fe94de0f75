"""Resolving the compared runs: by ids, then by filter, with a message for each run not shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.links.compare import CompareView, ids_text
from app.ui.widgets import title_of
from engine.analysis.run_values import SEEDING, field, field_in_words, field_names, most_telling_first
from engine.errors import EngineError
from engine.store import Reader
from engine.store.records import RunRow

MOST_RUNS = 30
LONGEST_NAME, MOST_NAMED = 60, 4


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


def names_of(runs: Sequence[RunRow]) -> dict[int, str]:
    """Return a distinguishing name for each run: its id, and its own name, or its differing fields, or its title."""
    fields = telling(runs)
    said = _shortened([run.name or _differences(run, fields) or title_of(run) for run in runs])
    return {run.id: f"{run.id}: {text}" for run, text in zip(runs, said, strict=True)}


def telling(runs: Sequence[RunRow]) -> list[str]:
    """Return the fields that names of runs hold: the first few that tell them apart, and the seeding rule."""
    apart = most_telling_first(field_names(runs, that_differ=True))
    fields = [*fewest(runs, apart[:MOST_NAMED])]
    return fields + (
        [SEEDING] if SEEDING in apart and SEEDING not in fields else []
    )  # such runs are no repetitions of each other


def fewest(runs: Sequence[RunRow], apart: Sequence[str]) -> Sequence[str]:
    """Return the first of the fields that tell as many runs apart as all of them do."""
    different = [len({_differences(run, apart[: count + 1]) for run in runs}) for count in range(len(apart))]
    return apart[: different.index(different[-1]) + 1] if different else ()


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
