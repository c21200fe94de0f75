"""What the data-parallel methods share: the net with its flat weights, the partition of the data, the step log, the
server of weights and both sides of its loop, the injected faults. The algorithms are in each experiment's `method.py`.
"""
