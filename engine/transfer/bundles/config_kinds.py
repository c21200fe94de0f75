"""Type check of a run's settings against its experiment: pages compute with them, so text must not take a number's
place.

Values out of range, removed names and choices of other versions pass: an old run keeps its settings.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.errors import EngineError
from engine.registry import experiment


def odd_setting(name: str, config: Mapping[str, Any]) -> str | None:
    """Return a setting of the wrong type, None if all are valid or the experiment is unknown here."""
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
