"""The view of the Compare page as the query of its address, and back. A link holds ids and names, never labels, and its
version.

An invalid part of a link gives a warning, and the rest is used.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from math import isfinite, nan
from typing import Any
from urllib.parse import urlencode

from app.links.addresses import is_run_id
from engine.analysis.statistics.groups import SPREADS
from engine.analysis.statistics.intervals import STATISTICS

VERSION = "3"
"""Increase it when the meaning of an address changes; a link without a version has this one."""
OLDER: Mapping[str, Mapping[str, Any]] = {"1": {"x": "step", "group": ()}, "2": {"group": ()}}
"""Defaults of earlier versions that have changed since."""
PATH = "/compare"
TABS = {
    "curves": "Curves",
    "bars": "Values",
    "scatter": "Scatter",
    "parallel": "Parallel coordinates",
    "differences": "Differences",
    "timelines": "Timelines",
    "files": "Files",
}
LOGS = ("", "x", "y", "xy")
MOST_IDS = 1_000
MOST_RUNS = 200
"""Greatest number of runs that Compare draws."""
LONGEST = 2_000
"""Greatest number of characters read from one value of a link."""
_ENTRY = re.compile(r'\s*"(?P<quoted>(?:[^"]|"")*)"\s*(?:,|$)|(?P<plain>[^,]*)(?:,|$)')
UNGROUPED = "none"
_NAMES = ("metrics", "raw", "group", "axes", "columns", "files")
"""Fields with comma-separated names."""
_IDS = ("runs", "pins")


@dataclass(frozen=True)
class CompareView:
    """One state of the page; each field is in the address under its own name, unless it has its default."""

    runs: tuple[int, ...] = ()
    filter: str = ""
    newest: int = 0
    """Only so many of the newest runs that the filter matches, and those that come; 0 for all."""
    tab: str = "curves"
    metrics: tuple[str, ...] = ()
    """Empty: the default metrics of the runs."""
    x: str = ""
    """step, passes, updates, time, bytes, or a metric; empty: the one on which the runs compare."""
    log: str = ""
    zoom: tuple[float, float] | None = None
    """The range of the x-axis of all charts; None: the whole."""
    smooth: float = 0.9
    raw: tuple[str, ...] = ()
    """Metrics whose curves are not smoothed."""
    group: tuple[str, ...] | None = None
    """Config fields; runs with equal values in all of them form one line. Empty: no groups; None: the obvious ones."""
    stat: str = "mean"
    band: str = "sd"
    number: str = ""
    """The number of bars and of scatter's y axis, such as test/accuracy.best; empty: the first available."""
    against: str = ""
    """Scatter's x axis."""
    axes: tuple[str, ...] = ()
    """The axes of parallel coordinates before the number; empty: the config fields that differ."""
    same: bool = False
    """Whether the table of differences also shows equal values."""
    disturbed: bool = False
    """Whether times of disturbed runs count."""
    pins: tuple[int, ...] = ()
    """Runs that come first in every chart, each with the group that holds it."""
    base: int | None = None
    """A run with which the others are compared, or the group that holds it; None: the one pinned in Runs; 0: none."""
    members: int = 0
    """A run whose group is shown alone, by its runs."""
    only: int = 0
    """The run that is shown alone."""
    columns: tuple[str, ...] | None = None
    """Values and settings beside the legend; None: the value by which the runs are ranked, or those chosen to show."""
    sort: str = ""
    """The column by which the legend is sorted, in descending order after a minus sign."""
    files: tuple[str, ...] = ()
    """Names of the kept files that are shown side by side; empty: the first ones."""

    def smoothing(self, name: str) -> float:
        """Return the smoothing that is asked for of a metric's curves."""
        return 0.0 if name in self.raw else self.smooth


def read_view(query: Mapping[str, str]) -> tuple[CompareView, list[str]]:
    """Return the view of an address, and a warning for each invalid part."""
    known = {field.name for field in fields(CompareView)}
    version = query.get("v", VERSION)
    warnings, values = list[str](), dict[str, Any](OLDER.get(version, {}))
    if version not in (VERSION, *OLDER):
        warnings.append(
            f"Unsupported link version '{version[:20]}': this console supports version {VERSION}. The parts that it "
            "recognizes are shown."
        )
    for name, text in query.items():
        if name == "v":
            continue
        if name not in known:
            warnings.append(f"Unknown link parameter '{name[:40]}' ignored.")
            continue
        try:
            values[name] = _READ[name](text) if name in _READ else text.strip()[:LONGEST]
        except ValueError as error:
            warnings.append(f"Link parameter {name} {error}; ignored.")
    for name in _IDS:
        values[name], wrong = values.get(name, ((), ()))
        warnings += [
            f"Link parameter {name} must be ids and ranges such as 1,2,5-9, got '{each[:40]}'; ignored."
            for each in wrong
        ]
    return CompareView(**values), warnings


