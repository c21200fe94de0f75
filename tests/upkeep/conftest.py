"""The store tests' fixtures, for what keeps a home in order."""

from tests.store.conftest import add, program, reader, running, store

__all__ = ["add", "program", "reader", "running", "store"]
