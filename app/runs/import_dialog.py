"""The dialog that imports runs from a file. An invalid file is reported and nothing is imported from it."""

import re
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO

import streamlit as st

from app.links import addresses
from app.ui import current_user, dialogs
from app.ui.html import as_text, joined, run_link, sweep_link
from app.ui.widgets import PAGES
from engine.errors import EngineError
from engine.home import Home
from engine.transfer.bundles.bundle import MOST_NAMED, ImportResult
from engine.transfer.import_process import import_in_child

MOST_MB = 200
_ARRIVED = "import.arrived"


def import_button() -> None:
    """Show the button that opens the dialog."""
    if st.button(
        "Import",
        key="import",
        **current_user.control("import", help="Import runs from another lab, TensorBoard or MLflow."),
    ):
        _open()


def _open() -> None:
    """Open the dialog; the person to whom the runs will belong is asked for the name first."""
    current_user.require_name(_open)
    st.session_state.pop(_ARRIVED, None)
    dialogs.open_soon(ask_import)


@st.dialog("Import runs")
def ask_import() -> None:
    """Ask for a file and import its runs."""
    st.write(
        "One file: a bundle from another lab, a TensorBoard event file, MLflow's database `mlflow.db`, a zip of "
        "TensorBoard event files, or a zip of MLflow's folder `mlruns`. All runs are imported or none; each "
        "records its source. A folder on the server is imported there: `python -m engine import FOLDER`."
    )
    st.caption(as_text(_whose()))
    file = st.file_uploader(
        "File", key="import-file", max_upload_size=MOST_MB, help="For larger files: python -m engine import FILE"
    )
    if st.button("Import file", type="primary", disabled=file is None) and file is not None:
        st.session_state[_ARRIVED] = _import(file.name, file)
    if (arrived := st.session_state.get(_ARRIVED)) is not None:
        _show_result(arrived)


def _whose() -> str:
    who = current_user.whoever()
    if current_user.has_account():
        return f"The runs become yours ({who}); each records its owner in the file."
    return f"Runs of a bundle keep their owners; others become yours ({who})."


def _import(name: str, file: IO[bytes]) -> ImportResult | None:
    """Import an uploaded file; on failure, show the error and return None."""
    called = re.sub(r"[^\w. -]", "_", PurePosixPath(name.replace("\\", "/")).name)[:100].lstrip(".") or "file"
    with tempfile.TemporaryDirectory() as folder, st.spinner("Importing"):
        path = Path(folder) / called
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            return import_in_child(Home.find(), path, by=current_user.whoever())
        except EngineError as error:
            st.error(as_text(str(error)))
            return None


def _show_result(arrived: ImportResult) -> None:
    (st.success if arrived.ids else st.info)(as_text(arrived.in_words(with_ids=False)))  # the links below have them
    for note in arrived.notes[:20]:
        st.caption(as_text(note))
    of_sweeps = [sweep_link(f"sweep {sweep_id}", sweep_id) for sweep_id in arrived.sweeps[:20]]
    st.html(joined([*of_sweeps, *(run_link(f"run {run_id}", run_id) for run_id in arrived.found[:MOST_NAMED])]))
    if st.button("Show results"):
        st.session_state.pop(_ARRIVED, None)
        addresses.go(PAGES["runs"], {"filter": arrived.filter})
