"""plotly.js from the plotly package, at an address with its version, and our scripts that draw with it."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

PLOTLY = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
PLOTLY_URL = f"/vendor/plotly-{version('plotly')}.min.js"
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
