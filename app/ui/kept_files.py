"""Kept files on pages: small pictures, the first rows of tables and the beginning of texts, each with its download.

A picture is shown by its address alone, which serves no other kind as one; SVG and HTML are shown as their text.
"""

from collections.abc import Callable, Iterable
from urllib.parse import quote

from markupsafe import Markup

from app.core.assets import at
from app.ui.html import download_link, file_card, nowrap, picture, preformatted, quiet, table, titled
from engine.access.quotas import size
from engine.home import Home
from engine.store.runs.files import KeptFile, content_path
from engine.system.file_views import MOST_ROWS, FileView, table_in, text_in, view_of

HASH_DIGITS = 12
"""Shown of a hash; the hover has all."""


def file_address(file: KeptFile) -> str:
    """Return the address of a file's bytes."""
    return at(f"/api/v1/runs/{file.run_id}/files/{quote(file.name, safe='')}")


def seen(home: Home, file: KeptFile) -> FileView:
    """Return what a file is."""
    return view_of(content_path(home, file.sha256), file.name)


def is_shown(view: FileView) -> bool:
    """Return whether a page shows more of a file than its name."""
    return view.kind in ("table", "text") or (view.kind == "picture" and not view.why_not)


def file_link(file: KeptFile) -> Markup:
    """Return the link that downloads a file."""
    return download_link(file.name, file_address(file))


def short_hash(digest: str) -> Markup:
    """Return the first digits of a hash, with all on hover."""
    return nowrap(titled(digest[:HASH_DIGITS], f"SHA-256 {digest}"))


def cards(home: Home, files: Iterable[tuple[KeptFile, str]]) -> Markup:
    """Return some files side by side, each with a heading."""
    return Markup("").join(card(home, file, heading) for file, heading in files)


def card(home: Home, file: KeptFile, heading: str) -> Markup:
    """Return what a page shows of a file, below a heading and its size."""
    view = seen(home, file)
    head = [heading, quiet(size(file.bytes))]
    if view.kind == "picture":
        head[1] = quiet(f"{view.width:,} × {view.height:,} pixels, {size(file.bytes)}")
        shown = (
            quiet(f"Not shown: {view.why_not}.")
            if view.why_not
            else picture(file_address(file), f"{file.name} of run {file.run_id}", view.width, view.height)
        )
        return file_card(head, shown)
    made: Callable[[], Markup] = {"table": lambda: _table(home, file), "text": lambda: _text(home, file)}.get(
        view.kind, lambda: quiet("No picture, table or text: download it.")
    )
    try:
        return file_card(head, made())
    except OSError:
        return file_card(head, quiet("Its content is missing. Run python -m engine fsck."))


def _table(home: Home, file: KeptFile) -> Markup:
    found = table_in(content_path(home, file.sha256), file.name)
    if found is None:
        return _text(home, file)
    shown = table(found.columns, found.rows, caption=f"{file.name} of run {file.run_id}")
    rest = "" if found.is_whole else quiet(f"The first {min(MOST_ROWS, len(found.rows))} rows; the download has all.")
    return shown + rest


def _text(home: Home, file: KeptFile) -> Markup:
    text, is_whole = text_in(content_path(home, file.sha256))
    return preformatted(text) + ("" if is_whole else quiet("The beginning; the download has all."))
