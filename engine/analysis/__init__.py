"""Numbers and sentences from recorded runs: pure functions, independent of store and pages. Torch-free."""
