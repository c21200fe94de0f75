"""A browser's own words about itself, made short: which one it is, and on what system."""

import re

_NAMES = (
    ("Firefox/", "Firefox"),
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
"""What each browser says of itself, those first that also say what others do."""
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def in_words(agent: str) -> str:
    """Return a user agent as people would say it, such as 'Firefox on Linux'; what is none of those, its first word."""
    name = next((words for mark, words in _NAMES if mark in agent), "")
    system = next((words for mark, words in _SYSTEMS if mark in agent), "")
    if name or system:
        return " on ".join(filter(None, (name or "a browser", system)))
    return next(iter(re.findall(r"[\w.-]+", agent)), "unknown")[:40]
