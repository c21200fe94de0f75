"""Write docs/openapi.json from the API: run `python -m app.api.document` after each change."""

import json

from app.api.service import api
from engine.home import ROOT

PAGE = ROOT / "docs" / "openapi.json"


def page() -> str:
    """Return the content of docs/openapi.json for this version."""
    return json.dumps(api().openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
