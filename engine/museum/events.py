"""Events that report the result of each exhibit in a museum run. Torch-free."""

from collections.abc import Iterable

from engine.signs.sign import Sign
from engine.store.records import Event

HELD, BROKEN, UNSEEN, ERROR = "invariant held", "invariant broken", "fault not seen", "error raised"
"""Event kinds: right version holds, wrong version breaks, fault not seen this time, error of the wrong version."""


def told(sign: Sign, sentence: str) -> str:
    """Return an event's detail."""
    return f"{sign.name}: {sentence}"


def heard(events: Iterable[Event], sign: Sign) -> dict[str, str]:
    """Return a run's event details for an exhibit, by kind."""
    of_it = f"{sign.name}: "
    return {event.kind: event.detail.removeprefix(of_it) for event in events if event.detail.startswith(of_it)}
