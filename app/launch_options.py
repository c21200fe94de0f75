"""The fold of the launch form with what a launch allows its run: a time limit, and retries where it is lost."""

import streamlit as st

from engine.limits import LONGEST_S, MOST_RETRIES, Limits


def launch_options() -> Limits:
    """Show the fold and return what stands in it."""
    with st.expander("Advanced launch options"):
        longest = st.number_input(
            "Time limit (s)",
            min_value=1.0,
            max_value=LONGEST_S,
            value=None,
            step=60.0,
            format="%g",
            placeholder="none",
            key="launch.max_run_time_s",
            help="Seconds that the run may be on, its start-up included; then it is ended and cancelled, with what it has recorded kept. Empty: no limit.",
            persist_state="session",
        )
        retries = st.number_input(
            "Retries when lost",
            min_value=0,
            max_value=MOST_RETRIES,
            value=0,
            step=1,
            key="launch.max_retries",
            help="How often the run is queued anew by itself where it is lost: its worker was killed, or the machine went down. "
            "It goes on from its last checkpoint where it kept one.",
            persist_state="session",
        )
    return Limits(longest, int(retries))
