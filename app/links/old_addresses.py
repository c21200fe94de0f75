"""Addresses of earlier versions: links in saved views, notices, reports and bookmarks keep working.

The pages Runs and Results were two: `show` was a group of statuses in one and the columns in the other, the search was
`find` in one and `search` in the other.
"""

from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode

RUNS, RESULTS = "/runs", "/results"
STATUS_GROUPS = {name: name for name in ("all", "active", "finished", "failed or lost", "cancelled")} | {
    "on or queued": "active"
}
"""Groups of statuses by every name that one has had."""


def current(path: str, query: str) -> str | None:
    """Return the present address of an old one, None for a present address; `path` excludes the base path."""
    pairs = parse_qsl(query, keep_blank_values=True)
    if path == RUNS:
        found = [pair for name, value in pairs for pair in _of_runs(name, value)]
    elif path == RESULTS:
        found = [("columns" if name == "show" else name, value) for name, value in pairs]
        if found and not any(name in ("sort", "group") for name, _ in pairs):
            found.append(("fold", "false"))  # it had one row per run
    else:
        return None
    if path == RUNS and found == pairs:
        return None
    return f"{RUNS}?{urlencode(found)}" if found else RUNS


def _of_runs(name: str, value: str) -> Sequence[tuple[str, str]]:
    if name == "find":
        return [("search", value)]
    if name == "show":
        return [("show", STATUS_GROUPS[value])] if value in STATUS_GROUPS else [("columns", value)]
    return [(name, value)]
