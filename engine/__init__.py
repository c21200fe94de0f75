"""Distributed-training experiments, their runner and their store; independent of Streamlit."""

__version__ = "0.2.0"
