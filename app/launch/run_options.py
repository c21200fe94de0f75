"""The fold of the launch form with what is asked for a run, or each run of a sweep, beside its config."""

import streamlit as st

from app.core.formatting import duration
from app.ui import current_user
from engine.launch_options import LONGEST_S, MOST_RETRIES, PRIORITIES, Terms

OVERSUBSCRIBE = (
    "It need not wait for cores: it starts on those that other runs hold, and is bound to none. It starts "
    "sooner, and its times, like those of the runs"
    " beside it, say nothing about speed. GPUs are never shared."
)

_PRIORITY = "launch.priority"


def launch_options(of_sweep: bool = False) -> Terms:
    """Show the fold, and below it what in it is not as usual; return what stands in it."""
    with st.expander("Priority, sharing and limits"):
        offered = PRIORITIES if current_user.may("prefer") else PRIORITIES[:-1]
        if st.session_state.get(_PRIORITY, offered[0]) not in offered:
            del st.session_state[_PRIORITY]
        if of_sweep:
            st.caption("Each run of the sweep gets all of these.")
        words = "Runs of a higher priority start first, whoever came first." + (
            "" if offered == PRIORITIES else " High is an admin's to give."
        )
        priority = st.segmented_control("Priority", offered, default="normal", key=_PRIORITY, required=True, help=words)
        shares = st.toggle("Share cores with other runs", key="launch.oversubscribe", help=OVERSUBSCRIBE)
        longest = st.number_input(
            "Time limit (s)",
            min_value=1.0,
            max_value=LONGEST_S,
            value=None,
            step=60.0,
            format="%g",
            placeholder="none",
            key="launch.max_run_time_s",
            help=(
                "Seconds that the run may be on, its start-up included; then it is ended and cancelled, with what "
                "it has recorded kept. Empty: no limit."
            ),
            persist_state="session",
        )
        retries = st.number_input(
            "Retries when lost",
            min_value=0,
            max_value=MOST_RETRIES,
            value=0,
            step=1,
            key="launch.max_retries",
            help="How often the run is queued anew by itself where it is lost: its worker was killed, or the "
            "machine went down. "
            "It goes on from its last checkpoint where it kept one.",
            persist_state="session",
        )
    found = Terms(priority, shares, longest, int(retries))
    if said := in_words(found):
        st.caption(f"Launched with {said}.")
    return found


def in_words(terms: Terms) -> str:
    """Return what is not as usual, in words; empty where all is."""
    retries = (
        f"{terms.max_retries} {'retry' if terms.max_retries == 1 else 'retries'} when lost" if terms.max_retries else ""
    )
    limit = f"a time limit of {duration(terms.max_run_time_s)}" if terms.max_run_time_s else ""
    said = [
        f"{terms.priority} priority" if terms.priority != "normal" else "",
        "shared cores" if terms.oversubscribe else "",
        limit,
        retries,
    ]
    return ", ".join(filter(None, said))
