"""How a live run stands: what ticks on its page, made once for all who watch it, and one number for the rest of the
page.

A script run costs the server some twenty times what an answer of ours costs. So a run's page runs again only when its
`frame` changes; whatever changes all the time lies in slots (app.ui.html.slot) and figures, which pulse.js fills from
our route.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.charts import plotly_figures
from app.run import summary_html
from app.ui.html import Slot
from engine.home import Home
from engine.rl.pictures import PICTURE
from engine.store import Reader
from engine.store.curve_records import MachineSample
from engine.store.records import Run

DRAWN_BY_THE_SCRIPT = ("Pipeline", "Histograms", "Episode")
"""Sections that hold more than slots and figures: while one of them is open, the page runs again at each news."""

Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one version: its frame as the token that pulse.js compares, the HTML of each slot, and by its key what
    each figure shows.
    """

    version: int
    token: int
    slots: Mapping[Slot, str]
    figures: Figures


def standing(home: Home, run_id: int, section: str) -> RunSnapshot:
    """Return how a run stands, for those who have `section` of its page open; raises NoSuchRun."""
    with Reader.open(home) as reader, reader.db.snapshot():
        run, entry = reader.runs.one(run_id), reader.runs.entry(run_id)
        slots: dict[Slot, str] = {
            "cause": summary_html.cause(run, entry),
            "bar": summary_html.progress(entry),
            "facts": summary_html.facts_of(run),
        }
        slots["tiles"] = summary_html.tiles(reader.details.summaries(run_id), entry)
        drawn: Figures = {}
        if section == "Ranks":
            slots["ranks"] = summary_html.ranks_table(reader.details.ranks(run_id))
            drawn = phases(run, reader)
        elif section == "Machine":
            drawn = machine(run, reader.details.machine(run_id))
        elif section == "Events":
            slots["events"] = summary_html.events_table(reader.details.events(run_id))
        return RunSnapshot(run.version, frame(run, reader, section, has_picture(home, run_id)), slots, drawn)


def has_picture(home: Home, run_id: int) -> bool:
    """Return whether an episode of the run has been drawn. A page checks once and uses that answer throughout: the file
    may appear meanwhile.
    """
    return (home.run_folder(run_id) / PICTURE).exists()


def frame(run: Run, reader: Reader, section: str, picture: bool) -> int:
    """Return a number that changes with anything on the run's page that neither a slot nor a figure holds; `picture`:
    what has_picture returned.
    """
    still = replace(run, version=0, heartbeat_at=None, progress_done=0, progress_total=0, progress_unit="")
    there: list[object] = [
        section,
        still,
        len(reader.details.events(run.id)),
        reader.runs.resumed_as(run.id),
        reader.details.counts_passes(run.id),
        reader.details.logs(run.id),
    ]
    there += [reader.details.has_spans(run.id), reader.details.has_histograms(run.id), picture]
    if section == "Ranks":
        there += [bool(reader.details.ranks(run.id)), bool(_spent(reader.details.phases(run.id)))]
    elif section == "Machine":
        there.append(plotly_figures.machine_names(reader.details.machine(run.id)))
    elif section in DRAWN_BY_THE_SCRIPT:
        there.append(run.version)
    return zlib.crc32(repr(there).encode())


def phases(run: Run, reader: Reader) -> Figures:
    """Return where each rank's time went, as a figure; none while it went nowhere."""
    seconds = reader.details.phases(run.id)
    if not _spent(seconds):
        return {}
    picture = plotly_figures.phases(seconds, {row.rank: row.role for row in reader.details.ranks(run.id)})
    colours = plotly_figures.phase_colours(plotly_figures.phases_shown(seconds))
    return {
        f"phases-{run.id}": plotly_figures.shown(
            picture,
            alt="Seconds of each rank by phase",
            height=plotly_figures.phases_height(len(seconds)),
            colours=colours,
            table=True,
        ),
    }


def machine(run: Run, samples: Sequence[MachineSample]) -> Figures:
    """Return what the machine did while the run was on, a figure a number."""
    found: Figures = {}
    for name in plotly_figures.machine_names(samples):
        picture = plotly_figures.machine(samples, run.started_at, name)
        alt = f"{plotly_figures.machine_label(name)} over the run"
        found[f"machine-{run.id}-{name}"] = plotly_figures.shown(
            picture, alt=alt, height=220, colours=range(len(picture["data"])), table=True
        )
    return found


def _spent(seconds: Mapping[int, Mapping[str, float]]) -> bool:
    return any(value > 0 for spent in seconds.values() for value in spent.values())
