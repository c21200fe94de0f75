"""The live content of the Home page: running runs, the queue, the machine's load; made once for all visitors."""

import json
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from urllib.parse import quote

from markupsafe import Markup

from app.core.assets import at, macro
from app.core.caches import OTHERS, Loads, VersionedCache, fresh, share_of_others
from app.core.formatting import duration, gigabytes, since, size
from app.home.recent import best_html, news_html, published_html
from app.ui.html import (
    Slot,
    bar,
    block,
    entry,
    fact_row,
    facts,
    joined,
    link,
    number,
    paragraph,
    queue_link,
    run_link,
    sweep_link,
)
from app.ui.run_state import place_in_words, time_left, waiting
from app.ui.widgets import runner_trouble, title_of
from engine.experiment import HEADLINE
from engine.home import Home
from engine.queue.forecast import Wait, outlook, start_in_words
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ALIVE, Run, RunRow
from engine.store.runs.reader import RunConditions
from engine.system.machine import Machine, machine, storage

# ---- The live content of the Home page, made at most once a second for all visitors --------------------------------
# The news differ by person; they are made again when a run has ended, not at each change of a run.

EVERY_S = 1.0
"""Least seconds between two versions of the shared content."""
MINUTE_S = 60.0
"""Seconds after which relative times such as `5 min ago` are updated without another change."""
Mark = tuple[str, int, int]


@dataclass(frozen=True)
class HomeStanding:
    """The page at one version: the token that makes pulse.js rerun its script, and the HTML of each slot."""

    version: int
    token: int
    slots: Mapping[Slot, Markup]


@dataclass(frozen=True)
class _Lab:
    """The content that all visitors share."""

    token: int
    mark: Mark
    slots: Mapping[Slot, Markup]


_labs: VersionedCache[_Lab] = VersionedCache()
_bests: VersionedCache[Markup] = VersionedCache()
_news: VersionedCache[Markup] = VersionedCache(most=512)


def standing(home: Home, since: str, without: frozenset[str] = frozenset()) -> HomeStanding:
    """Return the current state of the lab; runs that ended after `since` are new to the visitor, who sees none of
    attempts at the exercises `without`.
    """
    return _made(home, since, without, _lab(home, without))


def shared(home: Home, since: str, without: frozenset[str]) -> HomeStanding:
    """Return the state of the lab at most a second ago."""
    if without:
        with Reader.open(home) as reader:  # a content is kept for each set, so of these alone
            without &= {each.name for each in reader.exercises.states().values() if each.opened_by and each.is_open}
    second = int(time.monotonic() / EVERY_S)
    return _made(home, since, without, _labs.get((home.database, without), second, lambda: _lab(home, without)))


def frame(reader: Reader) -> int:
    """Return a checksum of everything on the page outside the slots."""
    opened = [(state.name, state.deadline, state.is_open) for state in reader.exercises.states().values()]
    there = [reader.runs.count() == 0, runner_trouble(reader), reader.views.find(), opened]
    return zlib.crc32(repr(there).encode())


def _made(home: Home, since: str, without: frozenset[str], lab: _Lab) -> HomeStanding:
    name, version = (home.database, since, without), (lab.mark, _minute())
    slots: dict[Slot, Markup] = {
        "home-news": _news.get(name, version, lambda: _news_of(home, since, without)),
        **lab.slots,
    }
    return HomeStanding(zlib.crc32(json.dumps([lab.token, slots]).encode()), lab.token, slots)


def _lab(home: Home, without: frozenset[str]) -> _Lab:
    with Reader.open(home) as reader, reader.db.snapshot():
        mark = reader.recent_ends.mark()
        slots: dict[Slot, Markup] = {
            "home-now": now_html(reader, without),
            "home-queue": queue_html(reader, home),
            "home-machine": machine_html(reader, home),
            "home-best": _bests.get((home.database, without), mark, lambda: best_html(reader, without)),
            "home-published": published_html(reader),
        }
        return _Lab(frame(reader), mark, slots)


def _news_of(home: Home, since: str, without: frozenset[str]) -> Markup:
    with Reader.open(home) as reader, reader.db.snapshot():
        return news_html(reader, since, without)


def _minute() -> int:
    return int(time.time() / MINUTE_S)


