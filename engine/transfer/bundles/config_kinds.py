"""Whether a run's settings are of the kinds that its experiment knows: pages count with them, so a text in a number's
place must not come in.

Values out of bounds, names that are gone and choices of another version pass: an old run keeps what it was run with.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.errors import EngineError
from engine.registry import experiment


def odd_setting(name: str, config: Mapping[str, Any]) -> str | None:
    """Return the setting that is not of its kind, None where all are or nobody here knows the experiment."""
    try:
        fields = experiment(name).config.model_fields
    except EngineError:
        return None
    return next(
        (field for field, value in config.items() if field in fields and not _fits(fields[field].annotation, value)),
        None,
    )


def _fits(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return isinstance(value, str) and all(
            each["type"] in ("literal_error", "none_required") for each in error.errors()
        )
    return True
