"""Addresses of pages: where those of earlier versions lead, run ids as text, and what pages write and keep there."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec
from urllib.parse import parse_qsl, unquote_plus, urlencode

import streamlit as st

from app.core.streamlit_internals import follows_history, follows_widget
from engine.errors import ConfigError
from engine.filter.syntax import QUOTED

# ---- Addresses of earlier versions: links in saved views, notices, reports and bookmarks keep working --------------
# The pages Runs and Results were two: `show` was a group of statuses in one and the columns in the other, the
# search was `find` in one and `search` in the other.

HOME, RUNS, RESULTS = "/home", "/runs", "/results"
VIEWED = ("/scaling", "/sweep")
VIEWS = {"Where the time went": "Time breakdown"}
"""Views of these pages by an earlier name."""
STATUS_GROUPS = {name: (name,) for name in ("active", "finished", "failed or lost", "cancelled")} | {
    "on or queued": ("active",),
    "all": (),
}
"""Groups of statuses by every name that one has had."""
GROUP_OF = {
    **dict.fromkeys(("queued", "starting", "running", "stopping"), "active"),
    **dict.fromkeys(("failed", "lost"), "failed or lost"),
    "finished": "finished",
    "cancelled": "cancelled",
}
"""The group of each status: the page had a filter of single statuses."""
FILTERED = (RUNS, "/compare", "/run")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
HANGS = "/docs?page=timeline#why-runs-hang"
"""Where the museum's ways to hang are now."""


def current(path: str, query: str) -> str | None:
    """Return the present address of an old one, None for a present address; `path` excludes the base path. One that was
    encoded twice, as by chat programs, is decoded.
    """
    pairs = parse_qsl(query, keep_blank_values=True)
    if path in FILTERED and any(name in ("filter", "latest") and _is_encoded(value) for name, value in pairs):
        decoded = urlencode([(name, unquote_plus(value)) for name, value in pairs])
        return current(path, decoded) or f"{path}?{decoded}"
    if path == HOME:  # by the name in the navigation; Streamlit says that this page does not exist
        return f"/?{query}" if query else "/"
    if path == "/museum" and ("system", "Why runs hang") in pairs:
        return HANGS
    if path == RUNS:
        found = [pair for name, value in pairs for pair in _of_runs(name, value)]
    elif path == RESULTS:
        found = [
            pair
            for name, value in pairs
            for pair in ([("columns", value)] if name == "show" else _of_runs(name, value))
        ]
        if found and not any(name in ("sort", "group") for name, _ in pairs):
            found.append(("fold", "false"))  # it had one row per run
    elif path in VIEWED:
        found = [(name, VIEWS.get(value, value) if name == "view" else value) for name, value in pairs]
        return f"{path}?{urlencode(found)}" if found != pairs else None
    else:
        return None
    found = list(dict.fromkeys(found))
    if path == RUNS and found == pairs:
        return None
    return f"{RUNS}?{urlencode(found)}" if found else RUNS


def _is_encoded(text: str) -> bool:
    """Return whether a filter is still encoded: it has an escape where no filter has a percent sign."""
    return _ENCODED.search(QUOTED.sub("", text)) is not None


def _of_runs(name: str, value: str) -> Sequence[tuple[str, str]]:
    if name == "find":
        return [("search", value)]
    if name == "show":
        return [("show", group) for group in STATUS_GROUPS[value]] if value in STATUS_GROUPS else [("columns", value)]
    if name == "status":
        return [("show", GROUP_OF[value])] if value in GROUP_OF else []
    if name == "page":  # a name of Documentation too
        return [("table-page", value)]
    return [(name, value)]


# ---- Run ids as text: `12, 15-18` ----------------------------------------------------------------------------------
# Pure.

_PIECE = re.compile(r"(\d{1,17})(?:\s*(?:-|\.\.)\s*(\d{1,17}))?")


def is_run_id(text: str) -> bool:
    """Return whether a text is a run id."""
    return text.isascii() and text.isdecimal() and len(text) < 16


