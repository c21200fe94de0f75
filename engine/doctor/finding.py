"""One finding of the doctor: state, description, and cure if needed."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One finding; `fail`: runs can't work here, `warn`: some runs fail or are slow."""

    name: str
    state: State
    sentence: str
    cure: str = ""
