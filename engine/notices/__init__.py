"""Notices: messages by webhook or e-mail about ended runs, sweeps and duels. Torch-free."""
