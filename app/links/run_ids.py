"""Numbers of runs as a person writes them: `12, 15-18`. Pure."""

import re

from engine.errors import ConfigError, Problem

_PIECE = re.compile(r"(\d{1,17})(?:\s*(?:-|\.\.)\s*(\d{1,17}))?")


def is_run_id(text: str) -> bool:
    """Say whether a text is a run's number, and nothing else."""
    return text.isascii() and text.isdecimal() and len(text) < 16


def read_run_ids(text: str, most: int) -> list[int]:
    """Return the numbers in a text, each once, in their order; raises ConfigError for what is none, and for more than
    `most`.
    """
    found: dict[int, None] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise ConfigError(
                [Problem("runs", f"Runs are written as numbers apart by commas, ranges as 15-18, got '{piece[:40]}'.")]
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ConfigError([Problem("runs", f"A range of runs counts up, such as {last}-{first}, got '{piece}'.")])
        if last - first >= most or len(found) + last - first >= most:
            raise ConfigError(
                [
                    Problem(
                        "runs",
                        f"At most {most} runs can be looked at together. Choose fewer than '{text.strip()[:40]}'.",
                    )
                ]
            )
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)
