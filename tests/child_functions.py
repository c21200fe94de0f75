"""What processes do that tests start anew; without torch, so that they start soon."""

import gc
import json
import os
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from engine.runtime.rank.fork_server import has_loaded
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
    """Send, as JSON, which of the slow modules this process was forked with, and whether it collects garbage."""
    names = ("torch", "engine.experiments.hogwild.method", "torch._dynamo")
    found = {name: name in sys.modules for name in names}
    channel.send(json.dumps(found | {"complete": has_loaded(), "collects garbage": gc.isenabled()}))


def stuck_at_a_barrier(memory: TraceMemory) -> None:
    """Trace a wait and a barrier in it that never end."""
    writer = TraceWriter(memory.memory)
    writer.log_step(3)
    with writer.phase("wait", "activations", peer=1, number=9), writer.operation("barrier", "trained", peer=EVERYBODY):
        time.sleep(PATIENCE_S)