def query_of(view: CompareView) -> dict[str, str]:
    """Return the query of a view's address; empty for the default view."""
    plain = CompareView()
    found = {
        field.name: getattr(view, field.name)
        for field in fields(CompareView)
        if getattr(view, field.name) != getattr(plain, field.name)
    }
    texts = {name: _text(name, value) for name, value in found.items()}
    return texts | {"v": VERSION} if texts else {}


def address(view: CompareView) -> str:
    """Return the path and query of a view."""
    return with_query(query_of(view))


def with_query(query: Mapping[str, str]) -> str:
    """Return the page's path with a query, without needless escapes."""
    return f"{PATH}?{urlencode(query, safe=',/.-:')}" if query else PATH


def read_ids(text: str) -> tuple[tuple[int, ...], list[str]]:
    """Return the unique ids of a text such as `1,2,5-9` in order, at most MOST_IDS, and the invalid parts."""
    found: dict[int, None] = {}
    wrong = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.removeprefix("#").replace("..", "-").partition("-")
        last = last if dash else first
        if not (is_run_id(first) and is_run_id(last) and int(first) <= int(last)):
            wrong.append(part)
            continue
        found |= dict.fromkeys(range(int(first), min(int(last), int(first) + MOST_IDS) + 1))
    return tuple(sorted(found)[:MOST_IDS]), wrong


def ids_text(ids: Sequence[int]) -> str:
    """Return ids as text, three or more consecutive ones as a range."""
    parts: list[list[int]] = []
    for each in sorted(set(ids)):
        if parts and parts[-1][-1] == each - 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 2 else ",".join(map(str, part)) for part in parts)


def read_names(text: str, known: Collection[str] = ()) -> list[str]:
    """Return the distinct names of a comma-separated text, in order. A name with commas is in quotes, as in CSV; a
    known one also without, unless its parts are known names too.
    """
    entries, found = [(each["quoted"], each["plain"]) for each in _ENTRY.finditer(text)], dict[str, None]()
    longest = 1 + max((name.count(",") for name in known), default=0)
    while entries:
        parts = [plain for _, plain in takewhile(lambda entry: entry[0] is None, entries[:longest])]
        count = next((many for many in range(len(parts), 1, -1) if _is_one(parts[:many], known)), 1)
        found[",".join(parts[:count]).strip() if parts else entries[0][0].replace('""', '"')] = None
        del entries[:count]
    return [name for name in found if name]


def _is_one(parts: Sequence[str], known: Collection[str]) -> bool:
    """Return whether parts between commas are one known name, and not known names themselves."""
    return ",".join(parts).strip() in known and not all(part.strip() in known for part in parts)


def names_text(names: Iterable[str]) -> str:
    """Return names as the text that `read_names` reads."""
    return ",".join('"' + name.replace('"', '""') + '"' if {*',"'} & {*name} else name for name in names)


def _text(name: str, value: Any) -> str:
    if name in _IDS:
        return ids_text(value)
    if name in _NAMES:
        return names_text(value) or UNGROUPED  # `group` and `columns` have a default that is not empty
    if name == "zoom":
        return "..".join(f"{end:.9g}" for end in value)
    if name == "base":
        return str(value or UNGROUPED)
    return (
        ("1" if value else "0") if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"must be one of {', '.join(each for each in known if each)}, got '{text[:40]}'")
        return text

    return read


def _band(text: str) -> str:
    return _one_of(SPREADS)("ci" if text == "boot" else text)  # older links use boot


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 0.98:
        raise ValueError(f"must be a number from 0 to 0.98, got '{text[:40]}'")
    return float(f"{found:g}")  # the precision of an address, so that a view and its address agree


def _stretch(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    try:
        found = float(low), float(high)
    except ValueError:
        found = nan, nan
    if not (found[0] < found[1] and all(map(isfinite, found))):
        raise ValueError(f"must be a range such as 10..80, got '{text[:40]}'")
    return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(read_names(text[: 10 * LONGEST])[:30])


def _count(text: str) -> int:
    if not is_run_id(text):
        raise ValueError(f"must be a whole number, got '{text[:40]}'")
    return int(text)


_READ: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(_IDS, read_ids),
    **dict.fromkeys(("newest", "members", "only"), _count),
    "base": lambda text: 0 if text == UNGROUPED else _count(text),
    "tab": _one_of(tuple(TABS)),
    "log": _one_of(LOGS),
    "zoom": _stretch,
    "smooth": _share,
    "stat": _one_of(STATISTICS),
    "band": _band,
    **dict.fromkeys(("same", "disturbed"), lambda text: _one_of(("1", "0"))(text) == "1"),
    **dict.fromkeys(_NAMES, _listed),
    "group": lambda text: () if text.strip() == UNGROUPED else _listed(text),
    "columns": lambda text: () if text.strip() == UNGROUPED else _listed(text) or None,
}