# ---- The current load of the machine, as HTML for the Home page ----------------------------------------------------

LITTLE = 0.05
"""A disk with a smaller free share is shown as nearly full."""


def machine_html(reader: Reader, home: Home) -> Markup:
    """Return cores, memory, GPUs, the queue and the disk, as the runner last sampled them."""
    here, holders = machine(), reader.queue.alive()
    held = sum(run.demand.cores for run in holders)
    loads = fresh(reader.machine.latest())
    queued = reader.queue.count("")
    pairs = [
        ("Cores allocated", f"{held} of {here.cores}" + bar(held / here.cores, "Cores allocated")),
        ("CPU", _cpu(loads.get(("host", "cpu_percent")), held / here.cores)),
        ("Memory", _memory(loads.get(("host", "memory_mb")), here.memory_gb, "Memory")),
        *_gpus(here, holders, loads),
        ("Queue", queue_link(waiting(queued, reader.queue.count_held(""))) if queued else "empty"),
        ("Disk", _disk(home)),
    ]
    return block("pl-load", facts(pairs))


def _gpus(here: Machine, holders: Sequence[Run], loads: Loads) -> list[tuple[str, str]]:
    found = []
    for gpu in here.gpus:
        by = [run_link(f"run {run.id}", run.id) for run in holders if gpu.index in run.gpus]
        use = _percent(loads.get((f"gpu{gpu.index}", "gpu_percent")), f"GPU {gpu.index}")
        memory = _memory(
            loads.get((f"gpu{gpu.index}", "memory_mb")),
            round(gigabytes(gpu.memory_mb), 1),
            f"Memory of GPU {gpu.index}",
        )
        found += [
            (f"GPU {gpu.index}, " + (joined(by) if by else "not allocated"), use),
            (f"Memory of GPU {gpu.index}", memory),
        ]
    return found


def _cpu(percent: float | None, held: float) -> str:
    """Return the load, with the share that is beyond the allocated cores: at least this is of other programs."""
    others = share_of_others(percent, held)
    note = (f"at least {100 * others:.0f} % " if held else "") + "by other programs" if others >= OTHERS else ""
    return _percent(percent, "CPU", note)


def _percent(value: float | None, label: str, note: str = "") -> str:
    if value is None:
        return "not sampled"
    return ", ".join(filter(None, (f"{value:.0f} %", note))) + bar(value / 100, label)


def _memory(used_mb: float | None, whole_gb: float, label: str) -> str:
    return (
        "not sampled"
        if used_mb is None
        else f"{gigabytes(used_mb):.1f} of {whole_gb:g} GB" + bar(gigabytes(used_mb) / whole_gb, label)
    )


def _disk(home: Home) -> str:
    found = storage(home)
    nearly = "nearly full: " if found.disk_free < LITTLE * found.disk_total else ""
    used = 1 - found.disk_free / found.disk_total
    return f"{nearly}{size(found.disk_free)} of {size(found.disk_total)} free" + bar(used, "Disk used")


# ---- The head of the queue, as HTML for the Home page --------------------------------------------------------------

MOST_QUEUED = 4
QUEUE = "/runs?show=active"


def queue_html(reader: Reader, home: Home) -> Markup:
    """Return the number of queued runs, and the first of them with the reason and the estimated start of each."""
    total = reader.queue.count()
    if not total:
        return paragraph("No queued runs.")
    head = paragraph(link(waiting(total, reader.queue.count_held()), at(QUEUE)))
    return head + joined(map(_queued_entry, outlook(reader, home, most=MOST_QUEUED).values()), "")


def _queued_entry(wait: Wait) -> Markup:
    run = wait.run
    return entry(run_link(f"{run.id}: {title_of(run)}", run.id), _words(wait))


def _words(wait: Wait) -> Iterator[str]:
    yield f"by {wait.run.owner}"
    if wait.position:
        yield f"position {wait.position:,}"
    yield wait.reason
    if starts := start_in_words(wait.starts_in_s):
        yield f"starts {starts}"


# ---- The running runs of the lab with their main curves, as HTML for the Home page ---------------------------------

MOST_RUNNING = 6
BINS, READ = 40, 200
"""Values of a sparkline, and points read of each rank."""
NOTHING = "Nothing running. Live runs appear here with their curves."
ACTIVE = "/runs?show=active"


