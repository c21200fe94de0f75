"""The one script that we serve from a package: plotly.js as its wheel ships it, at an address that names
its version.
"""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

PLOTLY = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
PLOTLY_URL = f"/vendor/plotly-{version('plotly')}.min.js"
