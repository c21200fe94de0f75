"""How a run of the museum tells in its events what came of each exhibit. Torch-free."""

from collections.abc import Iterable

from engine.signs.sign import Sign
from engine.store.records import Event

HELD, BROKEN, UNSEEN, ERROR = "invariant held", "invariant broken", "fault not seen", "error raised"
"""Kinds of event: of the right way, of the wrong way, of a wrong way whose fault did not show this time, and what the
wrong way ended with.
"""


def told(sign: Sign, sentence: str) -> str:
    """Return an event's detail."""
    return f"{sign.name}: {sentence}"


def heard(events: Iterable[Event], sign: Sign) -> dict[str, str]:
    """Return what a run's events say of an exhibit, by kind."""
    of_it = f"{sign.name}: "
    return {event.kind: event.detail.removeprefix(of_it) for event in events if event.detail.startswith(of_it)}
