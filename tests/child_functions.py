"""What processes do that tests start anew; without torch, so that they start soon."""

import gc
import json
import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from engine.runtime.rank.fork_server import has_loaded


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
    names = ("torch", "engine.experiments.hogwild.method", "torch._dynamo", "torchvision")
    found = {name: name in sys.modules for name in names}
    channel.send(json.dumps(found | {"complete": has_loaded(), "collects garbage": gc.isenabled()}))
