"""Usage of the machine by person against the limits: a pure function of the live runs. Torch-free."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.access.quotas import Limits


class Share(NamedTuple):
    """The slots that the runs of one person hold."""

    runs: int = 0
    cores: int = 0
    gpus: int = 0


NOTHING = Share()


def shares(held: Iterable[tuple[str, int, int]]) -> dict[str, Share]:
    """Return the usage by person; `held` gives owner, cores and GPUs of each live run."""
    found: dict[str, Share] = {}
    for owner, cores, gpus in held:
        before = found.get(owner, NOTHING)
        found[owner] = Share(before.runs + 1, before.cores + cores, before.gpus + gpus)
    return found


def left(share: Share, mine: Limits) -> tuple[int | None, int | None]:
    """Return the remaining quota of cores and GPUs, None without a limit."""
    cores = None if mine.max_cores_per_person is None else mine.max_cores_per_person - share.cores
    gpus = None if mine.max_gpus_per_person is None else mine.max_gpus_per_person - share.gpus
    return cores, gpus


def is_full(share: Share, mine: Limits) -> bool:
    """Return whether a person has reached the limit of running runs."""
    return mine.max_running_per_person is not None and share.runs >= mine.max_running_per_person


def keeps_back(owner: str, cores: int, gpus: int, held: Mapping[str, Share], limits: Limits) -> str:
    """Return the limit that blocks a run of `owner` with these cores and GPUs, as a sentence without full stop; empty
    if none does.
    """
    share, mine = held.get(owner, NOTHING), limits.of(owner)
    if is_full(share, mine):
        whose = "per person" if mine == limits else f"for {owner}"
        running = _counted(share.runs, "running run")
        return f"waits: {owner} has {running}, and the limit {whose} is {mine.max_running_per_person}"
    for kind, asks, holds, most in (
        ("core", cores, share.cores, mine.max_cores_per_person),
        ("GPU", gpus, share.gpus, mine.max_gpus_per_person),
    ):
        if most is None or asks == 0 or holds + asks <= most:
            continue
        if asks > most:
            return f"waits: needs {_counted(asks, kind)}, but {owner}'s limit is {most}; an admin can raise it"
        needed = "" if holds >= most else f", and this run needs {asks}"
        return f"waits: {owner} uses {holds} of {_counted(most, kind)}{needed}"
    return ""


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
