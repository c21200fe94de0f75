"""Run ids as text: `12, 15-18`. Pure."""

import re

from engine.errors import ConfigError, Problem

_PIECE = re.compile(r"(\d{1,17})(?:\s*(?:-|\.\.)\s*(\d{1,17}))?")


def is_run_id(text: str) -> bool:
    """Return whether a text is a run id."""
    return text.isascii() and text.isdecimal() and len(text) < 16


def read_run_ids(text: str, most: int) -> list[int]:
    """Return the unique ids in a text, in their order. Raises ConfigError for an invalid part, and for more than `most`
    ids.
    """
    found: dict[int, None] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise ConfigError(
                [Problem("runs", f"Runs must be comma-separated ids or ranges such as 15-18, got '{piece[:40]}'.")]
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ConfigError([Problem("runs", f"A range of runs must ascend, such as {last}-{first}, got '{piece}'.")])
        if last - first >= most or len(found) + last - first >= most:
            raise ConfigError(
                [
                    Problem(
                        "runs",
                        f"At most {most} runs can be selected, got '{text.strip()[:40]}'. Select fewer.",
                    )
                ]
            )
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)
