"""What a launch will use: ranks, cores, GPUs, threads, and the person's quota."""

from collections.abc import Sequence

import streamlit as st

from app.core.formatting import duration, size
from app.ui import current_user
from app.ui.html import as_text, table
from app.ui.store_access import reading
from engine.access.quotas import BOUNDS, GB, Limits, limits
from engine.config import Config
from engine.errors import ConfigError, counted
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.store import Held, Reader
from engine.store.access.quotas import refusal
from engine.store.records import Demand
from engine.system.machine import Machine

# ------------------------------------------------------------------------------------------------------------------
# The resources of a run before its launch: ranks, cores, GPUs and threads, and caveats about its timings.


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
            f"{counted(demand.ranks, 'rank')} × {counted(demand.threads_per_rank, 'thread')} share "
            f"{counted(machine.cores, 'core')}: "
            "results are unaffected, but timings are not valid for speed-up."
        )
    if config.device == "auto" and not machine.gpus:
        found.append("No GPU found: all ranks run on the CPU.")
    if demand.gpus and demand.ranks > demand.gpus:
        found.append(
            f"{counted(demand.ranks, 'rank')} share {counted(demand.gpus, 'GPU')}: on one GPU the ideal speed-up is 1."
        )
    return found


# ---- The usage of quotas in words: of one person before a launch, of everyone on the Machine page ------------------


def allows(demands: Sequence[Demand], asked: LaunchOptions) -> bool:
    """Show the person's quota and return whether it allows these runs; the store enforces it at the launch."""
    try:
        found = limits(Home.find())
    except ConfigError as error:
        st.error(as_text(str(error)))
        return False
    if not demands:
        return False
    who = current_user.name() or ""
    mine = found.of(who)
    with reading() as reader:
        no_listening = reader.quotas.why_no_listening() if any(each.listens for each in demands) else ""
        held = reader.quotas.held(who) if found.any else Held(who)
    if no_listening:
        st.error(as_text(no_listening))
        return False
    if text := in_words(mine, held):
        st.caption(as_text(text))
    if refused := refusal(mine, who or "Someone", held, demands, asked.max_run_time_s):
        st.error(as_text(refused))
    return not refused


def own(who: str, reader: Reader) -> None:
    """Show a person's quota and usage."""
    try:
        mine = limits(Home.find()).of(who)
    except ConfigError as error:
        st.warning(as_text(str(error)))
    else:
        st.write(as_text(in_words(mine, reader.quotas.held(who)) or "No quota limits your runs."))


def in_words(mine: Limits, held: Held) -> str:
    """Return a person's quota usage and the time limit of their runs, in words; empty without limits."""
    parts = [
        _of(held.queued, mine.max_queued_per_person, "queued runs"),
        _of(held.running, mine.max_running_per_person, "running"),
        _of(held.cores, mine.max_cores_per_person, "cores"),
        _of(held.gpus, mine.max_gpus_per_person, "GPUs"),
        "" if mine.max_disk_gb is None else f"{_disk(held, mine)} of disk",
    ]
    used = ", ".join(filter(None, parts))
    longest = "" if mine.max_run_time_s is None else f"Time limit per run: {duration(mine.max_run_time_s)}."
    return " ".join(filter(None, [f"Quota: {used}." if used else "", longest]))


def everyone(reader: Reader) -> None:
    """Show the quota usage of each person."""
    try:
        found = limits(Home.find())
    except ConfigError as error:
        st.warning(as_text(str(error)))
        return
    held = {each.person: each for each in reader.quotas.all_held()}
    people = [*found.people, *reader.runs.owners()]
    held |= {person: Held(person) for person in people if person not in held}
    if not held:
        st.write("No usage yet.")
    else:
        rows = [_row(each, found.of(each.person)) for _, each in sorted(held.items())]
        st.html(
            table(
                ["Person", *(BOUNDS[f"max_{each}"].title for each in SHOWN)],
                rows,
                caption="Usage by person",
            )
        )
        st.caption("Disk: folders, points and texts of a person's runs, as quotas count them.")
    if not found.any:
        st.caption("No quotas set. An admin can set them: python -m engine limits set --queued 50 --cores 8")


SHOWN = ("running_per_person", "queued_per_person", "cores_per_person", "gpus_per_person", "run_time_s", "disk_gb")


def _row(held: Held, mine: Limits) -> list[str]:
    return [
        held.person,
        _cell(held.running, mine.max_running_per_person),
        _cell(held.queued, mine.max_queued_per_person),
        _cell(held.cores, mine.max_cores_per_person),
        _cell(held.gpus, mine.max_gpus_per_person),
        "no limit" if mine.max_run_time_s is None else f"at most {duration(mine.max_run_time_s)}",
        _disk(held, mine),
    ]


def _disk(held: Held, mine: Limits) -> str:
    most = mine.max_disk_gb
    return size(held.disk_bytes) if most is None else f"{size(held.disk_bytes)} of {size(int(most * GB))}"


def _cell(held: int, most: int | None) -> str:
    return f"{held:,}" if most is None else f"{held:,} of {most:,}"


def _of(held: int, most: int | None, words: str) -> str:
    return "" if most is None else f"{held:,} of {most:,} {words}"
