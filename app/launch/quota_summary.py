"""The usage of quotas in words: of one person before a launch, of everyone on the Machine page."""

from collections.abc import Sequence

import streamlit as st

from app.core.formatting import duration, size
from app.ui import current_user
from app.ui.html import as_text, table
from app.ui.store_access import reading
from engine.access.quotas import GB, Limits, limits
from engine.errors import ConfigError
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.store import Held, Reader
from engine.store.access.quotas import refusal
from engine.store.records import Demand


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
    held = reader.quotas.all_held()
    if not held:
        st.write("No usage yet.")
    else:
        rows = [_row(each, found.of(each.person)) for each in held]
        st.html(
            table(
                ["Person", "Running", "Queued", "Cores", "GPUs", "Time limit", "Disk"],
                rows,
                caption="Usage by person",
            )
        )
    if not found.any:
        st.caption("No quotas set. An admin can set them: python -m engine limits set --queued 50 --cores 8")


def _row(held: Held, mine: Limits) -> list[str]:
    return [
        held.person,
        _cell(held.running, mine.max_running_per_person),
        _cell(held.queued, mine.max_queued_per_person),
        _cell(held.cores, mine.max_cores_per_person),
        _cell(held.gpus, mine.max_gpus_per_person),
        "none" if mine.max_run_time_s is None else duration(mine.max_run_time_s),
        _disk(held, mine),
    ]


def _disk(held: Held, mine: Limits) -> str:
    most = mine.max_disk_gb
    return size(held.disk_bytes) if most is None else f"{size(held.disk_bytes)} of {size(int(most * GB))}"


def _cell(held: int, most: int | None) -> str:
    return f"{held:,}" if most is None else f"{held:,} of {most:,}"


def _of(held: int, most: int | None, words: str) -> str:
    return "" if most is None else f"{held:,} of {most:,} {words}"
