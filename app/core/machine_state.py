"""The machine as the runner last sampled it: its load, and the change token of the Machine page."""

from collections.abc import Mapping, Sequence

from app.core.formatting import moment, since
from engine.store import MachineSample, Reader, RunnerRow
from engine.system.machine import machine

# ---- The load of the machine as the runner last sampled it, and the part of other programs -------------------------

OTHERS = 0.2
"""Share of the CPU beyond the allocated cores from which other programs are named."""
Loads = Mapping[tuple[str, str], float]


def fresh(samples: Sequence[MachineSample]) -> Loads:
    """Return the values of recent samples by source and name."""
    return {(sample.source, sample.name): sample.value for sample in samples if (since(sample.at) or 0.0) < SILENT_S}


def share_of_others(percent: float | None, held: float) -> float:
    """Return the share of the CPU (0 to 1) beyond that of the allocated cores: at least this is of other programs."""
    return max(0.0, (percent or 0.0) / 100 - held)


def slowed_by_others(reader: Reader) -> str:
    """Return that other programs use many cores now, so that a run may take longer, as a sentence; else empty."""
    cores = machine().cores
    held = sum(run.demand.cores for run in reader.queue.alive()) / cores
    share = share_of_others(fresh(reader.machine.latest()).get(("host", "cpu_percent")), held)
    if share < OTHERS:
        return ""
    least = "at least " if held else ""
    return f"Other programs use {least}{share * cores:.1f} of {cores} cores: it may take longer."


# ---- The change token of the Machine page, for the page and its route ----------------------------------------------
# Nothing here imports Streamlit.

SILENT_S = 10.0


def machine_token(reader: Reader) -> int:
    """Return a number that changes with each sample, each change of a run, and when the runner becomes silent."""
    newest = reader.machine.newest()
    return (
        reader.runs.token()
        + (round(moment(newest).timestamp() * 1000) if newest else 0)
        + is_silent(reader.runner.current())
    )


def is_silent(row: RunnerRow | None, after_s: float | None = None) -> bool:
    """Return whether the runner's last heartbeat is so old (default: `SILENT_S`) that it has died or hangs."""
    return row is None or (since(row.heartbeat_at) or 0.0) > (SILENT_S if after_s is None else after_s)
