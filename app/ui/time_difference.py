"""Why the fastest of some runs was faster than the slowest, as a sentence on a page."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import streamlit as st
from markupsafe import Markup

from app.core.assets import at
from app.links.launch import as_path, clone_query
from app.report import page_capture
from app.ui import widgets
from app.ui.html import as_text, joined, link, number, paragraph
from engine.analysis.comparability import MOST_NAMED, in_words
from engine.analysis.result import not_learned_of
from engine.analysis.run_values import to_measure_again
from engine.analysis.scaling.targets import Goal
from engine.analysis.scaling.time_difference import (
    Compares,
    is_speed_unknown,
    is_work_unequal,
    not_comparable,
    time_spent,
    why_faster,
)
from engine.analysis.statistics.intervals import FEWEST, LIMIT, Interval
from engine.analysis.total_work import unequal_work_of
from engine.errors import counted
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow, is_complete


def complete(groups: Mapping[str, Sequence[RunRow]]) -> dict[str, list[RunRow]]:
    """Return the groups with their complete runs only."""
    return {name: [run for run in runs if is_complete(run)] for name, runs in groups.items()}


VERDICTS = ("Fastest", "No clear difference", "All ", "Both ")
"""How the sentence begins that stands on a line of its own."""
DISTURBED = "Speed can't be compared: other programs disturbed the runs."
IN_PAGE = " Press Measure again above, or include disturbed runs."
UNEQUAL_AND_DISTURBED = (
    "Speed can't be compared: the runs did unequal total work. Other programs also disturbed them, so that work per "
    "second can't be compared either."
)


def measured_again_at(runs: Iterable[RunRow], reader: Reader) -> dict[str, tuple[str, dict[str, str | list[str]]]]:
    """Return where disturbed runs are measured again, by what that repeats: the pages of their sweeps, and for the
    others the launch form with their settings; each page with its query.
    """
    disturbed = [run for run in runs if run.disturbed and run.status in ENDED]
    repeated = {
        run.id
        for sweep_id in {run.sweep_id for run in disturbed if run.sweep_id}
        for run in to_measure_again(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id))
    }
    found = dict[str, tuple[str, dict[str, str | list[str]]]]()
    for run in disturbed:
        if run.id in repeated:
            found[f"sweep {run.sweep_id}"] = "sweep", {"sweep": str(run.sweep_id)}
        elif not run.sweep_id and (run.command_id is not None or known_experiment(run.experiment)):
            found[f"run {run.id}"] = "launch", clone_query(run)
    return found


def measure_again(runs: Iterable[RunRow], reader: Reader) -> Markup:
    """Return links to where disturbed runs are measured again; empty if there are none."""
    found = measured_again_at(runs, reader)
    links = [link(name, at(as_path(f"/{page}", query))) for name, (page, query) in list(found.items())[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return "Measure again: " + joined(links) + f"{more}." if links else Markup()


def _show_disturbed(groups: Mapping[str, Sequence[RunRow]], reader: Reader, sweep_id: int | None = None) -> None:
    """Show that speed can't be compared, and the links to measure again, where that would help; on the page of a sweep
    its button does.
    """
    if unequal_work_of(groups, reader):
        said, links = UNEQUAL_AND_DISTURBED, Markup()
    elif sweep_id:
        said, links = DISTURBED + IN_PAGE, Markup()
    else:
        said, links = DISTURBED, measure_again((run for runs in groups.values() for run in runs), reader)
    st.html(paragraph(joined([said, links], " ")), width="content")
    page_capture.words([said.removesuffix(IN_PAGE)])  # a file has no such button


def disturbed_choice(
    groups: Mapping[str, Sequence[RunRow]],
    reader: Reader,
    *,
    sweep_id: int | None = None,
    key: str = "",
    of_speed: bool = True,
    is_answered: bool = False,
) -> bool:
    """Show the choice to count disturbed runs if there are any, beside it what that means: that the speed of the other
    runs can't be compared, unless the question is not `of_speed` or the page `is_answered` from disturbed runs, or how
    many are disturbed; return the choice.
    """
    done = complete(groups)
    runs = [run for own in done.values() for run in own]
    disturbed = [run for run in runs if run.disturbed]
    if not any(run.disturbed for own in groups.values() for run in own):
        return False
    with st.container(horizontal=True, vertical_alignment="center"):
        said = ""
        if whole := widgets.include_disturbed(key):
            most = in_words(max((run.disturbance or 0.0 for run in disturbed), default=0.0))
            said = (
                f"Other programs took up to {most} of the CPU time of {len(disturbed)} of "
                f"{counted(len(runs), 'run')}: their "
                "times, and differences between them, are not reliable."
            )
        elif of_speed and not is_answered and _are_too_few(done):
            around = reader.studies.surroundings([run.id for run in runs])
            if not (is_speed_unknown(runs, around) or not_comparable(runs, around)):
                _show_disturbed(done, reader, sweep_id)
        if said:
            st.markdown(as_text(said), width="content")
            page_capture.words([said])
    return whole


def show_unequal_work(groups: Mapping[str, Sequence[RunRow]], reader: Reader) -> None:
    """Show that the compared groups of runs do unequal total work, whatever metric is shown; nothing if they don't."""
    show_caution(unequal_work_of(groups, reader))


