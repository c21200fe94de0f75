"""Curves and logs as the API tells them: columns of equal length, and what was left out."""

from pydantic import Field

from app.api.shapes import Count, Id, Number, Shape
from engine.store.records import Status


class Curve(Shape):
    """Points of one metric of one rank, in the order recorded; the lists are of equal length."""

    metric: str
    rank: int | None = Field(description="The rank that recorded it; null for one of the whole run.")
    role: str = Field(description="The rank's role; empty for one of the whole run.")
    unit: str = Field(description="The metric's unit; empty for a plain number.")
    steps: list[int] = Field(description="The rank's own count of steps.")
    times_s: list[Number] = Field(description="Seconds since all ranks were ready.")
    passes: list[Number | None] = Field(description="Passes over the training data by all ranks; null where not known.")
    values: list[Number]
    shown: Count = Field(description="How many points this answer holds.")
    total: Count = Field(
        description=(
            "How many points the store holds; more than shown where a stretch was asked for, or the curve was "
            "down-sampled."
        )
    )


class Curves(Shape):
    """Curves of one run."""

    run_id: Id
    version: int = Field(description="Grows with every write to the run.")
    status: Status
    series: list[Curve]


class LogTail(Shape):
    """A piece of a log; offsets are in bytes of the file."""

    source: str
    sources: list[str] = Field(description="All logs that the run has.")
    text: str = Field(description="Whole lines, where there are any; what is no UTF-8 is replaced.")
    start: Count
    end: Count = Field(description="Give this as `offset` for what comes next.")
    size: Count = Field(description="The file's length at the moment.")
