"""All exhibits of the museum in one table, by system."""

from collections.abc import Sequence

from engine.errors import UnknownName
from engine.signs import async_sgd, batched_reinforce, dppo, hogwild, parameter_server, pipeline, sync_sgd
from engine.signs.sign import Sign

SIGNS: tuple[Sign, ...] = (
    *(parameter_server.SIGNS + async_sgd.SIGNS + sync_sgd.SIGNS + hogwild.SIGNS),
    *(batched_reinforce.SIGNS + dppo.SIGNS + pipeline.SIGNS),
)


def sign(name: str) -> Sign:
    """Return the sign of an exhibit; raises UnknownName, which suggests the closest name."""
    for found in SIGNS:
        if found.name == name:
            return found
    raise UnknownName("exhibit", name, [found.name for found in SIGNS], field="exhibit")


def systems() -> Sequence[str]:
    """Return the experiments that have exhibits, in the order of the signs."""
    return list(dict.fromkeys(found.system for found in SIGNS))
