"""Response schemas of curves and logs: columns of equal length."""

from pydantic import Field

from app.api.shapes import Count, Id, Number, Shape
from engine.store.records import Status


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
