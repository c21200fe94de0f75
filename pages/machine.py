"""Machine: slots and who holds them, the last hour, the runner with its log, room on disks, what is left over."""

import streamlit as st

from app import leftovers, live, machine, parts, shares
from app.asking import reading
from app.machine_token import machine_token
from app.tail import LAB_LOGS
from engine.home import Home
from engine.runtime.machine import machine as this_machine
from engine.upkeep.leftovers import leftovers as found

EVERY_MS = 2_500

st.title("Machine", anchor=False)


@st.fragment
def page() -> None:
    """Show the machine, and again whenever there is another sample or a run has news."""
    with reading(lambda: live.pulse(-1, of_machine=True)) as reader:
        token, samples, here = machine_token(reader), reader.machine_samples(), this_machine()
        parts.runner_banner(reader)
        st.header("Slots", anchor=False)
        machine.slots(reader, here, samples)
        st.header("Who holds what", anchor=False)
        shares.everyone(reader)
        st.header("The last hour", anchor=False)
        machine.hours(samples, here)
        st.header("Runner", anchor=False)
        machine.runner(reader)
        st.header("Room", anchor=False)
        machine.room(Home.find())
    live.pulse(token, of_machine=True, every_ms=EVERY_MS)


page()
st.header("Log of the runner", anchor=False)
live.log_view(None, list(LAB_LOGS), active=True)
with reading() as reader:
    leftovers.section(found(Home.find(), reader))