def now_html(reader: Reader, without: Collection[str] = ()) -> Markup:
    """Return the live runs, newest first, `without` those of attempts at some exercises."""
    asked: RunConditions = {"statuses": ALIVE, "without_exercises": without}
    runs, total = reader.runs.find(limit=MOST_RUNNING, **asked), reader.runs.count(**asked)
    shown = joined((_running_entry(reader, run) for run in runs), "") or paragraph(NOTHING)
    return shown + paragraph(link(f"View all {total:,} running", at(ACTIVE))) if total > len(runs) else shown


def _running_entry(reader: Reader, run: RunRow) -> Markup:
    words = [
        f"by {run.owner}",
        *([f"on {place_in_words(run)}"] if run.target else []),
        *([f"{run.progress:.0%} done"] if run.status == "running" and not run.reported else []),
        time_left(run, reader),
    ]
    if run.started_at:
        words.append(f"running for {duration(since(run.started_at))}")
    if run.sweep_id:
        words.append(sweep_link(f"part of sweep {run.sweep_id}", run.sweep_id))
    called = run_link(f"{run.id}: {title_of(run)}", run.id)
    name, values = main_curve(reader, run)
    known = run.metric(name)
    label = f"{known.label} of run {run.id}"
    beside = (
        " ".join(filter(None, (known.label, number(run.last.get(name), unit=known.unit), known.unit))) if name else ""
    )
    progress = "" if run.reported else bar(run.progress, f"Progress of run {run.id}")
    return live_entry(called, fact_row(words), sparkline(values, label), beside, progress)


def main_curve(reader: Reader, run: RunRow) -> tuple[str, list[float]]:
    """Return the metric by which runs of an experiment are ranked, or another one of its headline while that has no
    curve yet, and its values over time: means over all ranks. Of any other program's run: one of ours by its name,
    or its first one.
    """
    known = known_experiment(run.experiment)
    names = (known.result.metric, *known.headline) if known else (*HEADLINE, *run.last)
    recorded = [name for name in dict.fromkeys(names) if name in run.last]
    for name in recorded:
        if len(values := _values(reader, run.id, name)) > 1:
            return name, values
    return next(iter(recorded), ""), []


def _values(reader: Reader, run_id: int, name: str) -> list[float]:
    """Return the values of a metric in order of time, as the means of at most `BINS` groups of equal size."""
    series = reader.curves.series(run_id, [name], max_points=READ)
    points = sorted(
        (time_s or 0.0, value)
        for each in series
        for time_s, value in zip(each.times_s, each.values, strict=True)
        if isfinite(value)
    )
    size = -(-len(points) // BINS) or 1
    return [fmean(value for _, value in points[at : at + size]) for at in range(0, len(points), size)]


# ---- Small curves without axes, drawn by the server, as HTML -------------------------------------------------------
# Images, since Streamlit removes SVG from HTML.

_SHADE = "#1b86ab"
"""The colour of progress bars, which is visible in both themes."""
_HEIGHT, _EDGE = 32, 3
_SPARKLINE, _CURVE, _LIVE_ENTRY = (macro("ui/pieces.html", name) for name in ("sparkline", "curve", "live_entry"))


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return finite values at equal distances as a curve that fills its box; below two values the box is empty."""
    return _SPARKLINE(_source(values) if len(values) > 1 else "", label)


def live_entry(head: str, facts: str, curve: str, beside: str, progress: str) -> Markup:
    """Return a list entry: a heading above facts, a curve above its value, and a progress bar below."""
    return _LIVE_ENTRY(head, facts, curve, beside, progress)


def _source(values: Sequence[float]) -> str:
    """Return the curve, with the area below it shaded, as the address of an SVG."""
    low, high = min(values), max(values)
    reach = _HEIGHT - 2 * _EDGE
    ys = [_HEIGHT - _EDGE - reach * ((value - low) / (high - low) if high > low else 0.5) for value in values]
    line = " ".join(f"{100 * place / (len(ys) - 1):.4g},{y:.4g}" for place, y in enumerate(ys))
    return "data:image/svg+xml," + quote(_CURVE(line, _HEIGHT, _SHADE))
