"""What the console sends to browsers: scripts, styles, HTML from templates, and plotly.js."""

import os
from collections.abc import Callable
from hashlib import sha256
from html import escape
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engine.home import ROOT

# ------------------------------------------------------------------------------------------------------------------
# The console's scripts, styles and HTML fragments in app/static: folders for charts, those of a run, page parts and
# sign-in pages.

STATIC = ROOT / "app" / "static"


def static_text(*names: str) -> str:
    """Return files such as `plot/plot.js` joined into one text, in the order given."""
    return "\n".join((STATIC / name).read_text() for name in names)


# ------------------------------------------------------------------------------------------------------------------
# plotly.js with the traces that the console draws, at an address of its content, and our scripts that draw with it.

PLOTLY = STATIC / "vendor" / "plotly.min.js"
"""Built by deploy/plotly_bundle.py."""
PLOTLY_URL = f"/vendor/plotly-{sha256(PLOTLY.read_bytes()).hexdigest()[:12]}.min.js"
PLOT_SCRIPTS = (
    "plot/plotly.js",
    "plot/plot.js",
    "plot/units.js",
    "plot/view.js",
    "plot/enlarge.js",
    "plot/crosshair.js",
    "plot/end_labels.js",
    "plot/toolbar.js",
    "plot/save.js",
)
"""The scripts that draw any chart, on a page and in a report."""
CURVES_SCRIPTS = (
    *PLOT_SCRIPTS,
    "chart/table.js",
    "chart/band.js",
    "chart/axis.js",
    "chart/thin.js",
    "chart/zoom.js",
    "chart/smooth.js",
    "chart/curves.js",
    "chart/sections.js",
    "page/cleanup.js",
    "chart/chart.js",
)
"""A run's curves."""
FIGURE_SCRIPTS = (
    *PLOT_SCRIPTS,
    "chart/paint.js",
    "chart/stretch.js",
    "chart/table.js",
    "page/cleanup.js",
    "chart/figure.js",
)
"""A whole figure."""
PICTURE_SCRIPTS = (
    "plot/plotly.js",
    "plot/units.js",
    "plot/end_labels.js",
    "plot/save.js",
    "page/cleanup.js",
    "chart/pictures.js",
)
"""The form that saves pictures and data of charts."""


# ---- HTML from jinja2 templates in app/templates: values are escaped automatically unless they are Markup ----------

_templates = Environment(
    loader=FileSystemLoader(ROOT / "app" / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, /, **values: object) -> Markup:
    """Render a template such as `sign_in/signin.html`; raises UndefinedError for a missing value."""
    return Markup(_templates.get_template(template).render(values))


def macro(template: str, name: str) -> Callable[..., Markup]:
    """Return one macro of a template as a function, which takes a microsecond or two per call."""
    return cast(Callable[..., Markup], getattr(_templates.get_template(template).module, name))


def as_html(text: str) -> str:
    """Return Markup unchanged and any other text escaped: for pieces made so often that templates would be too slow."""
    return text if text.__class__ is Markup else escape(text)


# ---- The console's base path on its host ---------------------------------------------------------------------------
# none, or one (`/lab`) that a proxy forwards unchanged. Standard library only. `at` makes every address that is sent to
# a browser; `inside` reads the path of a request.

VARIABLE = "PARALLAB_BASE"


def base() -> str:
    """Return the base path without trailing slash; empty if the console has no base path."""
    given = os.environ.get(VARIABLE, "").strip("/")
    return f"/{given}" if given else ""


def at(path: str) -> str:
    """Return the address of a console path (`/run?run=5`) for a browser."""
    return f"{base()}{path}"


def inside(path: str) -> str:
    """Return a request's path without the base path; one outside the base path is returned unchanged."""
    under = base()
    if not under or not (path == under or path.startswith(f"{under}/")):
        return path
    return path.removeprefix(under) or "/"


def cookie_path() -> str:
    """Return the path attribute of our cookies, so that other programs on the host don't get them."""
    return base() or "/"
