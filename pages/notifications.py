"""Notifications: subscriptions to messages about ended runs, sweeps and duels."""

import streamlit as st

from app.notifications.subscriptions import notifications_page

st.title("Notifications", anchor=False)
notifications_page()
