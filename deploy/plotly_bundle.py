"""Build app/static/vendor/plotly.min.js: plotly.js with only the traces that the console draws, a quarter of the size
of the file in the plotly package.

Run `make plotly` after an upgrade of plotly or with a new kind of trace; needs npm. docs/decisions/plotly-bundle.md
says why.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from plotly.offline import get_plotlyjs_version

from app.core.assets import PLOTLY

TRACES = ("bar", "heatmap")
"""Beside scatter, which plotly.js always has."""
ESBUILD = "0.28.2"


def main() -> None:
    """Fetch plotly.js and esbuild from npm's registry and write the bundle."""
    version = get_plotlyjs_version()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "package.json").write_text("{}")
        _run(place, "npm", "install", "--silent", "--ignore-scripts", f"plotly.js@{version}", f"esbuild@{ESBUILD}")
        package = place / "node_modules/plotly.js"
        licence, terms = (
            json.loads((package / "package.json").read_text())["license"],
            (package / "LICENSE").read_text(),
        )
        traces = ", ".join(f"require('plotly.js/lib/{name}')" for name in TRACES)
        (place / "console.js").write_text(
            f"module.exports = require('plotly.js/lib/core');\nmodule.exports.register([{traces}]);\n"
        )
        _run(
            *(place, "node", "node_modules/esbuild/bin/esbuild", "console.js", "--bundle", "--minify"),
            *(
                "--format=iife",
                "--global-name=Plotly",
                "--define:global=window",
                "--target=es2020",
                "--legal-comments=eof",
            ),
            *("--loader:.css=empty", "--outfile=plotly.min.js"),
        )
        head = f"/* plotly.js v{version} ({', '.join(('scatter', *TRACES))}), {licence} licence, Plotly, Inc. */\n"
        PLOTLY.parent.mkdir(exist_ok=True)
        PLOTLY.write_text(f"{head}/*\n{terms}*/\n" + (place / "plotly.min.js").read_text())
    print(f"{PLOTLY}: {PLOTLY.stat().st_size:,} bytes")


def _run(place: Path, *command: str) -> None:
    subprocess.run(command, cwd=place, check=True)


if __name__ == "__main__":
    main()
