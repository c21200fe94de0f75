"""Execution time of an RPC pipeline against its splits: as the numbers were read, and as they were really run."""

from engine.published.figure import EXECUTION, WHOLE, Figure, PublishedSeries, Version
from engine.published.rules import Ahead, Near, OrderRule, Plausible, Rule

_TIMES_S = (16.45, 12.33, 10.16, 9.08)
_READ = dict(zip((1.0, 2.0, 4.0, 8.0), _TIMES_S, strict=True))
_RUN = dict(zip((120.0, 60.0, 30.0, 15.0), _TIMES_S, strict=True))
_SHARE = 0.2
"""Times count as equal within a fifth: machines of one kind differ by so much."""
_SOURCE = (
    "A public discussion of the tutorial's example (pytorch/examples#749): 16.45, 12.33, 10.16 and 9.08 s for 3 "
    "batches of 120 images on two GPUs."
)
_WORKED = Plausible(EXECUTION, "Three batches of 120 images take at least 0.02 s", 0.02)
_SMALL = {"model": "small_resnet", "image_size": 64, "mode": "rpc"}
_LESS = (
    "A small ResNet on images of 64 pixels instead of a ResNet-50 on 128.",
    "Judged is execution alone: of so little work start-up would be the larger part.",
)


def _read_shapes(number: str) -> tuple[Rule, ...]:
    return (
        _WORKED,
        OrderRule(
            number, _READ, "Times are in the published order, each at least 5 % apart, over 1, 2, 4 and 8 splits"
        ),
        Ahead(number, "", "", "below", "8 splits take at least 5 % less time than 1", 8, 1),
    )


def _run_shapes(number: str) -> tuple[Rule, ...]:
    return (
        _WORKED,
        OrderRule(
            number, _RUN, "Times are in the published order, each at least 5 % apart, over 120, 60, 30 and 15 splits"
        ),
        Ahead(number, "", "", "below", "15 splits take at least 5 % less time than 120", 15, 120),
    )


AS_READ = Figure(
    name="pipeline_as_read",
    title="Pipeline: time against splits, as it was read",
    claim="More splits are faster: 1, 2, 4 and 8 of them take ever less time.",
    source=_SOURCE,
    experiment="pipeline",
    axis="splits",
    number=WHOLE,
    published=(PublishedSeries("published, as read", _READ),),
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
    note="The source's code took its splits for a size: what it calls 1 split were 120 micro-batches of 1 image. "
    "Here splits are a number, so this sweep is "
    "the experiment that the source believed it had made.",
)

AS_RUN = Figure(
    name="pipeline_as_run",
    title="Pipeline: time against splits, as it was run",
    claim="Fewer, larger micro-batches are faster: 120, 60, 30 and 15 of 1, 2, 4 and 8 images take ever less time.",
    source=_SOURCE,
    experiment="pipeline",
    axis="splits",
    number=WHOLE,
    published=(PublishedSeries("published, at its true splits", _RUN),),
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
        "The same four times at the splits that the source's code really made; the point without a pipeline was "
        "never measured there."
    ),
)
