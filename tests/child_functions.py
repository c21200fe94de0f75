"""What processes do that tests start anew; without torch, so that they start soon."""

import os
from typing import Any


def say_and_wait(send: Any, word: str) -> None:
    """Say a word and this process's id, then wait for ever."""
    send((word, os.getpid()))
    os.read(os.pipe()[0], 1)


def say_and_break(send: Any, *words: str) -> None:
    for word in words:
        send(word)
    os._exit(7)