def read_run_ids(text: str, most: int) -> list[int]:
    """Return the unique ids in a text, in their order. Raises ConfigError for an invalid part, and for more than `most`
    ids.
    """
    found: dict[int, None] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise ConfigError.of(
                "runs", f"Runs must be comma-separated ids or ranges such as 15-18, got '{piece[:40]}'."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ConfigError.of("runs", f"A range of runs must ascend, such as {last}-{first}, got '{piece}'.")
        if last - first >= most or len(found) + last - first >= most:
            raise ConfigError.of(
                "runs", f"At most {most} runs can be selected, got '{text.strip()[:40]}'. Select fewer."
            )
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


# ---- What is written into the address ------------------------------------------------------------------------------
# The browser asks for each run of a page with the address that it has. A change sooner after another than the
# connection answers comes with the address before the first one, and is no new link.

_WRITTEN, _PAGE, _OPENED, _OPENING = "address.written", "address.page", "address.opened", "address.opening"
MOST_LATE = 20
"""Values of a name that a browser may be behind."""
P = ParamSpec("P")


@dataclass(frozen=True)
class _Written:
    """What the page wrote for a name, and its values there before."""

    values: list[str]
    before: list[list[str]]


def begin(page: str) -> None:
    """Begin a run of the whole page. A link and Back overrule what was written, unless a widget is changed before the
    browser has the answer to them.
    """
    written: dict[str, _Written] = st.session_state.get(_WRITTEN, {})
    is_other = st.session_state.get(_PAGE) != page
    st.session_state[_OPENED] = is_other and not follows_widget() and not follows_history()
    if is_other:
        written = {}
    elif not follows_widget():
        written = {name: each for name, each in written.items() if st.query_params.get_all(name) == each.values}
    st.session_state[_PAGE], st.session_state[_WRITTEN] = page, written
    _settle()
    last = opening()
    asked, last.asked = last.asked, None
    if asked and (page, st.query_params.to_dict()) != (asked[0].stem, asked[1]):
        go(*asked)


def is_opened() -> bool:
    """Return whether this run opens the page by a link on another one, not by Back or Forward."""
    return bool(st.session_state.get(_OPENED))


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """Make a part of a page that reruns alone: as `st.fragment`, which knows only the browser's address."""

    @wraps(draw)
    def part(*args: P.args, **kwargs: P.kwargs) -> None:
        _settle()
        draw(*args, **kwargs)

    return st.fragment(part)


def write(values: Mapping[str, Sequence[str]]) -> None:
    """Write the values of names into the address; a name without values is left out of it."""
    _settle()
    changed = {name: list(each) for name, each in values.items() if list(each) != st.query_params.get_all(name)}
    _note(changed)
    _put(changed)


def replace(query: Mapping[str, str | Sequence[str]]) -> None:
    """Write a whole query into the address."""
    _settle()
    values = {name: [each] if isinstance(each, str) else list(each) for name, each in query.items()}
    _note({name: values.get(name, []) for name in {*st.query_params, *values}})
    st.query_params.from_dict(values)


def go(page: Path, query: Mapping[str, str | Sequence[str]] | None = None) -> NoReturn:
    """Open a page, which may be this one; the rest of its script does not run."""
    st.session_state.pop(_WRITTEN, None)
    st.switch_page(page, query_params=query)


@dataclass
class Opening:
    """The page that is to open after something was done, such as a launch."""

    asked: tuple[Path, dict[str, str]] | None = None

    def go(self, page: Path, query: dict[str, str]) -> NoReturn:
        """Open a page. Where the browser has asked for another run of the present one meanwhile, which ends this one
        before, `begin` opens it in that run.
        """
        self.asked = page, query
        go(page, query)


def opening() -> Opening:
    """Return this session's. Call it before what is done: where the browser has asked for another run of the page, any
    use of the session ends this one.
    """
    found: Opening = st.session_state.setdefault(_OPENING, Opening())
    return found


def _settle() -> None:
    """Write again what the browser did not have yet when it asked for this run."""
    written: dict[str, _Written] = st.session_state.get(_WRITTEN, {})
    late = {name: each.values for name, each in written.items() if st.query_params.get_all(name) in each.before}
    if late and follows_widget():
        _put(late)


def _note(changed: Mapping[str, list[str]]) -> None:
    written: dict[str, _Written] = st.session_state.setdefault(_WRITTEN, {})
    for name, values in changed.items():
        before = [*(written[name].before if name in written else []), st.query_params.get_all(name)]
        written[name] = _Written(values, [each for each in before if each != values][-MOST_LATE:])


def _put(values: Mapping[str, list[str]]) -> None:
    if filled := {name: each for name, each in values.items() if each}:
        st.query_params.update(filled)
    for name in values.keys() - filled.keys():
        st.query_params.pop(name, None)


# ---- Widgets whose value the address keeps, without Streamlit's own binding (`bind="query-params"`) ----------------
# Streamlit (1.67) drops from the address of the next page what a widget of the page that was left has bound: a link to
# `compare?group=trainers` would arrive without its group from a page that binds `group`. So a name that several pages
# have is kept by these functions. The binding also keeps labels of `format_func` instead of values.

Usual = Sequence[str] | str | bool | float | None


def take(key: str, usual: Usual, known: Collection[Any] | None = None, *, is_hidden: bool = False) -> Any:
    """Give the widget its value before it is drawn, and return it: the address's on a visit and after a link or Back,
    else its own again. `usual` is its default, in the type of its value (None: a single text); it also replaces a value
    that is not among the `known` ones. `is_hidden`: see `hidden`.
    """
    there, widget = st.query_params.get_all(key), _widget(key)
    if not there:  # the usual value is left out, and may have changed
        value = _plain(usual)
    elif widget in st.session_state and st.session_state.get(_seen(key)) == there:
        value = st.session_state[widget]
    else:
        value = _read([each for each in there if each], usual)
    value = value if known is None or value in known else usual
    if is_hidden and st.session_state.get(widget, value) != value:
        st.session_state[_times(key)] = st.session_state.get(_times(key), 0) + 1
    if not (is_hidden and _widget(key) in st.session_state):
        st.session_state[_widget(key)] = value
    keep(key, usual)
    return value


def kept(key: str, usual: Usual, known: Collection[Any] | None = None) -> dict[str, Any]:
    """Return the options of a widget that `take` and `keep` serve."""
    take(key, usual, known)
    return {"key": key, "on_change": keep, "args": (key, usual)}


def hidden(key: str, usual: Usual, offered: Collection[str] | None = None) -> dict[str, Any]:
    """Return the same for a widget in a popover. While that is closed, the browser sends the value that it last drew,
    though a link or a button has set another one since. So after each of these it is another widget.

    It is given its value once, and by `persist_state` until the browser has drawn it. Given again, also the same value,
    it undoes what was changed before the answer came, and a multiselect forgets what is typed to find an option.
    `offered`: the options of a widget that takes others too, which have their labels only when they are given.
    """
    take(key, usual, is_hidden=True)
    return {
        "key": _widget(key),
        "on_change": _keep_typed,
        "args": (key, usual, offered, _widget(key)),
        "persist_state": "session",
    }


def keep(key: str, usual: Usual) -> None:
    """Write the widget's value into the address, after it has changed; the usual one is left out."""
    value: Any = st.session_state[_widget(key)]
    if value == _plain(usual):
        write({key: []})
    elif isinstance(value, list) and value:
        write({key: value})
    else:
        write({key: [str(value).lower() if isinstance(value, bool | float) else value or ""]})
    st.session_state[_seen(key)] = st.query_params.get_all(key)


def _keep_typed(key: str, usual: Usual, offered: Collection[str] | None, widget: str) -> None:
    """Keep a changed value, and give it to its widget where an option was typed that was not offered."""
    if widget != _widget(key):
        return  # a browser that has not drawn the present widget yet
    value = st.session_state[_widget(key)]
    chosen = {*value} if isinstance(value, list) else {value}
    if offered is not None and not chosen <= {None, *offered, *st.session_state[_seen(key)]}:
        st.session_state[_widget(key)] = value
    keep(key, usual)


def _widget(key: str) -> str:
    times = st.session_state.get(_times(key), 0)
    return f"{key}.{times}" if times else key


def _plain(usual: Usual) -> Any:
    return list(usual) if isinstance(usual, Sequence) and not isinstance(usual, str) else usual


def _read(values: Sequence[str], usual: Usual) -> Any:
    match usual:
        case str() | None:
            return next(iter(values), usual)
        case bool():
            return values[:1] == ["true"]
        case float():
            with suppress(ValueError):
                return float(next(iter(values), usual))
            return usual
    return list(values)


def _seen(key: str) -> str:
    return f"address.{key}"


def _times(key: str) -> str:
    return f"address.times.{key}"
