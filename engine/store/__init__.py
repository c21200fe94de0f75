"""The database of one lab: `Store` writes it, `Reader` reads it; all speak the records, and SQL stops at this door."""

from engine.store.reading import Reader
from engine.store.writing import Store

__all__ = ["Reader", "Store"]
