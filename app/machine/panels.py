"""The parts of the Machine page: slots and their allocation, the last hour, the runner, storage."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from itertools import groupby
from threading import Lock

import plotly.graph_objects as go
import psutil
import streamlit as st
from markupsafe import Markup

from app.charts.plotly_figures import look
from app.core.assets import at
from app.core.caches import VersionedCache, is_silent
from app.core.formatting import gigabytes, moment, now, size
from app.ui import components, widgets
from app.ui.html import as_text, bar, caption, joined, link, queue_link, run_link, stacked, table, when
from app.ui.run_state import waiting
from engine.errors import counted
from engine.home import Home
from engine.runner.runner import folder_bytes
from engine.store import Reader
from engine.store.curve_records import MachineSample
from engine.store.records import ProcessIdentity, Run
from engine.system import cpu_use
from engine.system.machine import Machine, storage
from engine.system.processes import is_alive, session_members
from engine.system.runner_process import lives
from engine.upkeep.backups import Backup, backups

IN_USE_MB, IN_USE_PERCENT = 1_024.0, 10.0
"""A GPU that no run holds and that exceeds one of these is in use by another program."""


def slots(reader: Reader, here: Machine, samples: Sequence[MachineSample]) -> None:
    """Show the cores and each GPU: the runs that hold it, and its load."""
    holders = reader.queue.alive()
    latest = {(sample.source, sample.name): sample.value for sample in samples}
    held = sum(run.demand.cores for run in holders)
    rows = [
        [
            f"{here.cores} CPU cores",
            f"{held} of {here.cores} allocated",
            _holders(holders, "cores"),
            _host(here, latest),
        ]
    ]
    for gpu in here.gpus:
        by = [run for run in holders if gpu.index in run.gpus]
        load = {name: latest.get((f"gpu{gpu.index}", name)) for name in ("gpu_percent", "memory_mb")}
        rows.append(
            [
                f"GPU {gpu.index}, {gpu.name}",
                "allocated" if by else _free(load),
                _holders(by, "gpu"),
                _load(load, gpu.memory_mb),
            ]
        )
    st.html(bar(held / here.cores, "Cores allocated"))
    st.html(table(["Slot", "State", "Allocated to", "Load"], rows, caption="Slots and their allocation"))
    row = reader.runner.current()
    if busiest := others.busiest(holders, row.process if row else None):
        named = ", ".join(f"{name} {cores:.1f}" for name, cores in busiest)
        st.caption(as_text(f"Busiest programs outside of runs, in cores: {named}."))
    if not here.gpus:
        st.caption("No GPU found.")
    if total := reader.queue.count(""):
        queue = queue_link(waiting(total, reader.queue.count_held("")))
        st.html(caption(joined(["Queue: ", queue, "."], "")))
    _clusters(reader)


def _clusters(reader: Reader) -> None:
    """Show the runs on clusters, if there are any."""
    alive = reader.queue.alive_on_clusters()
    if names := sorted({*(run.target for run in alive), *reader.cluster_jobs.targets()}):
        rows = [
            [
                name,
                _holders([run for run in alive if run.target == name], "cores"),
                waiting(reader.queue.count(name), reader.queue.count_held(name)),
            ]
            for name in names
        ]
        st.html(table(["Cluster", "Running", "Queue"], rows, caption="Runs on clusters"))


def hours(samples: Sequence[MachineSample], here: Machine) -> None:
    """Show the load of cores, memory and GPUs over the last hour."""
    if not samples:
        st.write("No samples in the last hour. The runner takes one every few seconds.")
        return
    most = {"cpu_percent": 100.0, "gpu_percent": 100.0, "host memory_mb": here.memory_gb}
    shown = kinds(samples)
    for start in range(0, len(shown), 2):
        for column, kind in zip(st.columns(2, gap="large"), shown[start : start + 2], strict=False):
            with column:
                st.markdown(f"**{SHOWN[kind]}**")
                picture = hour(samples, kind, now(), most.get(kind))
                components.figure(
                    f"hour-{kind}",
                    picture,
                    alt=f"{SHOWN[kind]} over the last hour",
                    height=HEIGHT_PX,
                    colours=range(len(picture.data)),
                    table=True,
                )


def runner(reader: Reader) -> None:
    """Show the runner's state, process, start and last heartbeat."""
    row = reader.runner.current()
    if row is None:
        widgets.show_facts([("State", "not running")])
        return
    state = (
        "died"
        if not lives(reader.db.home, row.process)
        else "stopping after its last run"
        if row.stopping
        else "running"
    )
    widgets.show_facts(
        [
            ("State", state),
            ("Process", str(row.process.pid)),
            ("Started", when(row.started_at)),
            ("Last heartbeat", when(row.heartbeat_at) + (" (silent)" if is_silent(row) else "")),
            ("Spare worker", "warm" if row.warm else "not loaded"),
            ("Capacity", f"{counted(row.cores, 'core')}, {counted(row.gpus, 'GPU')}"),
        ]
    )


