"""The doctor: checks a machine for known problems and suggests fixes.

It must work on a broken machine, so a failing check doesn't stop the others, and torch is only imported in a separate
process.
"""

from collections.abc import Callable, Iterator

from engine.doctor import machine, software, storage
from engine.doctor.machine import Finding, State
from engine.home import Home

__all__ = ["Finding", "State", "examine"]


def examine(home: Home) -> Iterator[Finding]:
    """Yield the finding of each check as it completes."""
    torch = software.TorchProbe()
    yield from _guarded("python", software.python)
    yield from _guarded("packages", software.packages)
    yield from _guarded("torch", lambda: software.torch(torch.answer()))
    yield from _guarded("GPUs", lambda: software.gpus(torch.answer(), software.driver_gpus()))
    yield from _guarded("start methods", software.start_methods)
    yield from _guarded("cores and memory", machine.cores_and_memory)
    yield from _guarded("shared memory", machine.shared_memory)
    yield from _guarded("open files", machine.open_files)
    yield from _guarded("network", lambda: machine.network(home))
    yield from _guarded("commands", machine.confinement)
    yield from _guarded("home", lambda: storage.writable_home(home))
    yield from _guarded("permissions", lambda: storage.permissions(home))
    yield from _guarded("clock", lambda: machine.clock(home))
    yield from _guarded("file system", lambda: storage.file_system(home))
    yield from _guarded("store", lambda: storage.store(home))
    yield from _guarded("runner", lambda: storage.runner(home))
    yield from _guarded("data sets", lambda: storage.data_sets(home))
    yield from _guarded("test programs", machine.test_programs)


def _guarded(name: str, check: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        yield check()
    except Exception as error:  # any error of a check becomes a finding
        yield Finding(
            name,
            "fail",
            f"This check failed: {type(error).__name__}: {error}.",
            "Fix the cause in the message, then run the doctor again.",
        )
