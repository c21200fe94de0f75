"""Duels: strategies compared on one budget, from the same first weights and seeds, each with a learning rate tuned
alike. Torch-free.
"""
