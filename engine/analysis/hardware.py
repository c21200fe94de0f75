"""Whether the timings of runs are comparable: same hardware, and one core or GPU per rank. Torch-free and pure."""

from collections.abc import Sequence

from engine.registry import server_roles
from engine.store import Surroundings


def unlike(runs: Sequence[Surroundings]) -> str:
    """Return the differences between the machines of some runs, in words; empty if they are the same. Runs without this
    information are ignored.
    """
    machines = list(dict.fromkeys((run.host, run.cpu, run.cores, run.gpus) for run in runs if run.cores))
    if len(machines) < 2:
        return ""
    return " and ".join(_machine(*machine) for machine in machines[:3]) + (
        f" and {len(machines) - 3} more" if len(machines) > 3 else ""
    )


def crowded(run: Surroundings) -> str:
    """Return why a run is oversubscribed, in words; empty if each rank had its own cores or GPU.

    Ranks on the CPU need as many cores as they have threads; a server needs one.
    """
    chips = [device for _, device in run.devices if device != "cpu"]
    if len(chips) > len(set(chips)):
        return f"{len(chips)} ranks share {len(set(chips))} {'GPU' if len(set(chips)) == 1 else 'GPUs'}"
    servers = server_roles()
    needed = sum(1 if role in servers else run.threads_per_rank for role, device in run.devices if device == "cpu")
    return (
        f"{needed} threads on {run.cores} {'core' if run.cores == 1 else 'cores'}"
        if run.cores and needed > run.cores
        else ""
    )


def gpus_used(run: Surroundings) -> int:
    """Return the number of GPUs used by the ranks of a run."""
    return len({device for _, device in run.devices if device.startswith("cuda")})


def _machine(host: str, cpu: str, cores: int, gpus: Sequence[str]) -> str:
    chips = f", {len(gpus)} × {gpus[0]}" if gpus else ""
    return f"{host or 'unnamed machine'} ({cores} cores of {cpu or 'unknown CPU'}{chips})"
