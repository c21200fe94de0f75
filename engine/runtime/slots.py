"""What of the machine is free: cores are counted, GPUs are named. A pure function of who holds what. Torch-free."""

from collections.abc import Sequence

from engine.runtime.machine import Machine
from engine.store.records import Run


def place(run: Run, holders: Sequence[Run], machine: Machine) -> tuple[int, ...] | None:
    """Return the GPU indices for `run` (empty where it asks for none), or None while it does not fit beside `holders`."""
    free_cores = machine.cores - sum(holder.demand.cores for holder in holders)
    taken = {index for holder in holders for index in holder.gpus}
    free_gpus = [gpu.index for gpu in machine.gpus if gpu.index not in taken]
    if run.demand.cores > free_cores or run.demand.gpus > len(free_gpus):
        return None
    return tuple(free_gpus[: run.demand.gpus])


def free_cores(holders: Sequence[Run], machine: Machine) -> int:
    """Return the cores that no run holds."""
    return machine.cores - sum(holder.demand.cores for holder in holders)


def lacks(run: Run, machine: Machine) -> str:
    """Return why `run` can never be placed on `machine`, empty where it can; so it is when a GPU has gone since the launch."""
    if run.demand.gpus > len(machine.gpus):
        return f"The run asks for {run.demand.gpus} GPUs, this machine has {len(machine.gpus)}. Clone it with device auto or cpu."
    if run.demand.cores > machine.cores:
        return f"The run asks for {run.demand.cores} CPU cores, this machine has {machine.cores}. Clone it: the launch page caps the cores."
    return ""
