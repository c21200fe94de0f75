"""What the doctor says of one thing: its state, a sentence, and the cure where one is needed."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's answer; `fail` means that runs can't work here, `warn` that some won't or that they will
    be slow.
    """

    name: str
    state: State
    sentence: str
    cure: str = ""
