"""Notifications: where a person is told that their runs, sweeps and duels have ended."""

import streamlit as st

from app.notifications.channels import notifications_section

st.title("Notifications", anchor=False)
notifications_section(is_page=True)
