"""What a person holds of what they may, in words: before a launch, and of everyone on the Machine page."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from app.core.formatting import duration
from app.ui import current_user
from app.ui.html import as_text, table
from app.ui.store_access import reading
from engine.access.quotas import GB, Limits, limits
from engine.errors import ConfigError
from engine.home import Home
from engine.launch_options import Terms
from engine.store import Held, Reader
from engine.store.access.quotas import refusal
from engine.store.records import Demand


def allows(demands: Sequence[Demand], asked: Terms) -> bool:
    """Say what the person holds of what they may, and return whether so many runs more may be launched; the store
    decides when it comes to that.
    """
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
    if said := in_words(mine, held):
        st.caption(as_text(said))
    if refused := refusal(mine, who or "Someone", held, demands, asked.max_run_time_s):
        st.error(as_text(refused))
    return not refused


def in_words(mine: Limits, held: Held) -> str:
    """Return what somebody holds, as it is told to them, and what a run of theirs gets; empty where nothing
    is limited.
    """
    parts = [
        _of(held.queued, mine.max_queued_per_person, "queued runs"),
        _of(held.running, mine.max_running_per_person, "runs on at a time"),
        _of(held.cores, mine.max_cores_per_person, "cores"),
        _of(held.gpus, mine.max_gpus_per_person, "GPUs"),
        "" if mine.max_disk_gb is None else f"{held.disk_bytes / GB:,.3g} of {mine.max_disk_gb:,g} GB of disk",
    ]
    told = ", ".join(filter(None, parts))
    longest = "" if mine.max_run_time_s is None else f"A run may be on for {duration(mine.max_run_time_s)} at most."
    return " ".join(filter(None, [f"You hold {told}." if told else "", longest]))


def everyone(reader: Reader) -> None:
    """Show what each person holds, of what they may."""
    try:
        found = limits(Home.find())
    except ConfigError as error:
        st.warning(as_text(str(error)))
        return
    held = reader.quotas.all_held()
    if not held:
        st.write("Nobody holds anything yet.")
    else:
        rows = [_row(each, found.of(each.person)) for each in held]
        st.html(
            table(
                ["Person", "Runs on", "Queued", "Cores", "GPUs", "Longest run", "Disk"],
                rows,
                caption="What each person holds",
            )
        )
    if not found.any:
        st.caption("Nothing is limited. An admin can limit it: python -m engine limits set --queued 50 --cores 8")


def _row(held: Held, mine: Limits) -> list[str]:
    disk = f"{held.disk_bytes / GB:,.3g}" + ("" if mine.max_disk_gb is None else f" of {mine.max_disk_gb:,g}")
    return [
        escape(held.person),
        _cell(held.running, mine.max_running_per_person),
        _cell(held.queued, mine.max_queued_per_person),
        _cell(held.cores, mine.max_cores_per_person),
        _cell(held.gpus, mine.max_gpus_per_person),
        "any" if mine.max_run_time_s is None else escape(duration(mine.max_run_time_s)),
        f"{disk} GB",
    ]


def _cell(held: int, most: int | None) -> str:
    return f"{held:,}" if most is None else f"{held:,} of {most:,}"


def _of(held: int, most: int | None, words: str) -> str:
    return "" if most is None else f"{held:,} of {most:,} {words}"
