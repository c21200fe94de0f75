"""Distributed-training experiments, their runner and their store; knows nothing of Streamlit."""

__version__ = "0.2.0"
