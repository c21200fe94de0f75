"""A list of schema steps, in the order of their definition. A function's name identifies its step in every store."""

import sqlite3
from collections.abc import Callable

TABLE = "_sqlite_migrations"
"""sqlite-utils' table of applied steps; a test compares the names."""
Step = Callable[[sqlite3.Connection], None]


class Steps:
    """The steps of a schema, which a store records under `name`; each is a function, registered as a decorator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_name: dict[str, Step] = {}

    def __call__(self) -> Callable[[Step], Step]:
        """Return a decorator that adds a step."""

        def add(step: Step) -> Step:
            name = step.__name__
            assert name not in self.by_name, f"two steps are named {name}"
            self.by_name[name] = step
            return step

        return add
