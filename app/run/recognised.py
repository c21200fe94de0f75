"""Recognised numbers of a script's run: where each comes from, and for all runs of the script whether it is shown, its
unit and which of its values is better.
"""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import command as store_command
from engine.metrics import DIRECTIONS, MetricSetting
from engine.store import Reader, Store
from engine.store.records import Run, RunRow
from engine.store.scripts import UNIT_LENGTH

MOST = 20
"""Rows that are shown; a search finds the others."""
WIDTHS = (3, 1.4, 3.4, 1, 1.1, 1.3, 2.2)
HEADINGS = ("Name", "Source", "Example", "Count", "Shown", "Unit", "Better")
SOURCES = {"parallab_log": "logged"}
"""Sources that the page names otherwise."""
BETTER: Mapping[str, str] = {**DIRECTIONS, "": "neither is better"}


def revision(run: Run, reader: Reader) -> int:
    """Return a number that changes with the settings of the script's metrics; 0 without any."""
    found = reader.recipes.metric_settings(run.script_key)
    return crc32(repr(sorted(found.items(), key=lambda each: each[0])).encode()) if found else 0


def recognised(run: Run, reader: Reader) -> None:
    """Show the recognised numbers of a command's run, folded, with the settings of each; nothing without any."""
    noted = run.environment.get("recognised")
    if run.command is None or not isinstance(noted, Mapping) or not noted:
        return
    with st.expander(f"Recognised numbers ({len(noted)})", key="recognised", on_change="rerun", type="compact") as fold:
        if not fold.open:
            return
        st.caption(as_text(f"Settings are those of all runs of {run.script_key}. Hidden metrics keep their values."))
        names = list(noted)
        if len(names) > MOST:
            text = st.text_input("Search", key="recognised-search", width=240).strip().lower()
            names = [name for name in names if text in name.lower()]
            if len(names) > MOST:
                st.caption(f"The first {MOST} of {len(names):,}.")
        entry, settings = reader.runs.entry(run.id), reader.recipes.metric_settings(run.script_key)
        recorded = {each.metric for each in reader.details.summaries(run.id)}
        for column, heading in zip(st.columns(WIDTHS), HEADINGS, strict=True):
            column.caption(heading)
        for name in names[:MOST]:
            known = noted[name] if isinstance(noted[name], Mapping) else {}
            _row(run, name, known, setting_of(name, settings, entry) if name in recorded else None, entry)


def setting_of(name: str, settings: Mapping[str, MetricSetting], entry: RunRow) -> MetricSetting:
    """Return how a metric is shown; the one that ranks the runs has the direction of the ranking."""
    found = settings.get(name, MetricSetting.usual(name))
    is_ranking = name == entry.ranked_by and entry.better in ("max", "min")
    return MetricSetting(found.is_shown, found.unit, "min" if entry.better == "min" else "max") if is_ranking else found


def _row(run: Run, name: str, known: Mapping[str, Any], before: MetricSetting | None, entry: RunRow) -> None:
    """Show one number; `before` is None for one that has no curve of its own, such as a copy."""
    columns = st.columns(WIDTHS, vertical_alignment="center")
    source, same = str(known.get("source", "")), str(known.get("same_as", ""))
    columns[0].text(name)
    columns[1].text(SOURCES.get(source, source))
    columns[2].caption(as_text(f"Same values as {same}" if same else str(known.get("example", ""))))
    columns[3].text(f"{known['count']:,}" if isinstance(known.get("count"), int) else "–")
    if before is None:
        return
    allowed = current_user.control("set metric", [run.owner], what=f"Run {run.id}")
    key = f"{run.id}-{name}-{before}"  # with what is stored, so that a change by others is shown
    shown = columns[4].toggle(
        f"Show {as_text(name)}", before.is_shown, key=f"shown-{key}", label_visibility="collapsed", **allowed
    )
    unit = columns[5].text_input(
        *(f"Unit of {as_text(name)}", before.unit),
        max_chars=UNIT_LENGTH,
        key=f"unit-{key}",
        placeholder=str(known.get("unit", "")) or None,
        label_visibility="collapsed",
        **allowed,
    )
    offered = [each for each in BETTER if each or name != entry.ranked_by]
    better = columns[6].selectbox(
        *(f"Better values of {as_text(name)}", offered, offered.index(before.better)),
        format_func=BETTER.__getitem__,
        key=f"better-{key}",
        label_visibility="collapsed",
        **allowed,
    )
    after = MetricSetting(shown, unit.strip(), "max" if better == "max" else "min" if better == "min" else "")
    if after != before and store_command(lambda store: _set(store, run.id, name, after)):
        st.rerun()


def _set(store: Store, run_id: int, name: str, to: MetricSetting) -> bool:
    store.recipes.set_metric(
        run_id, name, is_shown=to.is_shown, unit=to.unit, better=to.better, by=current_user.whoever()
    )
    return True
