"""What the tabs of the Compare page share: the runs with their names and looks, a toggle for a logarithm, who is left
out, a chart's table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from app.charts.line_styles import Look, look, looks
from app.compare.groups import BANDS, STATISTICS, ComparedGroup, groups_of
from app.compare.selection import names
from app.compare.session_state import key_of, one_of, several_of
from app.core.base_path import at
from app.links.compare import TABS, CompareView
from app.report import page_capture
from app.ui import components
from app.ui.html import as_text
from engine.analysis.run_values import field_names
from engine.store.records import RunRow

MOST_NAMED = 6
"""Runs or fields that a sentence or a chart names; of more the first ones."""


@dataclass(frozen=True)
class Compared:
    """The runs with what they are called and how they look, and their groups (none: each run by itself)."""

    runs: tuple[RunRow, ...]
    names: Mapping[int, str]
    looks: Mapping[int, Look]
    groups: tuple[ComparedGroup, ...]

    @property
    def group_looks(self) -> list[Look]:
        return [look(place) for place in range(len(self.groups))]


def compared(runs: tuple[RunRow, ...], view: CompareView) -> Compared:
    """Return the runs as this view tells them apart."""
    groups = tuple(groups_of(runs, view.group)) if view.group else ()
    return Compared(runs, names(runs), looks(run.id for run in runs), groups)


def log_toggle(view: CompareView, letter: str, words: str) -> CompareView:
    on = st.toggle(words, key=key_of(f"log.{letter}", letter in view.log))
    letters = [each for each in "xy" if (on if each == letter else each in view.log)]
    return replace(view, log="".join(letters))


def tell_lacking(found: Compared, ids: Sequence[int], what: str) -> None:
    """Say which runs a chart leaves out."""
    if ids:
        some = ", ".join(map(str, ids[:MOST_NAMED])) + (
            f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        )
        said = f"Without {what}: {'run' if len(ids) == 1 else 'runs'} {some}."
        st.caption(as_text(said))
        page_capture.words([said])


def table_of(name: str, frame: Callable[[], pd.DataFrame], title: str = "") -> None:
    """Offer a chart's numbers as a table, made when it is opened; it can be downloaded as CSV. One with a title of its
    own holds what its chart does.
    """
    page_capture.table(title or "Values of the runs", frame, charted=bool(title))
    with st.expander("Table", key=f"compare.table.{name}", on_change="rerun") as fold:
        if fold.open:
            st.dataframe(frame(), hide_index=True, height=320, alt=f"The numbers of the chart {name}")


def grouping(view: CompareView, runs: Sequence[RunRow]) -> CompareView:
    """Show how runs are grouped and, where they are, by which statistic and band."""
    fields = field_names(runs)
    apart = [name for name in field_names(runs, that_differ=True) if name != "seed"]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        known = [*apart, *(name for name in fields if name not in apart)]
        view = several_of(view, "group", "Group by", known, str, placeholder="each run by itself", width=340)
        if view.group:
            view = one_of(view, "stat", "Statistic", list(STATISTICS), lambda name: STATISTICS[name], width=200)
            view = one_of(view, "band", "Band", list(BANDS), lambda name: BANDS[name], width=220)
    return view


def said_of(view: CompareView) -> list[tuple[str, str]]:
    """Return in words what a view asks for, beside its runs."""
    grouped = bool(view.group)
    return [
        ("Shown as", TABS[view.tab]),
        ("Filter", view.filter),
        ("Grouped by", ", ".join(view.group)),
        ("Statistic", STATISTICS[view.stat] if grouped else ""),
        ("Band", BANDS[view.band] if grouped else ""),
        ("Smoothing", f"{view.smooth:g}" if view.tab == "curves" and not grouped else ""),
    ]


def legend(found: Compared) -> None:
    """Show once for all charts how each run or group looks."""
    if found.groups:
        pairs = [
            (f"{group.name} (n={len(group.runs)})", of_group, "")
            for group, of_group in zip(found.groups, found.group_looks, strict=True)
        ]
    else:
        pairs = [(found.names[run.id], found.looks[run.id], at(f"/run?run={run.id}")) for run in found.runs]
    components.legend(
        "compare-legend", [{"label": label, **vars(of_one), "href": href} for label, of_one, href in pairs]
    )
