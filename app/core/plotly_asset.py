"""plotly.js with the traces that the console draws, at an address of its content, and our scripts that draw with it."""

from hashlib import sha256

from app.core.static_files import STATIC

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
