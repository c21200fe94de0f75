"""The resources of a run before its launch: ranks, cores, GPUs and threads, and caveats about its timings."""

from engine.config import Config
from engine.store.records import Demand
from engine.system.machine import Machine


def resources(config: Config, demand: Demand, machine: Machine) -> list[tuple[str, str]]:
    """Return label and value of each resource of the run."""
    return [
        ("Ranks", ranks(config.roles)),
        ("CPU cores", f"{demand.cores} of {machine.cores}"),
        ("GPUs", f"{demand.gpus} of {len(machine.gpus)}" if machine.gpus else "none"),
        ("Threads per rank", str(demand.threads_per_rank)),
        ("Device", device(demand, machine)),
    ]


def ranks(roles: tuple[str, ...]) -> str:
    """Return the number of ranks and their names; a long list is shortened in the middle."""
    shown = roles if len(roles) <= 5 else (*roles[:3], "…", roles[-1])
    return f"{len(roles)}: {', '.join(shown)}"


def device(demand: Demand, machine: Machine) -> str:
    """Return the device of the ranks."""
    if demand.gpus:
        return f"{demand.gpus} × {machine.gpus[0].name}"
    return f"CPU ({machine.cpu_model})"


def caveats(config: Config, demand: Demand, machine: Machine) -> list[str]:
    """Return the caveats for comparing this run's timings with others."""
    found = []
    wanted = demand.ranks * demand.threads_per_rank
    if wanted > machine.cores:
        found.append(
            f"{demand.ranks} {'rank' if demand.ranks == 1 else 'ranks'} × {demand.threads_per_rank} "
            f"{'thread' if demand.threads_per_rank == 1 else 'threads'} share {machine.cores} cores: "
            "results are unaffected, but timings are not valid for speed-up."
        )
    if config.device == "auto" and not machine.gpus:
        found.append("No GPU found: all ranks run on the CPU.")
    if demand.gpus and demand.ranks > demand.gpus:
        found.append(
            f"{demand.ranks} ranks share {demand.gpus} GPU{'s' if demand.gpus > 1 else ''}: on one GPU the "
            "ideal speed-up is 1."
        )
    return found
