"""The fault museum: each fault of the published code beside the right way, both of which really run. Torch-free but for
the exhibits themselves.

A sign says what an exhibit is; the module of its name in `exhibits` has `right(seed)` and `wrong(seed)`, which measure
the two, and `invariant(outcome)`, which our own code is held to and which the wrong way breaks.
"""
