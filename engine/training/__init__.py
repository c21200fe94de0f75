"""What the data-parallel methods share: the net with its flat weights, the parts of the data, the knobs. What differs
is in each method.
"""
