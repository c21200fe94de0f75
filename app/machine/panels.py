"""The parts of the Machine page: slots and who holds them, the last hour, the runner, room on disks."""

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from app.core.formatting import now, size
from app.core.machine_token import is_silent
from app.machine.charts import HEIGHT_PX, SHOWN, hour, kinds
from app.ui import components, widgets
from app.ui.html import bar, run_link, table, when
from app.ui.run_state import waiting
from engine.home import Home
from engine.store import Reader
from engine.store.curve_records import MachineSample
from engine.store.records import ALIVE, Run
from engine.system.disk_space import storage
from engine.system.liveness_lock import lives
from engine.system.machine import Machine

IN_USE_MB, IN_USE_PERCENT = 1_024.0, 10.0
"""From so much memory or use on, a GPU that no run holds is in use by something else."""


def slots(reader: Reader, here: Machine, samples: Sequence[MachineSample]) -> None:
    """Show the cores and each GPU: which run holds it, and how busy it is."""
    holders = [reader.runs.one(row.id) for row in reader.runs.find(statuses=ALIVE)]
    latest = {(sample.source, sample.name): sample.value for sample in samples}
    held = sum(run.demand.cores for run in holders)
    rows = [
        [f"{here.cores} CPU cores", f"{held} of {here.cores} held", _holders(holders, "cores"), _host(here, latest)]
    ]
    for gpu in here.gpus:
        by = [run for run in holders if gpu.index in run.gpus]
        load = {name: latest.get((f"gpu{gpu.index}", name)) for name in ("gpu_percent", "memory_mb")}
        rows.append(
            [
                f"GPU {gpu.index}, {escape(gpu.name)}",
                "held" if by else _free(load),
                _holders(by, "gpu"),
                _load(load, gpu.memory_mb),
            ]
        )
    st.html(bar(held / here.cores, "Cores held"))
    st.html(table(["Slot", "State", "Held by", "Now"], rows, caption="Slots of the machine and who holds them"))
    if not here.gpus:
        st.caption("This machine shows no GPU.")
    if total := reader.queue.count():
        st.caption(f"In the queue {waiting(total, reader.queue.count_held())}.")


def hours(samples: Sequence[MachineSample], here: Machine) -> None:
    """Show what cores, memory and GPUs did over the last hour."""
    if not samples:
        st.write("Nothing was sampled in the last hour; the runner looks every few seconds.")
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
    """Show which process serves the store, since when, and when it was last heard of."""
    row = reader.runner.current()
    if row is None:
        widgets.show_facts([("State", "no runner serves this lab")])
        return
    state = (
        "not there any more"
        if not lives(reader.db.home, row.process)
        else "takes no new runs, ends with its last one"
        if row.stopping
        else "serves"
    )
    widgets.show_facts(
        [
            ("State", state),
            ("Process", str(row.process.pid)),
            ("Since", when(row.started_at)),
            ("Last heartbeat", when(row.heartbeat_at) + (" (silent)" if is_silent(row) else "")),
            ("Spare worker", "warm" if row.warm else "not loaded"),
            ("Gives out", f"{row.cores} cores, {row.gpus} GPUs"),
        ]
    )


def room(home: Home) -> None:
    """Show what is free on the disks, how large the store is, and where things lie."""
    found = storage(home)
    widgets.show_facts(
        [
            ("Free on the home's disk", f"{size(found.disk_free)} of {size(found.disk_total)}"),
            ("Store", size(found.store)),
            ("Its write-ahead log", size(found.write_ahead_log)),
            ("Home", escape(str(home.path))),
            ("Data sets", escape(str(home.data)) + ("" if found.has_data else " (not there yet)")),
            ("Free on their disk", size(found.data_free)),
        ]
    )


def _holders(runs: Sequence[Run], slot: str) -> str:
    """Return who holds a slot, as HTML."""
    said = []
    for run in runs:
        cores = f", {run.demand.cores} {'core' if run.demand.cores == 1 else 'cores'}" if slot == "cores" else ""
        alone = ", nothing may run beside it" if run.exclusive and slot == "cores" else ""
        said.append(f"{run_link(f'run {run.id}', run.id)} of {escape(run.owner)}{cores}{alone}")
    return "<br>".join(said) or "–"


def _host(here: Machine, latest: Mapping[tuple[str, str], float]) -> str:
    cpu, memory = latest.get(("host", "cpu_percent")), latest.get(("host", "memory_mb"))
    return (
        "–"
        if cpu is None or memory is None
        else f"CPU {cpu:.0f} %, memory {memory / 1024:.1f} of {here.memory_gb:.1f} GB"
    )


def _load(load: Mapping[str, float | None], memory_mb: int) -> str:
    use, memory = load["gpu_percent"], load["memory_mb"]
    return (
        "–"
        if use is None or memory is None
        else f"{use:.0f} %, memory {memory / 1024:.1f} of {memory_mb / 1024:.1f} GB"
    )


def _free(load: Mapping[str, float | None]) -> str:
    in_use = (load["gpu_percent"] or 0.0) >= IN_USE_PERCENT or (load["memory_mb"] or 0.0) >= IN_USE_MB
    return "no run holds it, but something else uses it" if in_use else "free"
