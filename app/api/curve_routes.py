"""Routes for curves of a run: down-sampled as in the console, or every point as a stream."""

import json
import math
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from starlette.responses import StreamingResponse

from app.api.errors import described
from app.api.run_routes import RunId
from app.api.run_shapes import Asked, Curve, Curves, left_out
from app.core.caches import NEVER_STORE
from app.links.compare import read_names
from app.run.live_series import live_metrics
from engine.home import Home
from engine.metrics import MetricSetting, as_set
from engine.store import Reader, Stretch
from engine.store.curve_records import Series
from engine.store.curves.series import Axis, PointRow, Recording
from engine.store.records import Run
from engine.system.run_files import note_reader
from engine.transfer.tables import COLUMNS

router = APIRouter()
AXES: dict[str, Axis] = {"step": "step", "time": "time_s", "passes": "passes"}
MOST_POINTS = 500_000
"""Maximum number of points in one response; the stream has no limit."""
MOST_METRICS = 50
PAGE = 20_000
CHUNK = 1 << 20
NDJSON, PARQUET = "application/x-ndjson", "application/vnd.apache.parquet"
Finite = Annotated[float, Field(allow_inf_nan=False)]
Metrics = Annotated[
    str,
    Field(
        max_length=8_000,
        description=(
            "Comma-separated names, such as train/loss,test/accuracy; a name with commas in double quotes. Default: "
            "every curve (series) or metric (points)."
        ),
    ),
]


class SeriesAsked(Asked):
    """Query parameters of the curves."""

    metrics: Metrics = ""
    max_points: int = Field(
        1_000, ge=5, le=10_000, description="Maximum number of points per curve; longer curves are down-sampled."
    )
    axis: Literal["step", "time", "passes"] = Field(
        "step", description="Axis of `from` and `to`: steps, seconds, or passes over the data."
    )
    from_: Finite | None = Field(
        None, json_schema_extra=left_out, alias="from", description="Start of the range, including the preceding point."
    )
    to: Finite | None = Field(
        None, json_schema_extra=left_out, description="End of the range, including the following point."
    )

    @property
    def stretch(self) -> Stretch | None:
        """Return the requested range, None for all."""
        if self.from_ is None and self.to is None:
            return None
        return Stretch(
            AXES[self.axis], -math.inf if self.from_ is None else self.from_, math.inf if self.to is None else self.to
        )


class PointsAsked(Asked):
    """Query parameters of the stream of points."""

    metrics: Metrics = ""
    format: Literal["ndjson", "parquet"] = Field("ndjson", description="One JSON object per line, or a Parquet file.")


@router.get(
    "/runs/{run_id}/series",
    summary="Read curves, down-sampled",
    responses={400: described("The request exceeds the limit of one response."), 404: described("Unknown run.")},
)
def series(run_id: RunId, asked: Annotated[SeriesAsked, Query()]) -> Curves:
    """Return curves of a run. A down-sampled curve keeps the first, last, minimum and maximum point of each bucket and
    states the total number of points.

    A metric that the run has not recorded is omitted; one that no run has and no experiment declares is refused with
    422. Requests for more than 500,000 points are refused with 400.
    """
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        run = _read(reader, run_id)
        recorded = reader.details.summaries(run_id)
        there = [summary.metric for summary in recorded]
        names = _names(reader, asked.metrics, there) or live_metrics(there)[:MOST_METRICS]
        many = sum(summary.metric in names for summary in recorded)
        if (
            many * asked.max_points > MOST_POINTS
            and sum(min(s.count + s.nonfinite, asked.max_points) for s in recorded if s.metric in names) > MOST_POINTS
        ):
            said = (
                f"{many} curves of up to {asked.max_points:,} points exceed the limit of one response "
                f"({MOST_POINTS:,} points)."
            )
            raise HTTPException(400, f"{said} Request fewer metrics or points, or use /runs/{run_id}/points for all.")
        curves = reader.curves.series(run_id, names, max_points=asked.max_points, within=asked.stretch)
        roles = {row.rank: row.role for row in reader.details.ranks(run_id)}
        settings = reader.recipes.metric_settings(run.script_key)
    found = [_curve(each, roles, as_set(each.metric, settings).unit) for each in curves]
    return Curves(run_id=run_id, version=run.version, status=run.status, series=found)


