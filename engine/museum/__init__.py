"""The fault museum: each fault of the published code next to the corrected code, both runnable. Torch-free except for
the exhibits.

A sign describes an exhibit. The module of the same name in `exhibits` has `right(seed)` and `wrong(seed)`, which
measure the two versions, and `invariant(outcome)`, which the engine's tests check and the wrong version breaks.
"""
