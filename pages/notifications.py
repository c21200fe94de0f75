"""Notifications: channels for messages about ended runs, sweeps and duels."""

import streamlit as st

from app.notifications.channels import notifications_section

st.title("Notifications", anchor=False)
notifications_section(is_page=True)
