"""The start of a rank that enters its run's namespaces and sees its GPUs before its call is unpickled. Torch-free and
light.
"""

import os
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from engine.system.network_isolation import join


class PickledCall:
    """A call that is unpickled only when made, so that a process can prepare before the call's imports and tensors."""

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


def call_inside(pid: int | None, visible_gpus: str, call: Callable[[], None]) -> None:
    """Join the namespaces of process `pid`, if any, show this process its GPUs alone, then make the call.

    If joining fails, the rank must not listen. Unpickling a GPU tensor initializes CUDA, which reads
    CUDA_VISIBLE_DEVICES only once.
    """
    try:
        if pid is not None:
            join(pid)
    except OSError as error:
        print(f"Could not join the network namespace of process {pid}: {error}", file=sys.stderr)
    os.environ["CUDA_VISIBLE_DEVICES"] = visible_gpus
    call()