def show_not_learned(groups: Mapping[str, Sequence[RunRow]]) -> None:
    """Show which of the compared runs did not learn; nothing if all did."""
    show_caution(not_learned_of(run for own in groups.values() for run in own))


def show_caution(said: str) -> None:
    """Show what limits a comparison; nothing if it is empty."""
    if said:
        st.markdown(f":orange-badge[Caution] {as_text(said)}")
        page_capture.words([said])


def _are_too_few(groups: Mapping[str, Sequence[RunRow]]) -> bool:
    """Return whether fewer than two of several groups have undisturbed runs."""
    known = [runs for runs in groups.values() if runs]
    return len(known) > 1 and sum(not all(run.disturbed for run in runs) for runs in known) < 2


def time_difference(
    groups: Mapping[str, Sequence[RunRow]],
    reader: Reader,
    *,
    by_median: bool = False,
    whole: bool | None = None,
    goal: Callable[[Mapping[str, Sequence[RunRow]]], Goal | None] | None = None,
    of_speed: bool = True,
) -> Compares:
    """Show which group of complete runs was fastest and what explains it, unless the question of the page is not
    `of_speed`; return what compares. Disturbed runs count
    only with `whole`, None on a page without that choice; where fewer than two groups have others, none is named
    (disturbed_choice says so beside the choice).
    `goal` returns how the groups that count reached a target, for pages that say which was first.
    """
    calm = {name: own for name, runs in groups.items() if (own := [run for run in runs if not run.disturbed])}
    forced = not whole and _are_too_few(groups)
    counted = groups if whole or forced else calm
    runs = [run for own in counted.values() for run in own]
    ids = [run.id for run in runs]
    around, phases = reader.studies.surroundings(ids), reader.studies.phases_of(ids)
    if is_speed_unknown(runs, around):
        return "neither"
    spent = time_spent(counted, around, phases, by_median=by_median)
    obstacle = not_comparable(runs, around)
    explained = not reader.exercises.withholds(ids)
    said = obstacle or why_faster(spent, goal(counted) if goal else None, explained=explained)
    apart = [] if whole or forced else [str(run.id) for own in groups.values() for run in own if run.disturbed]
    if said and apart:
        more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
        said += f" Left out as disturbed: {'run' if len(apart) == 1 else 'runs'} {', '.join(apart[:MOST_NAMED])}{more}."
    if not of_speed:
        pass
    elif said and not obstacle and forced:
        if whole is None:
            _show_disturbed(groups, reader)
    elif said:
        sentences = re.split(r"(?<=\.) (?=[A-Z])", said)  # numbers have no space after their point
        verdict = next((each for each in sentences if each.startswith(VERDICTS)), sentences[0])
        reasons = " ".join(each for each in sentences if each != verdict)
        if whole and any(run.disturbed for run in runs):
            verdict = f"{verdict.removesuffix('.')}, disturbed runs included."
            said = " ".join(filter(None, [verdict, reasons]))
        st.markdown(f"**{as_text(verdict)}**  \n{as_text(reasons)}")
        page_capture.words([said])
    return "neither" if obstacle else "rate" if is_work_unequal(spent) else "time"


# ---- A mean with its interval in words, wherever a page or a report shows one --------------------------------------

EXPLAINED = {
    name: f"Brackets and error bars show the 95 % confidence interval of the {name}. With fewer than {FEWEST[name]} "
    f"values they show the minimum and maximum.{limit}"
    for name, limit in (("mean", f" {LIMIT}"), ("median", ""))
}


def with_interval(found: Interval | None, unit: str = "") -> str:
    """Return a mean with its interval, or with minimum and maximum if there is none (`EXPLAINED`); a dash without a
    mean.
    """
    if found is None:
        return "–"
    mean = number(found.mean, unit=unit)
    if found.count == 1:
        return mean
    if found.is_constant:
        return f"{mean} (all {found.count} equal)"
    low, high = number(found.low, unit=unit), number(found.high, unit=unit)
    return f"{mean} ({low} – {high})"


def ends_in_words(found: Interval | None, form: str = "+.3g") -> str:
    """Return the ends of an interval, or minimum and maximum if there is none; a dash without two values."""
    if found is None or found.count == 1:
        return "–"
    low, high = f"{found.low:{form}}", f"{found.high:{form}}"
    return f"{low} – {high}" if found.is_known else f"min {low}, max {high}"
