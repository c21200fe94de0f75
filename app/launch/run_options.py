"""The section of the launch form with the options of a run, or of each run of a sweep: priority, sharing, limits."""

from dataclasses import replace

import streamlit as st

from app.core.formatting import duration
from app.ui import current_user
from app.ui.run_state import place_in_words
from engine.launch_options import LONGEST_S, MOST_RETRIES, PRIORITIES, USUAL, LaunchOptions

OVERSUBSCRIBE = (
    "Starts without waiting for free cores, on cores that other runs hold, and is pinned to none; GPUs are never "
    "shared. Timings of all these runs are not valid for speed comparisons."
)
HUNG = (
    "Ends the run as failed, with the cause, when none of its ranks has continued for 10 s or for 20 of its steps, "
    "whichever is longer. Otherwise a hung run is only reported, on its page and as a notification."
)

_PRIORITY = "launch.priority"


def launch_options(of_sweep: bool = False, at: LaunchOptions = USUAL) -> LaunchOptions:
    """Show the section, and below it the options that differ from the defaults; return the options, with where to run
    as in `at`.
    """
    with st.expander("Priority, sharing and limits"):
        offered = PRIORITIES if current_user.may("prefer") else PRIORITIES[:-1]
        if st.session_state.get(_PRIORITY, offered[0]) not in offered:
            del st.session_state[_PRIORITY]
        if of_sweep:
            st.caption("Applies to each run of the sweep.")
        words = "Higher priority starts first, regardless of launch time." + (
            "" if offered == PRIORITIES else " Only admins can set high priority."
        )
        priority = st.segmented_control("Priority", offered, default="normal", key=_PRIORITY, required=True, help=words)
        shares = (
            False
            if at.target
            else st.toggle("Share cores with other runs", key="launch.oversubscribe", help=OVERSUBSCRIBE)
        )
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
                "Maximum run time, including start-up; then the run is cancelled and its recorded data kept. "
                "Empty: no limit."
            ),
            persist_state="session",
        )
        retries = st.number_input(
            "Retries if lost",
            min_value=0,
            max_value=MOST_RETRIES,
            value=0,
            step=1,
            key="launch.max_retries",
            help="How many times a lost run (worker killed or machine down) is requeued automatically. "
            "It resumes from its last checkpoint, if any.",
            persist_state="session",
        )
        ends = st.toggle("End if it hangs", key="launch.end_when_hung", help=HUNG)
    found = replace(
        at,
        priority=priority,
        oversubscribe=shares,
        max_run_time_s=longest,
        max_retries=int(retries),
        end_when_hung=ends,
    )
    if text := in_words(found):
        st.caption(f"Options: {text}.")
    return found


def in_words(terms: LaunchOptions) -> str:
    """Return the options that differ from the defaults, in words."""
    retries = (
        f"{terms.max_retries} {'retry' if terms.max_retries == 1 else 'retries'} if lost" if terms.max_retries else ""
    )
    limit = f"time limit {duration(terms.max_run_time_s)}" if terms.max_run_time_s else ""
    ends = "ended if it hangs" if terms.end_when_hung else ""
    texts = [
        f"on {place_in_words(terms)}" if terms.target else "",
        f"{terms.priority} priority" if terms.priority != "normal" else "",
        "shared cores" if terms.oversubscribe else "",
        limit,
        retries,
        ends,
    ]
    return ", ".join(filter(None, texts))
