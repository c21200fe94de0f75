"""Launch: choose an experiment and a preset, or paste a command; change settings, check the resources, launch."""

import streamlit as st

from app.actions.submit import form_is_closed
from app.launch import experiment_picker, own_command
from app.launch.launch_panel import LaunchForm, first_visit, launchpad
from app.links.launch import launch_query
from app.ui import components, config_form
from app.ui.store_access import reading
from app.ui.widgets import runner_banner

with reading() as reader:
    is_first_visit = reader.runs.count() == 0
    runner_banner(reader)

st.title("Launch", anchor=False)
if form_is_closed("launch"):
    st.stop()
experiment, preset = experiment_picker.chosen()
experiment_picker.complaints()
with st.container():
    if is_first_visit and experiment:
        first_visit()
    if experiment:
        experiment_picker.ready_sweeps()

catalogue, settings, launch = st.columns([6, 11, 8], gap="medium")
with catalogue:
    experiment_picker.experiment_list(experiment)
with settings:
    if experiment is None:
        form = own_command.form()
    else:
        experiment_picker.heading(experiment)
        values = config_form.values_of(experiment)
        experiment_picker.presets(experiment, preset, values)
        config, problems = config_form.check(experiment, values)
        config_form.form(experiment, problems, config)
        experiment_picker.keep(experiment, values)
        query = launch_query(experiment, preset, values)
        form = LaunchForm(experiment, config, values, problems, query, preset, cloned_from=experiment_picker.cloned())
with launch:
    if form:
        launchpad(form)
    else:
        own_command.empty()
components.preload_plotly()
