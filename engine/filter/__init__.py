"""The filter language: `experiment == "hogwild" and trainers >= 4 and test/accuracy.best > 98`, parsed into a tree that
the store evaluates.

Torch-free and without SQL: `engine/store/runs/filter_sql.py` translates the tree to SQL. Reference: docs/filter.md.
"""

from engine.filter.parser import read_field, read_filter, read_order
from engine.filter.tree import (
    OF,
    RUN_FIELDS,
    Both,
    Comparison,
    Field,
    Filter,
    Kind,
    Moment,
    Names,
    Negation,
    Node,
    One,
    Op,
    SortOrder,
    Value,
)

__all__ = [
    "OF",
    "RUN_FIELDS",
    "Both",
    "Comparison",
    "Field",
    "Filter",
    "Kind",
    "Moment",
    "Names",
    "Negation",
    "Node",
    "One",
    "Op",
    "SortOrder",
    "Value",
    "read_field",
    "read_filter",
    "read_order",
]
