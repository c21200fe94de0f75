"""Bundles of runs: written, checked row by row, and taken in."""
