"""A process that a rank starts anew for a while, as published code does, and that dies with it."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp

from engine.errors import RunFailed
from engine.system.processes import describe_exit, die_with_parent

LEAVE_S = 30.0
"""So long a process may take to exit once it has said all."""


@contextmanager
def spawned(name: str, function: Callable[..., None], *given: Any) -> Iterator[Iterator[Any]]:
    """Call `function(send, *given)` in a process started by `spawn`; yield what it sends, as it comes.

    Raises RunFailed where the process ends otherwise than by returning; it never outlives the block, nor its rank.
    """
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_carry_out, args=(os.getpid(), torch.get_num_threads(), theirs, function, given), name=name
    )
    process.start()
    theirs.close()
    try:
        yield _said(ours)
        process.join(LEAVE_S)
        if process.exitcode != 0:
            how = "did not end" if process.exitcode is None else describe_exit(process.exitcode)
            raise RunFailed(f"{name} {how} before its work was done; its log says more.")
    finally:
        process.kill()
        ours.close()


def _said(channel: Connection) -> Iterator[Any]:
    while True:
        try:
            yield channel.recv()
        except EOFError:
            return


def _carry_out(
    parent_pid: int, threads: int, channel: Connection, function: Callable[..., None], given: tuple[Any, ...]
) -> None:
    die_with_parent(parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    function(channel.send, *given)
