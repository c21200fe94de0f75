"""Allocation of GPUs and CPU cores by number: a pure function of the live runs and the GPU states. Torch-free."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import counted
from engine.store.records import Run
from engine.system.machine import GpuState, Machine


@dataclass(frozen=True)
class Slots:
    """The slots of one run."""

    gpus: tuple[int, ...]
    cores: tuple[int, ...]


def place(run: Run, holders: Sequence[Run], machine: Machine, states: Mapping[int, GpuState]) -> Slots | None:
    """Return GPUs and cores for `run`, or None if it does not fit beside `holders`.

    A core belongs to one run at a time; only a run that may be oversubscribed starts on cores that others hold, the
    least shared ones. An exclusive run runs alone.
    """
    if holders and (run.exclusive or any(holder.exclusive for holder in holders)):
        return None
    gpus = free_gpus(holders, machine, states) if run.demand.gpus else []
    if run.demand.gpus > len(gpus) or (run.demand.cores > free_cores(holders, machine) and not run.terms.oversubscribe):
        return None
    return Slots(tuple(gpus[: run.demand.gpus]), least_shared(run.demand.cores, holders, machine))


def free_gpus(holders: Sequence[Run], machine: Machine, states: Mapping[int, GpuState]) -> list[int]:
    """Return the GPUs that neither a run nor another program uses; one that does not answer is not free."""
    held = {index for holder in holders for index in holder.gpus}
    return [
        gpu.index for gpu in machine.gpus if gpu.index not in held and gpu.index in states and states[gpu.index].idle
    ]


def foreign_gpus(holders: Sequence[Run], machine: Machine, states: Mapping[int, GpuState]) -> list[int]:
    """Return the GPUs that no run holds but that are not free."""
    held = {index for holder in holders for index in holder.gpus}
    return sorted({gpu.index for gpu in machine.gpus} - held - set(free_gpus(holders, machine, states)))


def free_cores(holders: Sequence[Run], machine: Machine) -> int:
    """Return the number of free cores, below 0 if runs share them; an unpinned run counts as the cores requested."""
    return machine.cores - sum(holder.demand.cores for holder in holders)


def least_shared(count: int, holders: Sequence[Run], machine: Machine) -> tuple[int, ...]:
    """Return `count` cores by number, the least shared first, then the lowest."""
    ids = machine.core_ids or tuple(range(machine.cores))
    shared: Counter[int] = Counter(core for holder in holders for core in holder.cores)
    for holder in holders:
        if not holder.cores:  # claimed by an older version, without core numbers
            shared.update(_fewest(holder.demand.cores, ids, shared))
    return tuple(sorted(_fewest(count, ids, shared)))


def _fewest(count: int, ids: Collection[int], shared: Mapping[int, int]) -> list[int]:
    return sorted(ids, key=lambda core: (shared.get(core, 0), core))[:count]


def lacks(run: Run, machine: Machine) -> str:
    """Return why `run` can never start on `machine`, e.g. after a GPU was removed; empty if it can."""
    if run.demand.gpus > len(machine.gpus):
        return (
            f"The run needs {counted(run.demand.gpus, 'GPU')}, this machine has {len(machine.gpus)}. Clone it with "
            "device auto or cpu."
        )
    if run.demand.cores > machine.cores:
        return (
            f"The run needs {counted(run.demand.cores, 'CPU core')}, this machine has {machine.cores}. Clone it: the "
            "launch form caps the cores."
        )
    return ""
