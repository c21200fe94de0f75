"""The fault museum: each fault of the published code beside the right way, both of which really run. Torch-free but for
the exhibits themselves.

A sign says what an exhibit is; the module of its name in `exhibits` has `right(seed)` and `wrong(seed)`, which measure
the two, and `invariant(outcome)`, which our own code is held to and which the wrong way breaks.
"""

from collections.abc import Sequence

from engine.errors import UnknownName
from engine.museum.sign import Sign
from engine.museum.signs import async_sgd, batched_reinforce, dppo, hogwild, parameter_server, pipeline, sync_sgd

SIGNS: tuple[Sign, ...] = (
    *(parameter_server.SIGNS + async_sgd.SIGNS + sync_sgd.SIGNS + hogwild.SIGNS),
    *(batched_reinforce.SIGNS + dppo.SIGNS + pipeline.SIGNS),
)


def sign(name: str) -> Sign:
    """Return the sign of an exhibit; raises UnknownName with the nearest one."""
    for found in SIGNS:
        if found.name == name:
            return found
    raise UnknownName("exhibit", name, [found.name for found in SIGNS], field="exhibit")


def systems() -> Sequence[str]:
    """Return the experiments that have exhibits, in the order of the signs."""
    return list(dict.fromkeys(found.system for found in SIGNS))
