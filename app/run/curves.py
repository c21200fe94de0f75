"""A run's curves with their choices: what they are drawn against, and how much the noisy ones are smoothed."""

import streamlit as st

from app.ui import components
from engine.store import Reader
from engine.store.records import Run

AXES = {"step": "Step", "passes": "Passes", "time": "Time"}


def curves(run: Run, reader: Reader) -> None:
    """Show the run's curves; the choices stand in the address."""
    axes = [name for name in AXES if name != "passes" or reader.details.counts_passes(run.id)]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        x = st.segmented_control(
            "Curves against",
            axes,
            key="x",
            default="step",
            required=True,
            format_func=lambda name: AXES[name],
            bind="query-params",
        )
        help_text = (
            "Exponential moving average of noisy curves with many points; the raw line stays visible behind it. "
            "Sums and constants are never smoothed."
        )
        smoothing = st.slider(
            "Smoothing", 0.0, 0.98, 0.9, 0.02, key="smooth", bind="query-params", width=200, help=help_text
        )
    components.curves(run.id, active=run.active, x=x or "step", smoothing=smoothing)
