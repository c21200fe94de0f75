"""Small curves without axes, drawn by the server, as HTML. Images, since Streamlit removes SVG from HTML."""

from collections.abc import Sequence
from urllib.parse import quote

from markupsafe import Markup

from app.core.templates import macro

_SHADE = "#1b86ab"
"""The colour of progress bars, which is visible in both themes."""
_HEIGHT, _EDGE = 32, 3
_SPARKLINE, _CURVE, _LIVE_ENTRY = (macro("ui/pieces.html", name) for name in ("sparkline", "curve", "live_entry"))


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return finite values at equal distances as a curve that fills its box; below two values the box is empty."""
    return _SPARKLINE(_source(values) if len(values) > 1 else "", label)


def live_entry(head: str, facts: str, curve: str, beside: str, progress: str) -> Markup:
    """Return a list entry: a heading above facts, a curve above its value, and a progress bar below."""
    return _LIVE_ENTRY(head, facts, curve, beside, progress)


def _source(values: Sequence[float]) -> str:
    """Return the curve, with the area below it shaded, as the address of an SVG."""
    low, high = min(values), max(values)
    reach = _HEIGHT - 2 * _EDGE
    ys = [_HEIGHT - _EDGE - reach * ((value - low) / (high - low) if high > low else 0.5) for value in values]
    line = " ".join(f"{100 * place / (len(ys) - 1):.4g},{y:.4g}" for place, y in enumerate(ys))
    return "data:image/svg+xml," + quote(_CURVE(line, _HEIGHT, _SHADE))
