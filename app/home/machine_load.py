"""The current load of the machine, as HTML for the Home page."""

from collections.abc import Sequence

from markupsafe import Markup

from app.core.current_load import OTHERS, Loads, fresh, share_of_others
from app.core.formatting import size
from app.ui.html import bar, block, facts, joined, run_link
from app.ui.run_state import waiting
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run
from engine.system.machine import Machine, machine, storage

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
        ("Queue", waiting(queued, reader.queue.count_held("")) if queued else "empty"),
        ("Disk", _disk(home)),
    ]
    return block("pl-load", facts(pairs))


def _gpus(here: Machine, holders: Sequence[Run], loads: Loads) -> list[tuple[str, str]]:
    found = []
    for gpu in here.gpus:
        by = [run_link(f"run {run.id}", run.id) for run in holders if gpu.index in run.gpus]
        use = _percent(loads.get((f"gpu{gpu.index}", "gpu_percent")), f"GPU {gpu.index}")
        memory = _memory(
            loads.get((f"gpu{gpu.index}", "memory_mb")), round(gpu.memory_mb / 1024, 1), f"Memory of GPU {gpu.index}"
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
        else f"{used_mb / 1024:.1f} of {whole_gb:g} GB" + bar(used_mb / 1024 / whole_gb, label)
    )


def _disk(home: Home) -> str:
    found = storage(home)
    nearly = "nearly full: " if found.disk_free < LITTLE * found.disk_total else ""
    used = 1 - found.disk_free / found.disk_total
    return f"{nearly}{size(found.disk_free)} of {size(found.disk_total)} free" + bar(used, "Disk used")
