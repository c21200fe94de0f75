"""Machine: slots and who holds them, the last hour, the runner with its log, room on disks, what is left over."""

import streamlit as st

from app.core.machine_token import machine_token
from app.launch import quota_summary
from app.machine import leftovers, panels
from app.run.log_tail import LAB_LOGS
from app.ui import components, widgets
from app.ui.store_access import reading
from engine.home import Home
from engine.system.machine import machine as this_machine
from engine.upkeep.leftovers import leftovers as found

EVERY_MS = 2_500

st.title("Machine", anchor=False)


@st.fragment
def page() -> None:
    """Show the machine, and again whenever there is another sample or a run has news."""
    with reading(lambda: components.pulse(-1, of_machine=True)) as reader:
        token, samples, here = machine_token(reader), reader.machine.samples(), this_machine()
        widgets.runner_banner(reader)
        st.header("Slots", anchor=False)
        panels.slots(reader, here, samples)
        st.header("Who holds what", anchor=False)
        quota_summary.everyone(reader)
        st.header("The last hour", anchor=False)
        panels.hours(samples, here)
        st.header("Runner", anchor=False)
        panels.runner(reader)
        st.header("Room", anchor=False)
        panels.room(Home.find())
    components.pulse(token, of_machine=True, every_ms=EVERY_MS)


page()
st.header("Log of the runner", anchor=False)
components.log_view(None, list(LAB_LOGS), active=True)
with reading() as reader:
    leftovers.section(found(Home.find(), reader))
