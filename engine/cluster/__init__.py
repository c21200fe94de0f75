"""Clusters that runs can be sent to, and what their nodes have. Torch-free."""
