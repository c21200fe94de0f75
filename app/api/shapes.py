"""Base classes of all requests and responses: strict JSON, strings for non-finite numbers, times as text."""

import re
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

from engine.store.records import Status

MOST_ID = 2**53 - 1
"""The greatest id that every JSON reader keeps exact."""
NUMBERS_THAT_ARE_NONE = ("NaN", "Infinity", "-Infinity")

Number = Annotated[
    float,
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"type": "string", "enum": list(NUMBERS_THAT_ARE_NONE)}]}, mode="serialization"
    ),
]
"""A number as JSON; one that JSON has no digits for is one of three strings, which most languages read as a float."""
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time in UTC, ISO 8601 with milliseconds and a Z."""
Id = Annotated[int, Field(ge=1, le=MOST_ID)]
Count = Annotated[int, Field(ge=0)]


def left_out(schema: dict[str, Any]) -> None:
    """Remove null from the schema of an optional request field: clients omit the field instead."""
    kind = next(each for each in schema.pop("anyOf") if each.get("type") != "null")
    schema.pop("default", None)
    schema.update(kind)


class Shape(BaseModel):
    """A response or a part of one; built from a dataclass with the same field names, or by its fields."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", ser_json_inf_nan="strings")


def as_json_writes_it(value: Any, kind: object) -> Any:
    """Return the text of a URL parameter; raises ValueError for a number or flag that JSON would not write this way.

    Pydantic alone would accept ' 4', '+4', '1_0' and 'yes' too.
    """
    for each in (kind, *get_args(kind)):
        pattern, words = WRITTEN.get(each, ("", ""))
        if pattern and isinstance(value, str) and not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"should be {words}")
    return value


WRITTEN: dict[object, tuple[str, str]] = {
    int: (r"-?(0|[1-9]\d*)", "a whole number in digits"),
    float: (r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", "a finite number in digits"),
    bool: ("true|false", "true or false"),
}
DIGITS = BeforeValidator(lambda value: as_json_writes_it(value, int))


class Asked(BaseModel):
    """Query parameters of a request; unknown names are refused, so that a typo never returns the wrong data."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def written_as_json(cls, value: Any, info: ValidationInfo) -> Any:
        """Require numbers and flags in JSON's notation."""
        return as_json_writes_it(value, cls.model_fields[info.field_name or ""].annotation)


class Body(BaseModel):
    """A request body; JSON types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


# ---- Response schemas of curves and logs: columns of equal length --------------------------------------------------


class Curve(Shape):
    """Points of one metric of one rank in recording order; the lists have equal length."""

    metric: str
    rank: int | None = Field(description="Recording rank; null for a metric of the whole run.")
    role: str = Field(description="Role of the rank; empty for a metric of the whole run.")
    unit: str = Field(description="Unit; empty for a dimensionless number.")
    steps: list[int] = Field(description="Step, counted per rank.")
    times_s: list[Number] = Field(description="Seconds since all ranks were ready.")
    passes: list[Number | None] = Field(description="Passes over the training data by all ranks; null if unknown.")
    values: list[Number]
    shown: Count = Field(description="Number of points in this response.")
    total: Count = Field(
        description=("Number of stored points; greater than `shown` for a range or a down-sampled curve.")
    )


class Curves(Shape):
    """Curves of one run."""

    run_id: Id
    version: int = Field(description="Increases with every write to the run.")
    status: Status
    series: list[Curve]


class LogTail(Shape):
    """Part of a log; offsets are in bytes of the file."""

    source: str
    sources: list[str] = Field(description="All logs of the run.")
    text: str = Field(description="Complete lines if possible; invalid UTF-8 is replaced.")
    start: Count
    end: Count = Field(description="`offset` of the next request.")
    size: Count = Field(description="Current file size.")
