"""The Compare tab of kept files: pictures, tables and texts of one name, side by side."""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from app.compare.lines import Compared
from app.compare.session_state import several_of
from app.compare.tab_widgets import show_note, show_omitted
from app.links.compare import CompareView
from app.report import page_capture
from app.ui.html import as_text, block, run_link
from app.ui.kept_files import cards, is_shown, seen
from engine.errors import counted
from engine.store import Reader
from engine.store.runs.files import KeptFile

MOST_NAMES, MOST_SHOWN = 2, 24
"""Files that are chosen at first, and runs that show one."""


def files(reader: Reader, found: Compared, view: CompareView) -> CompareView:
    """Show files of the same name of the runs side by side, with the choice of names above."""
    kept = [each for each in reader.files.of(found.ids) if is_shown(seen(reader.db.home, each))]
    if not kept:
        st.info("None of these runs keeps a picture (PNG, JPEG), a table (CSV, TSV, JSON) or a text.")
        return view
    kinds = {each.name: seen(reader.db.home, each).kind for each in kept}
    counts = Counter(each.name for each in kept)
    order = ("picture", "table", "text")
    known = sorted(counts, key=lambda name: (-counts[name], order.index(kinds[name]), name))
    view = several_of(view, "files", "Files", known, str, placeholder=", ".join(known[:MOST_NAMES]), width=480)
    for name in view.files or known[:MOST_NAMES]:
        _side_by_side(reader, found, name, [each for each in kept if each.name == name])
    return view


def _side_by_side(reader: Reader, found: Compared, name: str, kept: Sequence[KeptFile]) -> None:
    own = {each.run_id: each for each in kept}
    shown = [run for run in found.runs if run.id in own]
    st.header(as_text(name), anchor=False)
    headed = [(own[run.id], run_link(found.names[run.id], run.id)) for run in shown[:MOST_SHOWN]]
    st.html(block("pl-files", cards(reader.db.home, headed)))
    if len(shown) > MOST_SHOWN:
        show_note(f"The first {MOST_SHOWN} of {counted(len(shown), 'run')} with this file.")
    if len({each.sha256 for each in kept}) == 1 < len(kept):
        show_note("The content is the same in all of them.")
    page_capture.words([f"{name}: kept by runs {', '.join(str(run.id) for run in shown)}."])
    show_omitted(found, [run.id for run in found.runs if run.id not in own], name)
