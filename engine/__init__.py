"""Distributed-training experiments, their runner and their store; independent of Streamlit."""

__version__ = "0.3.0"
