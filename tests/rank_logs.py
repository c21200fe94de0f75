"""The logs that ranks leave."""

import re
from pathlib import Path

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO (?P<what>.+?), (?:step [\d,]+, )?[\d.]+ s(?:: .+)?")


def rounds_of(folder: Path) -> dict[str, list[str]]:
    """Return by rank what its log says has ended, such as `epoch 1 of 2`; the log has no other line, and ends with the
    run.
    """
    found = {}
    for path in (folder / "logs").glob("*.log"):
        lines = path.read_text().splitlines()
        matches = [LINE.fullmatch(line) for line in lines]
        assert all(matches), (path.name, [line for line, match in zip(lines, matches, strict=True) if not match])
        *rounds, end = [match["what"] for match in matches if match]
        assert end == "end", path.name
        found[path.stem] = rounds
    return found
