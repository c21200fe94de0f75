"""The console's scripts, styles and HTML fragments in app/static: folders for charts, those of a run, page parts and
sign-in pages.
"""

from engine.home import ROOT

STATIC = ROOT / "app" / "static"


def static_text(*names: str) -> str:
    """Return files such as `plot/plot.js` joined into one text, in the order given."""
    return "\n".join((STATIC / name).read_text() for name in names)
