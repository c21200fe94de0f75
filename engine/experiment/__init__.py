"""The definition of an experiment: its card, presets, roles, scaling and part in duels."""
