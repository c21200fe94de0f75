"""A new process that a rank starts for a while, as published code does; it dies with the rank."""

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
"""Seconds that a process has to exit after its last message."""


@contextmanager
def spawned(name: str, function: Callable[..., None], *given: Any) -> Iterator[Iterator[Any]]:
    """Call `function(send, *given)` in a process started by `spawn`; yield its messages as they arrive.

    Raises RunFailed if the process does not return normally; it never outlives the block or its rank.
    """
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_carry_out, args=(os.getpid(), torch.get_num_threads(), theirs, function, given), name=name
    )
    process.start()
    theirs.close()
    try:
        yield _messages(ours)
        process.join(LEAVE_S)
        if process.exitcode != 0:
            how = "did not end" if process.exitcode is None else describe_exit(process.exitcode)
            raise RunFailed(f"{name} {how} before its work was done; see its log.")
    finally:
        process.kill()
        ours.close()


def _messages(channel: Connection) -> Iterator[Any]:
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