@router.get(
    "/runs/{run_id}/points",
    summary="Stream every point",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One line or row per point, ordered by metric and rank.",
            "content": {NDJSON: {}, PARQUET: {}},
        },
        400: described("The request exceeds the limit of metrics in one response."),
        404: described("Unknown run."),
    },
)
def points(run_id: RunId, asked: Annotated[PointsAsked, Query()]) -> StreamingResponse:
    """Return every stored point of a run: run_id, experiment, metric, rank, role, step, passes, time_s, value.

    A point of the whole run has no rank and an empty role. In JSON a non-finite value is "NaN", "Infinity" or
    "-Infinity". A metric that the run has not recorded has no points; one that no run has and no experiment declares is
    refused with 422.
    """
    home = Home.find()
    with Reader.open(home) as reader:
        run = _read(reader, run_id)
        settings = reader.recipes.metric_settings(run.script_key)
        there = [summary.metric for summary in reader.details.summaries(run_id)]
        recordings = reader.points.recordings(run_id, _names(reader, asked.metrics, there))
    rows = _pages(home, recordings)
    about = _About(run_id, run.experiment, settings)
    if asked.format == "parquet":
        headers = NEVER_STORE | {"content-disposition": f'attachment; filename="run-{run_id}-points.parquet"'}
        return StreamingResponse(_parquet(about, rows), media_type=PARQUET, headers=headers)
    return StreamingResponse(_lines(about, rows), media_type=NDJSON, headers=NEVER_STORE)


class _About(NamedTuple):
    run_id: int
    experiment: str
    settings: Mapping[str, MetricSetting]


def _read(reader: Reader, run_id: int) -> Run:
    """Return a run whose points are about to be read; while it is active, it passes them on sooner from now on. Raises
    NoSuchRun.
    """
    run = reader.runs.one(run_id)
    if run.active:
        note_reader(reader.db.home.run_folder(run_id))
    return run


def _names(reader: Reader, text: str, recorded: Collection[str]) -> list[str]:
    """Return the distinct metrics named in a request; raises a refusal for too many, and for an unknown one."""
    names = read_names(text, set(recorded))
    if len(names) > MOST_METRICS:
        raise HTTPException(
            400, f"metrics must name at most {MOST_METRICS} metrics; got {len(names)}. Split the request."
        )
    reader.fields.check_metrics(names, recorded)
    return names


def _curve(found: Series, roles: dict[int, str], unit: str) -> Curve:
    role = "" if found.rank is None else roles.get(found.rank, "")
    columns: dict[str, Any] = {
        "steps": found.steps,
        "times_s": found.times_s,
        "passes": found.passes,
        "values": found.values,
    }
    return Curve(
        metric=found.metric,
        rank=found.rank,
        role=role,
        unit=unit,
        **columns,
        shown=len(found.ids),
        total=found.total,
    )


def _pages(home: Home, recordings: list[Recording]) -> Iterator[tuple[Recording, list[PointRow]]]:
    """Yield the points of each recording in pages. Each page opens the store again, because the server may read a
    stream in any of its threads.
    """
    for recording in recordings:
        last = 0
        while True:
            with Reader.open(home) as reader:
                page = reader.points.page(recording.id, after=last, limit=PAGE)
            if page:
                yield recording, page
                last = page[-1].id
            if len(page) < PAGE:
                break


def _lines(about: _About, pages: Iterator[tuple[Recording, list[PointRow]]]) -> Iterator[bytes]:
    for recording, page in pages:
        head = {
            "run_id": about.run_id,
            "experiment": about.experiment,
            "metric": recording.metric,
            "unit": as_set(recording.metric, about.settings).unit,
            "rank": recording.rank,
            "role": recording.role,
        }
        said = json.dumps(head, ensure_ascii=False)[:-1]
        yield "".join(f"{said}, {_point(point)}}}\n" for point in page).encode()


def _point(point: PointRow) -> str:
    return (
        f'"step": {point.step}, "passes": {_number(point.passes)}, "time_s": {_number(point.time_s)}, "value": '
        f"{_number(point.value)}"
    )


def _number(value: float | None) -> str:
    if value is None:
        return "null"
    if math.isfinite(value):
        return repr(float(value))
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _parquet(about: _About, pages: Iterator[tuple[Recording, list[PointRow]]]) -> Iterator[bytes]:
    """Yield a Parquet file, one row group per page. The file is written to disk first, because its footer holds the
    offsets.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kinds = (
        pa.int64(),
        pa.string(),
        pa.string(),
        pa.string(),
        pa.int64(),
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.float64(),
        pa.float64(),
    )
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    with tempfile.TemporaryFile() as file:
        with parquet.ParquetWriter(file, schema) as writer:
            for recording, page in pages:
                many, unit = len(page), as_set(recording.metric, about.settings).unit
                head = (about.run_id, about.experiment, recording.metric, unit, recording.rank, recording.role)
                same = ([value] * many for value in head)
                own = ([getattr(point, name) for point in page] for name in ("step", "passes", "time_s", "value"))
                writer.write_table(pa.table(dict(zip(COLUMNS, (*same, *own), strict=True)), schema=schema))
        file.seek(0)
        while block := file.read(CHUNK):
            yield block
