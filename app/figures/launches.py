"""The launch buttons of a published figure, one for each size, with an estimate."""

from typing import Literal

import streamlit as st

from app.actions import submit
from app.actions.sweep_forecast import in_a_line
from app.ui import permissions
from app.ui.html import as_text
from engine.errors import EngineError
from engine.published import Figure, Size
from engine.published.launch import order_of


def launch_button(found: Figure, size: Size, *, primary: bool = False, reductions: bool = True) -> None:
    """Show the button that launches a size, and its estimate; `reductions` adds how it differs from the source."""
    order = order_of(found, size)
    try:
        planned = order.plan()
        cost = in_a_line(found.experiment, planned, order.exclusive)
    except EngineError as error:
        st.caption(as_text(f"{size.capitalize()}: {error}"))
        return
    kind: Literal["primary", "secondary"] = "primary" if primary else "secondary"
    with st.container(gap="xsmall"):
        if st.button(
            f"Launch {size}: {len(planned.cells)} runs",
            key=f"launch-{found.key(size)}",
            type=kind,
            **permissions.control("launch sweep"),
        ):
            submit.order(order)
        st.caption(as_text(" ".join([cost, *(found.versions[size].reduced if reductions else ())])))
