"""Bundles of runs: writing, row-by-row validation, and import."""
