"""What a run will take of this machine, said before it is launched: ranks, cores, GPUs, threads, and what that means
for its times.
"""

from engine.config import Config
from engine.store.records import Demand
from engine.system.machine import Machine


def taken(config: Config, demand: Demand, machine: Machine) -> list[tuple[str, str]]:
    """Return label and value of each thing that the run takes."""
    return [
        ("Ranks", ranks(config.roles)),
        ("CPU cores", f"{demand.cores} of {machine.cores}"),
        ("GPUs", f"{demand.gpus} of {len(machine.gpus)}" if machine.gpus else "none here"),
        ("Threads a rank", str(demand.threads_per_rank)),
        ("Computes on", device(demand, machine)),
    ]


def ranks(roles: tuple[str, ...]) -> str:
    """Return the number of ranks and their names, the middle of a long row left out."""
    shown = roles if len(roles) <= 5 else (*roles[:3], "…", roles[-1])
    return f"{len(roles)}: {', '.join(shown)}"


def device(demand: Demand, machine: Machine) -> str:
    """Return where the ranks compute."""
    if demand.gpus:
        return f"{demand.gpus} x {machine.gpus[0].name}"
    return f"CPU ({machine.cpu_model})"


def caveats(config: Config, demand: Demand, machine: Machine) -> list[str]:
    """Return what a person should know before comparing this run's times with others."""
    found = []
    wanted = demand.ranks * demand.threads_per_rank
    if wanted > machine.cores:
        found.append(
            f"{demand.ranks} ranks x {demand.threads_per_rank} "
            f"{'thread' if demand.threads_per_rank == 1 else 'threads'} share {machine.cores} cores: "
            "the result is the same, but its times say nothing about speed-up."
        )
    if config.device == "auto" and not machine.gpus:
        found.append("This machine shows no GPU, so all ranks run on the CPU.")
    if demand.gpus and demand.ranks > demand.gpus:
        found.append(
            f"{demand.ranks} ranks share {demand.gpus} GPU{'s' if demand.gpus > 1 else ''}: on one GPU the "
            "ideal speed-up is 1."
        )
    return found
