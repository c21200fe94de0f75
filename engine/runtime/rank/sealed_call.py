"""The start of a spawned rank: it enters its run's namespaces before it imports what its call needs. Torch-free and
light.
"""

import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from engine.system.network_isolation import join


class Sealed:
    """A call that is unpickled only when made, so that a spawned process can prepare before the call's imports."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _Packed, (bytes(ForkingPickler.dumps(self._call)),)


class _Packed:
    def __init__(self, call: bytes) -> None:
        self._call = call

    def __call__(self) -> None:
        function, arguments = ForkingPickler.loads(self._call)
        function(*arguments)


def call_inside(pid: int, call: Callable[[], None]) -> None:
    """Join the namespaces of process `pid`, then make the call; if joining fails, the rank must not listen."""
    try:
        join(pid)
    except OSError as error:
        print(f"Could not join the network namespace of process {pid}: {error}", file=sys.stderr)
    call()
