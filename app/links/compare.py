"""What the Compare page shows, as the query of its address and back. A link holds ids and names, never labels, and says
its version.

Whatever stands in a link may be nonsense: it gives a sentence, and the rest is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from app.links.run_ids import is_run_id
from engine.analysis.statistics.bands import SPREADS
from engine.analysis.statistics.confidence import STATISTICS

VERSION = "1"
"""Raise it when an address means something else than it did; a link without one is of this version."""
PATH = "/compare"
TABS = {
    "curves": "Curves",
    "bars": "Bars",
    "scatter": "Scatter",
    "parallel": "Parallel coordinates",
    "differences": "Differences",
}
LOGS = ("", "x", "y", "xy")
MOST_IDS = 1_000
LONGEST = 300
"""Characters of one value of a link that are looked at."""
_NAMES = ("metrics", "group", "axes")
"""Fields that hold several names, apart by commas."""


@dataclass(frozen=True)
class CompareView:
    """One state of the page; each field stands in the address under its own name, and not at all where it has its
    default.
    """

    runs: tuple[int, ...] = ()
    filter: str = ""
    tab: str = "curves"
    metrics: tuple[str, ...] = ()
    """None chosen: the first few that the runs have."""
    x: str = "step"
    """step, passes, updates, time, bytes, or a metric."""
    log: str = ""
    smooth: float = 0.9
    group: tuple[str, ...] = ()
    """Config fields; runs that agree in all of them are one line."""
    stat: str = "mean"
    band: str = "sd"
    number: str = ""
    """What bars show and scatter has upwards, such as test/accuracy.best; empty: the first there is."""
    against: str = ""
    """What scatter has along."""
    axes: tuple[str, ...] = ()
    """What parallel coordinates show before the number; empty: the config fields that differ."""
    same: bool = False
    """Whether the table of differences shows what is equal too."""


def read_view(query: Mapping[str, str]) -> tuple[CompareView, list[str]]:
    """Return the view of an address, and a sentence for each part that could not be read."""
    known = {field.name for field in fields(CompareView)}
    said, values = list[str](), dict[str, Any]()
    version = query.get("v", VERSION)
    if version != VERSION:
        said.append(
            f"This link is of version '{version[:20]}' of the Compare page, and this console reads version "
            f"{VERSION}: what it understands is shown."
        )
    for name, text in query.items():
        if name == "v":
            continue
        if name not in known:
            said.append(f"The link's '{name[:40]}' means nothing to this version of the page, and was left out.")
            continue
        try:
            values[name] = _READ[name](text) if name in _READ else text.strip()[:LONGEST]
        except ValueError as error:
            said.append(f"The link's {name} {error}; it was left out.")
    ids, wrong = values.get("runs", ((), ()))
    said += [f"The link's runs are numbers and ranges such as 1,2,5-9; '{each[:40]}' was left out." for each in wrong]
    return CompareView(**values | {"runs": ids}), said


def query_of(view: CompareView) -> dict[str, str]:
    """Return the query of a view's address; empty for the page as it opens."""
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
    """Return the page's path with a query, readable where an address may be."""
    return f"{PATH}?{urlencode(query, safe=',/.-:')}" if query else PATH


def read_ids(text: str) -> tuple[tuple[int, ...], list[str]]:
    """Return the ids of a text such as `1,2,5-9`, each once, in order, and the parts that are none; at most
    MOST_IDS.
    """
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
    """Return ids in short: three or more that follow each other as a range."""
    parts: list[list[int]] = []
    for each in sorted(set(ids)):
        if parts and parts[-1][-1] == each - 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 2 else ",".join(map(str, part)) for part in parts)


def _text(name: str, value: Any) -> str:
    if name == "runs":
        return ids_text(value)
    if name in _NAMES:
        return ",".join(value)
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
    return _one_of(SPREADS)("ci" if text == "boot" else text)  # links of before had boot for it


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 0.98:
        raise ValueError(f"must be a number from 0 to 0.98, got '{text[:40]}'")
    return float(f"{found:g}")  # as precisely as an address says it, so that a view and its address agree


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip()[:LONGEST] for name in text.split(",") if name.strip()))[:30]


_READ: Mapping[str, Callable[[str], Any]] = {
    "runs": read_ids,
    "tab": _one_of(tuple(TABS)),
    "log": _one_of(LOGS),
    "smooth": _share,
    "stat": _one_of(STATISTICS),
    "band": _band,
    "same": lambda text: _one_of(("1", "0"))(text) == "1",
    **dict.fromkeys(_NAMES, _listed),
}