_ASIDE: VersionedCache[int] = VersionedCache()
ASIDE_FRESH_S = 60.0


def room(reader: Reader, home: Home) -> None:
    """Show free disk space, and the sizes of the store and the folders."""
    aside = _ASIDE.get(home, time.monotonic() // ASIDE_FRESH_S, lambda: folder_bytes(home.aside))
    found = storage(home)
    widgets.show_facts(
        [
            ("Free disk space (home)", f"{size(found.disk_free)} of {size(found.disk_total)}"),
            ("Store", size(found.store)),
            ("Write-ahead log", size(found.write_ahead_log)),
            ("Run folders (without points)", size(reader.quotas.folder_bytes())),
            ("Files that runs keep", size(reader.quotas.file_bytes())),
            ("Backups", _backups(backups(home))),
            ("Set aside", size(aside)),
            ("Home", str(home.path)),
            ("Data sets", str(home.data) + ("" if found.has_data else " (does not exist yet)")),
            ("Free disk space (data sets)", size(found.data_free)),
        ]
    )


def _backups(found: Sequence[Backup]) -> str:
    """Return the size of the backups and the age of the newest, as HTML, with a link to how one is made and checked."""
    newest = f"{size(sum(backup.size for backup in found))}, newest {when(found[0].made_at)}" if found else "none"
    return joined([Markup(newest), link("Make or check one", at("/docs?page=operations#backup-and-restore"))], ". ")


def _holders(runs: Sequence[Run], slot: str) -> str:
    """Return the runs that hold a slot, as HTML."""
    entries = []
    for run in runs:
        cores = f", {run.demand.cores} {'core' if run.demand.cores == 1 else 'cores'}" if slot == "cores" else ""
        alone = ", exclusive" if run.exclusive and slot == "cores" else ""
        entries.append(run_link(f"run {run.id}", run.id) + f" of {run.owner}{cores}{alone}")
    return stacked(entries) or "–"


def _host(here: Machine, latest: Mapping[tuple[str, str], float]) -> str:
    cpu, memory = latest.get(("host", "cpu_percent")), latest.get(("host", "memory_mb"))
    return (
        "–"
        if cpu is None or memory is None
        else f"CPU {cpu:.0f} %, memory {gigabytes(memory):.1f} of {here.memory_gb:.1f} GB"
    )


def _load(load: Mapping[str, float | None], memory_mb: int) -> str:
    use, memory = load["gpu_percent"], load["memory_mb"]
    return (
        "–"
        if use is None or memory is None
        else f"{use:.0f} %, memory {gigabytes(memory):.1f} of {gigabytes(memory_mb):.1f} GB"
    )


def _free(load: Mapping[str, float | None]) -> str:
    in_use = (load["gpu_percent"] or 0.0) >= IN_USE_PERCENT or (load["memory_mb"] or 0.0) >= IN_USE_MB
    return "used by another program" if in_use else "free"


# ---- The load of the machine over the last hour, as figures --------------------------------------------------------
# Pure functions; the theme sets the colours.

HEIGHT_PX = 200
HOUR_MIN = 60
GAP_MIN = 0.5
"""Lines break where samples are further apart: no runner was running."""
SHOWN = {
    "cpu_percent": "CPU (%)",
    "host memory_mb": "Memory (GB)",
    "gpu_percent": "GPU (%)",
    "gpu memory_mb": "GPU memory (GB)",
}
"""The charts by metric; memory of host and GPUs is separate, since the scales differ."""


def kind_of(sample: MachineSample) -> str:
    """Return the chart that a sample belongs to."""
    if sample.name != "memory_mb":
        return sample.name
    return f"{'host' if sample.source == 'host' else 'gpu'} memory_mb"


def kinds(samples: Sequence[MachineSample]) -> list[str]:
    """Return the charts that there are samples for."""
    found = {kind_of(sample) for sample in samples}
    return [kind for kind in SHOWN if kind in found]


def hour(samples: Sequence[MachineSample], kind: str, now: datetime, most: float | None = None) -> go.Figure:
    """Return one line per source over the last hour; the y axis ends at `most`, if given."""
    figure = go.Figure()
    chosen = sorted(
        (sample for sample in samples if kind_of(sample) == kind), key=lambda sample: (sample.source, sample.at)
    )
    scale = gigabytes(1.0) if kind.endswith("memory_mb") else 1.0
    for place, (source, group) in enumerate(groupby(chosen, key=lambda sample: sample.source)):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for sample in group:
            minutes = (moment(sample.at) - now).total_seconds() / 60
            if xs and xs[-1] is not None and minutes - xs[-1] > GAP_MIN:
                xs, ys = [*xs, None], [*ys, None]
            xs.append(minutes)
            ys.append(sample.value * scale)
        figure.add_scatter(
            x=xs,
            y=ys,
            name=source,
            mode="lines" if len(xs) > 1 else "markers",
            line={"dash": look(place).dash},
            hovertemplate="%{y:.1f}<extra>%{fullData.name}</extra>",
        )
    ticks = list(range(-HOUR_MIN, 1, 15))
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={
            "range": [-HOUR_MIN, 0],
            "tickvals": ticks,
            "ticktext": [f"{-tick} min ago" if tick else "now" for tick in ticks],
        },
        yaxis={"range": [0, most]} if most else {"rangemode": "tozero"},
        showlegend=len(figure.data) > 1,
    )
    return figure


