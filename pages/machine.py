"""Machine: slots and their allocation, the last hour, the runner and its log, storage, leftovers."""

import streamlit as st

from app.core.caches import machine_token
from app.launch import resource_summary
from app.links import addresses
from app.machine import leftovers, panels
from app.run.log_tail import LAB_LOGS
from app.ui import components, widgets
from app.ui.store_access import reading
from engine.home import Home
from engine.system.machine import machine as this_machine
from engine.system.runner_process import lost_runs
from engine.upkeep.leftovers import leftovers as found

EVERY_MS = 2_500

st.title("Machine", anchor=False)


@addresses.fragment
def page() -> None:
    """Show the machine; rerun at each new sample and each change of a run."""
    with reading(lambda: components.pulse(-1, of_machine=True)) as reader:
        token, samples, here = machine_token(reader), reader.machine.samples(), this_machine()
        widgets.runner_banner(reader)
        with st.container(key="machine-slots"):
            with st.container():
                st.header(
                    "Slots",
                    anchor=False,
                    help="The CPU cores and GPUs that runs share. A run starts when all slots that it needs are free.",
                )
                panels.slots(reader, here, samples)
            with st.container():
                st.header("Usage by person", anchor=False)
                resource_summary.everyone(reader)
        for run in lost_runs(Home.find(), reader):
            st.warning(
                f"Run {run.id} is {run.status}, but its worker is gone and no runner is running. It holds its slots "
                "until the next runner ends it."
            )
        st.header("Last hour", anchor=False)
        panels.hours(samples, here)
        with st.container(key="machine-runner"):
            with st.container():
                st.header("Runner", anchor=False)
                panels.runner(reader)
            with st.container():
                st.header("Storage", anchor=False)
                panels.room(reader, Home.find())
    components.pulse(token, of_machine=True, every_ms=EVERY_MS)


page()
st.header("Runner log", anchor=False)
components.log_view(None, list(LAB_LOGS), active=True)
with reading() as reader:
    leftovers.section(found(Home.find(), reader))
