"""What processes do that tests start anew; without torch, so that they start soon."""

import gc
import json
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import psutil

from engine.runtime.rank.fork_server import has_loaded
from engine.system.processes import mark_of, variable_of
from engine.trace.layout import EVERYBODY
from engine.trace.ring import TraceMemory, TraceWriter
from tests.waiting import PATIENCE_S


def say_and_wait(send: Any, word: str) -> None:
    """Say a word and this process's id, then wait for ever."""
    send((word, os.getpid()))
    os.read(os.pipe()[0], 1)


def say_and_break(send: Any, *words: str) -> None:
    for word in words:
        send(word)
    os._exit(7)


def say_what_is_loaded(channel: Connection) -> None:
    """Send, as JSON, what this process of a fork server was forked with, and what the server has open."""
    slow = ("torch._dynamo", "torch.distributed.tensor", "torchvision", "sklearn")
    names = ("torch", "engine.experiments.hogwild.method", *slow)
    server, context = os.getppid(), get_context("forkserver")
    grandchild = context.Process(target=os.getpid)
    grandchild.start()
    grandchild.join()
    answer = {
        "loaded": {name: name in sys.modules for name in names},
        "complete": has_loaded(),
        "collects garbage": gc.isenabled(),
        "mark": mark_of(server),
        "tunables": variable_of(server, "GLIBC_TUNABLES"),
        "can start processes": grandchild.exitcode == 0,
        "open in the server": psutil.Process(server).num_fds(),
        "parent of the server": psutil.Process(server).ppid(),
    }
    channel.send(json.dumps(answer))


def stuck_at_a_barrier(memory: TraceMemory) -> None:
    """Trace a wait and a barrier in it that never end."""
    writer = TraceWriter(memory.memory)
    writer.log_step(3)
    with writer.phase("wait", "activations", peer=1, number=9), writer.operation("barrier", "trained", peer=EVERYBODY):
        time.sleep(PATIENCE_S)
