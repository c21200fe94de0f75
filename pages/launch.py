"""Launch: choose an experiment and a preset, change what should differ, see what it takes, start it."""

import streamlit as st

from app import choosing, forms, live
from app.asking import reading
from app.launching import carry_out_waiting
from app.launchpad import first_visit, launchpad
from app.membership import form_is_closed
from app.parts import runner_banner

carry_out_waiting()
with reading() as reader:
    is_first_visit = reader.count() == 0
    runner_banner(reader)

st.title("Launch", anchor=False)
if form_is_closed("launch"):
    st.stop()
experiment, preset = choosing.chosen()
choosing.complaints()
if is_first_visit:
    first_visit()
choosing.cards(experiment.name)

left, right = st.columns([2, 1], gap="large")
with left:
    st.header(f"{experiment.title}: settings", anchor=False)
    choosing.presets(experiment, preset)
    values = forms.values_of(experiment)
    config, problems = forms.check(experiment, values)
    forms.form(experiment, problems)
    choosing.keep(experiment, values)
with right:
    launchpad(experiment, preset, config, values, problems)
live.preload_plotly()
