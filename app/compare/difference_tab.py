"""The Differences tab of the Compare page: tables of differing config and environment fields."""

from dataclasses import replace

import streamlit as st

from app.compare.session_state import key_of
from app.compare.tab_widgets import Compared
from app.compare.tables import differences_frame, differences_table
from app.links.compare import CompareView
from app.report import page_capture
from engine.analysis import differences as apart
from engine.analysis.differences import MISSING
from engine.analysis.run_values import setting_title
from engine.config_values import field_title
from engine.store import Reader


def differences(reader: Reader, found: Compared, view: CompareView) -> CompareView:
    """Show the config and environment fields in which the runs differ, first those that all of them have."""
    same = st.toggle("Show equal fields", key=key_of("same", view.same))
    environments = reader.multi_run.environments([run.id for run in found.runs])
    without = [
        {name: held for name, held in environments.get(run.id, {}).items() if name != "boot_id"} for run in found.runs
    ]
    for title, titled, rows in (
        ("Config", setting_title, apart.rows([{"seeding": run.seeding, **run.config} for run in found.runs])),
        ("Environment", field_title, apart.rows(without)),
    ):
        st.header(title, anchor=False)
        shown = sorted((row for row in rows if row.differs or same), key=lambda row: MISSING in row.values)
        equal = sum(not row.differs for row in rows)
        if shown:
            st.html(differences_table(shown, found.runs, f"{title} of the runs", titled))
            page_capture.table(
                f"{title} of the runs",
                differences_frame(shown, found.runs, titled),
                heading=lambda name: f"{name[:1].upper()}{name[1:]}",
            )
        said = (
            f"{equal} {'field is' if equal == 1 else 'fields are'} equal in all {len(found.runs)} runs"
            if rows
            else "Nothing recorded"
        )
        signs = " A dash (–): the run has no such setting; none: it is empty." if shown else ""
        st.caption(f"{said}{'' if same or not equal else ', and hidden'}.{signs}")
        page_capture.words([f"{title}: {said}."])
    return replace(view, same=same)
