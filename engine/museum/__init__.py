"""The fault museum: each fault of the published code next to the corrected code, both runnable. Torch-free except for
the exhibits.

An exhibit is one module of `exhibits`: its docstring is its sign, `wrong` and `right` are the published and the
corrected code, and `measure(seed, version)` runs one of them.
"""
