"""The console's own scripts, styles and pieces of HTML, kept as files below app/static: one folder for charts, one for
what stands on pages, one for the pages round a sign-in.
"""

from engine.home import ROOT

STATIC = ROOT / "app" / "static"


def static_text(*names: str) -> str:
    """Return files such as `chart/plot.js` as one text, in the order given."""
    return "\n".join((STATIC / name).read_text() for name in names)
