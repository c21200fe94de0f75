"""What each person holds of the machine against what they may: a pure function of who holds what. Torch-free."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.access.quotas import Limits


class Share(NamedTuple):
    """What the runs of one person hold."""

    runs: int = 0
    cores: int = 0
    gpus: int = 0


NOTHING = Share()


def shares(held: Iterable[tuple[str, int, int]]) -> dict[str, Share]:
    """Return what each person holds; `held` gives owner, cores and GPUs of each run that is on."""
    found: dict[str, Share] = {}
    for owner, cores, gpus in held:
        before = found.get(owner, NOTHING)
        found[owner] = Share(before.runs + 1, before.cores + cores, before.gpus + gpus)
    return found


def left(share: Share, mine: Limits) -> tuple[int | None, int | None]:
    """Return the cores and GPUs that a person may still take, None for any number."""
    cores = None if mine.max_cores_per_person is None else mine.max_cores_per_person - share.cores
    gpus = None if mine.max_gpus_per_person is None else mine.max_gpus_per_person - share.gpus
    return cores, gpus


def is_full(share: Share, mine: Limits) -> bool:
    """Say whether a person has as many runs on as they may."""
    return mine.max_running_per_person is not None and share.runs >= mine.max_running_per_person


def keeps_back(owner: str, cores: int, gpus: int, held: Mapping[str, Share], limits: Limits) -> str:
    """Return by which limit a run of theirs with so many cores and GPUs has to wait, as a sentence without its stop;
    empty where by none.
    """
    share, mine = held.get(owner, NOTHING), limits.of(owner)
    if is_full(share, mine):
        return (
            f"{owner} has {_counted(share.runs, 'run')} on, the most {'a person' if mine == limits else 'they'} "
            "may have"
        )
    for kind, asks, holds, most in (
        ("core", cores, share.cores, mine.max_cores_per_person),
        ("GPU", gpus, share.gpus, mine.max_gpus_per_person),
    ):
        if most is None or asks == 0 or holds + asks <= most:
            continue
        if asks > most:
            return f"waits: it asks for {_counted(asks, kind)}, and {owner} may hold {most}; an admin can change that"
        asked = "" if holds >= most else f", and this asks for {asks}"
        return f"waits: {owner} holds {holds} of {_counted(most, kind)}{asked}"
    return ""


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
