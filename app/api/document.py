"""docs/openapi.json, written from the API as it is: `python -m app.api.document` after each change of it."""

import json

from app.api.service import api
from engine.home import ROOT

PAGE = ROOT / "docs" / "openapi.json"


def page() -> str:
    """Return the text of docs/openapi.json for the API of this version."""
    return json.dumps(api().openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