# ---- Programs outside of all runs and of this lab that use this machine's CPU now ----------------------------------

AT_LEAST_S, AT_MOST_S = 2.0, 120.0
"""Limits of the interval between two samples; after a longer one nothing is shown until the next."""
NAMED, LEAST_CORES = 3, 0.1
"""Most programs that are named, and the fewest cores that one must use."""


@dataclass
class OtherPrograms:
    """CPU use of other programs between the last two samples, shared by all viewers of this console."""

    _seen: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    _seen_at: float = float("-inf")
    _busiest: Sequence[tuple[str, float]] = ()
    _lock: Lock = field(default_factory=Lock)

    def busiest(self, holders: Sequence[Run], runner: ProcessIdentity | None) -> Sequence[tuple[str, float]]:
        """Return the names of the busiest programs outside of these runs, the lab's runner and this console, and how
        many cores each uses.
        """
        with self._lock:
            passed = time.monotonic() - self._seen_at
            if passed >= AT_LEAST_S:
                now = cpu_use.programs({*_pids(holders), *_of_lab(runner)})
                self._busiest = _difference(self._seen, now, passed) if passed <= AT_MOST_S else ()
                self._seen, self._seen_at = now, time.monotonic()
            return self._busiest


def _pids(holders: Sequence[Run]) -> Collection[int]:
    return {pid for run in holders if run.worker for pid in session_members(run.worker)}


def _of_lab(runner: ProcessIdentity | None) -> Collection[int]:
    """Return the pids of the runner and of this console, with all that they started, such as the spare worker."""
    found: set[int] = set()
    for pid in (os.getpid(), *([runner.pid] if runner and is_alive(runner) else [])):
        try:
            found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        except psutil.Error:
            continue
    return found


def _difference(
    before: Mapping[int, tuple[str, float]], now: Mapping[int, tuple[str, float]], seconds: float
) -> Sequence[tuple[str, float]]:
    used: dict[str, float] = defaultdict(float)
    for pid, (name, cpu_s) in now.items():
        if pid in before:
            used[name] += max(0.0, cpu_s - before[pid][1]) / seconds
    found = [(name, cores) for name, cores in used.items() if cores >= LEAST_CORES]
    return nlargest(NAMED, found, key=lambda each: each[1])


others = OtherPrograms()
