"""Where a run, or each run of a sweep or duel, is to run: on this machine or a cluster, and on how many nodes."""

from dataclasses import replace

import streamlit as st

from app.ui.html import as_text
from app.ui.store_access import message_of, reading
from engine.cluster.targets import Cluster, clusters
from engine.errors import ConfigError
from engine.home import Home
from engine.launch_options import LaunchOptions

HERE = "This machine"
TARGET, NODES = "launch.target", "launch.nodes"
"""Keys of the controls, which the launch form and the duel form share."""
_GONE = "launch.target.gone"
"""A chosen cluster that the lab does not have, until another choice."""


def run_on(terms: LaunchOptions) -> LaunchOptions:
    """Show where to run if the lab has clusters, or why they can't be used; return the options with the choice."""
    try:
        offered = clusters(Home.find())
    except ConfigError as error:
        st.error(as_text(f"Runs can start on this machine only. {message_of(error)}"))
        return terms
    chosen = st.session_state.get(TARGET) or ""
    if chosen and chosen not in offered:
        st.session_state[_GONE], st.session_state[TARGET] = chosen, ""
    if gone := st.session_state.get(_GONE):
        st.warning(as_text(f"Cluster {gone} is not in this lab's clusters.toml: choose where to run."))
    if not offered:
        return terms
    st.session_state.setdefault(TARGET, "")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.segmented_control(
            "Run on",
            ["", *offered],
            format_func=lambda name: name or HERE,
            key=TARGET,
            required=True,
            wrap=True,
            help="A cluster runs it as a job of Slurm, which decides when it starts.",
            on_change=lambda: st.session_state.pop(_GONE, None),
            persist_state="session",
        )
        nodes = _nodes(offered[target]) if target else 1
    return replace(terms, target=target or "", nodes=nodes)


def _nodes(cluster: Cluster) -> int:
    if cluster.nodes == 1:
        return 1
    st.session_state[NODES] = min(st.session_state.get(NODES, 1), cluster.nodes)
    return int(
        st.number_input(
            "Nodes",
            min_value=1,
            max_value=cluster.nodes,
            step=1,
            key=NODES,
            width=120,
            help="Number of nodes that the ranks of a run are spread over.",
            persist_state="session",
        )
    )


def start_on_cluster(terms: LaunchOptions, runs: int = 1) -> None:
    """Say when runs for a cluster start, in place of an estimate."""
    with reading() as reader:
        there = sum(job.cluster == terms.target for job in reader.cluster_jobs.all())
    jobs = f"{there:,} jobs of this lab wait or run" if there > 1 else f"{there or 'no'} job of this lab waits or runs"
    st.caption(as_text(f"Slurm decides when {'it starts' if runs == 1 else 'they start'}; {jobs} there now."))
