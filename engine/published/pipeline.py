"""Execution time of an RPC pipeline by splits: as the source interpreted the numbers, and as actually run."""

from engine.published.figure import EXECUTION, WHOLE, Figure, PublishedSeries, Version
from engine.published.order_rules import Ahead, OrderRule
from engine.published.rules import Rule
from engine.published.value_rules import Near, Plausible

_TIMES_S = (16.45, 12.33, 10.16, 9.08)
_READ = dict(zip((1.0, 2.0, 4.0, 8.0), _TIMES_S, strict=True))
_RUN = dict(zip((120.0, 60.0, 30.0, 15.0), _TIMES_S, strict=True))
_SHARE = 0.2
"""Relative tolerance of times: the spread between machines of one kind."""
_SOURCE = (
    "A public discussion of the tutorial's example (pytorch/examples#749): 16.45, 12.33, 10.16 and 9.08 s for 3 "
    "batches of 120 images on two GPUs."
)
_WORKED = Plausible(EXECUTION, "Three batches of 120 images take at least 0.02 s", 0.02)
_SMALL = {"model": "small_resnet", "image_size": 64, "mode": "rpc"}
_LESS = (
    "A small ResNet on 64-pixel images instead of a ResNet-50 on 128-pixel images.",
    "Only execution time is judged, because start-up would dominate such a small workload.",
)


def _read_shapes(number: str) -> tuple[Rule, ...]:
    return (
        _WORKED,
        OrderRule(number, _READ, "Times for 1, 2, 4 and 8 splits are in the published order, at least 5 % apart"),
        Ahead(number, "", "", "below", "8 splits need at least 5 % less time than 1", 8, 1),
    )


def _run_shapes(number: str) -> tuple[Rule, ...]:
    return (
        _WORKED,
        OrderRule(number, _RUN, "Times for 120, 60, 30 and 15 splits are in the published order, at least 5 % apart"),
        Ahead(number, "", "", "below", "15 splits need at least 5 % less time than 120", 15, 120),
    )


AS_READ = Figure(
    name="pipeline_as_read",
    title="Pipeline: time by splits, as the source interpreted it",
    claim="More splits are faster: the time decreases over 1, 2, 4 and 8 splits.",
    source=_SOURCE,
    experiment="pipeline",
    axis="splits",
    number=WHOLE,
    published=(PublishedSeries("published, as interpreted", _READ),),
    rules=(
        *(Near(WHOLE, x, value, value * _SHARE, "splits") for x, value in _READ.items()),
        *_read_shapes(WHOLE),
    ),
    versions={
        "full": Version("published", {"splits": (1, 2, 4, 8)}),
        "reduced": Version(
            "published",
            {"splits": (1, 2, 4, 8)},
            _SMALL,
            reduced=_LESS,
            values_count=False,
            rules=_read_shapes(EXECUTION),
        ),
    },
    timed=True,
    hardware="two GPUs",
    gpus=2,
    note="The source's code used the split count as a micro-batch size: 1 split was 120 micro-batches of 1 image. "
    "Here splits are a count, so this sweep is the experiment that the source meant to run.",
)

AS_RUN = Figure(
    name="pipeline_as_run",
    title="Pipeline: time by splits, as actually run",
    claim="Fewer, larger micro-batches are faster: the time decreases over 120, 60, 30 and 15 of 1, 2, 4 and 8 images.",
    source=_SOURCE,
    experiment="pipeline",
    axis="splits",
    number=WHOLE,
    published=(PublishedSeries("published, at the actual splits", _RUN),),
    rules=(
        *(Near(WHOLE, x, value, value * _SHARE, "splits") for x, value in _RUN.items()),
        *_run_shapes(WHOLE),
    ),
    versions={
        "full": Version("published", {"splits": (15, 30, 60, 120)}),
        "reduced": Version(
            "published",
            {"splits": (15, 30, 60, 120)},
            _SMALL,
            reduced=_LESS,
            values_count=False,
            rules=_run_shapes(EXECUTION),
        ),
    },
    timed=True,
    hardware="two GPUs",
    gpus=2,
    note=(
        "The same four times at the actual splits of the source's code; the source never measured a run without a "
        "pipeline."
    ),
)
