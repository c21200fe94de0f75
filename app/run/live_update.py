"""Live state of a run: the parts of its page that update continuously, rendered once for all viewers, and a frame
number for the rest of the page.

A Streamlit script run costs about 20 times as much as one of our responses, so a run's page reruns only when its
`frame` changes. Everything that changes continuously is in slots (app.ui.html.slot) and figures, which pulse.js updates
from our route.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from app.charts import plotly_figures
from app.charts.curve_charts import FEW
from app.run import summary_html
from app.ui.html import Slot
from app.ui.run_state import tab_title
from engine.home import Home
from engine.metrics import metric
from engine.rl.kinds import PICTURE
from engine.store import Reader
from engine.store.records import Run, Summary

MACHINE = "Machine"
"""The overview with its fold of the machine's load open."""
Figures = dict[str, dict[str, Any]]
Slots = dict[Slot, Markup]


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one version: its frame (the token that pulse.js compares), the HTML of each slot, and the figures by
    key.
    """

    version: int
    token: int
    title: str
    """Of the browser's tab."""
    slots: Mapping[Slot, Markup]
    figures: Figures


def standing(home: Home, run_id: int, section: str) -> RunSnapshot:
    """Return the live state of a run for viewers with `section` open; raises NoSuchRun."""
    with Reader.open(home) as reader, reader.db.snapshot():
        run, entry = reader.runs.one(run_id), reader.runs.entry(run_id)
        slots: Slots = {
            "cause": summary_html.cause(run, entry, reader),
            "bar": summary_html.progress(entry),
            "result": summary_html.result(entry),
        }
        live, figures = content(run, reader, section)
        token = frame(run, reader, section, has_picture(home, run_id), (live, figures))
        return RunSnapshot(run.version, token, tab_title(entry), slots | live, figures)


def content(run: Run, reader: Reader, section: str) -> tuple[Slots, Figures]:
    """Return the slots and figures of a section that update continuously."""
    known = LIVE.get(section)
    return (known.slots(run, reader), known.figures(run, reader)) if known else ({}, {})


def has_picture(home: Home, run_id: int) -> bool:
    """Return whether an episode picture exists. A page checks once and reuses the answer: the file may appear
    meanwhile.
    """
    return (home.run_folder(run_id) / PICTURE).exists()


def frame(run: Run, reader: Reader, section: str, picture: bool, live: tuple[Slots, Figures] | None = None) -> int:
    """Return a number that changes with everything on the run's page outside slots and figures, and when a slot or a
    figure first has data; `picture` is the result of has_picture, `live` that of content.
    """
    still = replace(run, version=0, heartbeat_at=None, progress_done=0, progress_total=0, progress_unit="")
    there: list[object] = [
        section,
        still,
        len(reader.details.events(run.id)),
        reader.runs.resumed_as(run.id),
        reader.runs.cloned_as(run.id),
        reader.details.counts_passes(run.id),
        reader.details.logs(run.id),
        [(each.name, each.sha256) for each in reader.files.of([run.id])],
        [each.sha256 for each in reader.files.used(run.id)],
    ]
    if run.target and (job := reader.cluster_jobs.of(run.id)):
        there.append((job.job_id, job.state, job.reason, job.nodes))
    details = reader.details
    there += [details.has_spans(run.id), details.has_histograms(run.id), details.has_machine_samples(run.id), picture]
    if section in LIVE:
        slots, figures = live or content(run, reader, section)
        there += [sorted(slots), sorted(figures), run.active and is_smoothed(details.summaries(run.id))]
    elif section not in STATIC:
        there.append(run.version)
    return zlib.crc32(repr(there).encode())


def is_smoothed(summaries: Sequence[Summary]) -> bool:
    """Return whether any live curve has enough points to be smoothed; a band has its own running mean."""
    long = (metric(each.metric) for each in summaries if each.count + each.nonfinite > FEW)
    return any(known.live and known.smooth and not known.band for known in long)


def phases(run: Run, reader: Reader) -> Figures:
    """Return the time per rank and phase as a figure; empty if no time was recorded."""
    seconds = reader.details.phases(run.id)
    if not _spent(seconds):
        return {}
    picture = plotly_figures.phases(seconds, {row.rank: row.role for row in reader.details.ranks(run.id)})
    colours = plotly_figures.phase_colours(plotly_figures.phases_shown(seconds))
    return {
        f"phases-{run.id}": plotly_figures.shown(
            picture,
            alt="Time per rank by phase, in seconds",
            height=plotly_figures.phases_height(len(seconds)),
            colours=colours,
            table=True,
        ),
    }


def machine(run: Run, reader: Reader) -> Figures:
    """Return the machine samples taken during the run, one figure per quantity."""
    found: Figures = {}
    samples = reader.details.machine(run.id)
    for name in plotly_figures.machine_names(samples):
        picture = plotly_figures.machine(samples, run.started_at, name)
        alt = f"{plotly_figures.machine_label(name)} during the run"
        found[f"machine-{run.id}-{name}"] = plotly_figures.shown(
            picture, alt=alt, height=220, colours=range(len(picture["data"])), table=True
        )
    return found


def _spent(seconds: Mapping[int, Mapping[str, float]]) -> bool:
    return any(value > 0 for spent in seconds.values() for value in spent.values())


def ranks(run: Run, reader: Reader) -> Slots:
    found = reader.details.ranks(run.id)
    health = reader.details.health(run.id) if run.active else None
    return {"ranks": summary_html.ranks_table(found, health)} if found else {}


def overview(run: Run, reader: Reader) -> Slots:
    """Return the slots of a run's first tab."""
    entry, details = reader.runs.entry(run.id), reader.details
    return {
        "showed": summary_html.showed(run, entry, reader),
        "tiles": summary_html.tiles(details.summaries(run.id), entry),
        "strip": summary_html.rank_strip(details.phases(run.id), details.ranks(run.id)),
        "facts": summary_html.facts_of(run, reader.origins.of(run.id), entry, reader.cluster_jobs.of(run.id)),
    }


def _events(run: Run, reader: Reader) -> Slots:
    return {"events": summary_html.events_table(reader.details.events(run.id))}


def _no_slots(run: Run, reader: Reader) -> Slots:
    return {}


def _no_figures(run: Run, reader: Reader) -> Figures:
    return {}


@dataclass(frozen=True)
class LiveSection:
    """What of a section updates continuously; empty while there is no data."""

    slots: Callable[[Run, Reader], Slots] = _no_slots
    figures: Callable[[Run, Reader], Figures] = _no_figures


LIVE = {
    "Overview": LiveSection(slots=overview),
    MACHINE: LiveSection(slots=overview, figures=machine),
    "Ranks": LiveSection(slots=ranks, figures=phases),
    "Events": LiveSection(slots=_events),
}
STATIC = ("Files", "Log", "Config", "Environment", "Notes")
"""Sections without live data. While a section is open that is neither live nor static, each update reruns the page."""
