"""Exercises of a class: predict, run, compare, hand in. Torch-free."""
