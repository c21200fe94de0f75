"""Results: the lab's shared table over all people and all times; a row opens its run."""

from typing import get_args

import streamlit as st

from app import board, dialogs, parts
from app.asking import reading
from app.exporting import download
from app.importing import import_button
from engine.registry import EXPERIMENTS
from engine.store.records import ENDED, Status

MOST = 2_000
ROW_PX = 33
USUAL = ["dataset", "trainers", "epochs", "batch_size", "learning_rate", "seed"]

st.title("Results", anchor=False)
filters = st.container(horizontal=True, vertical_alignment="bottom")
with reading() as reader:
    owners = reader.owners()
    with filters:
        search = st.text_input("Search", key="search", placeholder="name, owner, experiment, tag", bind="query-params", width=260)
        of = st.multiselect("Experiment", EXPERIMENTS, key="of", bind="query-params", placeholder="all", width=200)
        by = st.multiselect("Owner", owners, key="by", placeholder="everyone", width=200)
        status = st.multiselect("Status", get_args(Status), key="status", bind="query-params", placeholder="any", width=220)
    found = reader.runs(statuses=status or None, search=search, limit=MOST)
    matching = reader.count(statuses=status or None, search=search)
runs = [run for run in found if (not of or run.experiment in of) and (not by or run.owner in by)]

if not runs:
    nothing = "No run matches these filters." if search or of or by or status else "No run has been launched yet; the results of every run will stand here."
    parts.empty(nothing, "Launch one", "launch")
    import_button()
    dialogs.open_asked()  # the frame's own call comes after the end below
    st.stop()
with filters, st.popover("Columns"):
    known = board.setting_names(runs)
    settings = st.multiselect("Settings shown", known, default=[name for name in USUAL if name in known], key="settings")
shown = board.table(runs, settings)
chosen = st.dataframe(
    shown,
    column_config=board.columns(runs),
    hide_index=True,
    height=min(21, len(runs) + 1) * ROW_PX + 2,
    row_height=ROW_PX,
    placeholder="",
    key="results",
    on_select="rerun",
    selection_mode="single-row",
    alt="One row a run: what it is, its owner, status, times, and the last and best value of each metric",
)
counted = f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}{f', the newest of {matching:,}' if matching > len(found) else ''}"
st.caption(f"{counted}. Tick the box before a row to open its run; click a column's head to sort.")
with st.container(horizontal=True):
    download("results", key="results", tables={"The table": shown}, runs=[run.id for run in runs if run.status in ENDED])
    import_button()
if rows := chosen.selection.rows:
    parts.go_to_run(runs[rows[0]].id)
