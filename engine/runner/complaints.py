"""Troubles that last: each is logged once until it changes."""

import logging

log = logging.getLogger(__name__)


class Complaints:
    """What was last said about each thing."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def about(self, thing: str, sentence: str) -> None:
        """Log a sentence about a thing, unless it was the last one."""
        if self._said.get(thing) != sentence:
            log.warning("%s", sentence)
        self._said[thing] = sentence

    def over(self, thing: str) -> None:
        """Note that a thing is well again."""
        self._said.pop(thing, None)
