"""Duels: compare strategies on one budget with the same initial weights and seeds, each with a learning rate tuned on
the same grid. Torch-free.
"""
