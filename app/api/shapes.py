"""What all answers of the API share: strict JSON with a stated rule for numbers that are none, and times as texts."""

import re
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

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
    """Let the schema of a field that may be left out say what it is where it is there; null is nothing that a request
    can send.
    """
    kind = next(each for each in schema.pop("anyOf") if each.get("type") != "null")
    schema.pop("default", None)
    schema.update(kind)


class Shape(BaseModel):
    """An answer, or a part of one; made from a dataclass of the same names or by its fields."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", ser_json_inf_nan="strings")


def as_json_writes_it(value: Any, kind: object) -> Any:
    """Return a text of an address as it is; raises ValueError where it stands for a number or a flag and JSON would not
    write it so.

    Pydantic alone would take ' 4', '+4', '1_0' and 'yes' too.
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
    """What stands behind the question mark of a request; a name that nobody knows is refused, so that a slip is no
    silent answer to another question.
    """

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def written_as_json(cls, value: Any, info: ValidationInfo) -> Any:
        """Hold numbers and flags to how JSON writes them."""
        return as_json_writes_it(value, cls.model_fields[info.field_name or ""].annotation)


class Body(BaseModel):
    """What a request sends: JSON has kinds of its own, so that nothing is guessed from texts."""

    model_config = ConfigDict(extra="forbid", strict=True)
