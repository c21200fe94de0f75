"""Traces of a pipeline: one made by hand, whose numbers can be checked on paper, and ones as a real run would leave
them.
"""

import random

from engine.pipelining import Played, Schedule, play
from engine.recorder import Span

START_NS = 7_000_000_000_000
MB = 1_000_000

HAND_MADE = """
forward  0 6  0 10 | send    0 6 10 12 stage2 | forward  0 7 12 22 | send    0 7 22 24 stage2
receive  1 6 12 13 stage1 | forward  1 6 13 28 | receive 1 7 28 29 stage1 | forward  1 7 29 44
backward 1 6 44 59 | send    1 6 59 60 stage1 | backward 1 7 60 75 | send    1 7 75 76 stage1
receive  0 6 60 61 stage2 | backward 0 6 61 71 | receive 0 7 76 77 stage2 | backward 0 7 77 87
update   1 6 76 79 | update  0 6 87 89
"""
"""Batch 3 of 2 splits by gpipe in 2 stages: name, stage, micro-batch, start and end in ms, and the other stage where
something is moved.
"""


def hand_made() -> list[Span]:
    """Return the spans of HAND_MADE, 2 MB a transfer, in an order of their own."""
    lines = [line.split() for line in HAND_MADE.replace("|", "\n").splitlines() if line.strip()]
    spans = [
        Span(name, int(stage), int(number), _ns(float(start)), _ns(float(end)), 2 * MB if peer else 0, *peer)
        for name, stage, number, start, end, *peer in lines
    ]
    random.Random(4).shuffle(spans)
    return spans


def made(
    schedule: Schedule,
    shares: tuple[float, ...],
    splits: int,
    *,
    batch: int = 0,
    batch_ms: float = 400.0,
    copy_ms: float = 0.8,
    jitter: float = 0.06,
    slow: float = 1.0,
) -> list[Span]:
    """Return a batch's spans as a run would: forward a third of each stage's work, copies before and after it, `slow`
    times as long a micro-batch.
    """
    draw, stages = random.Random(batch), len(shares)

    def took(part: float) -> list[list[float]]:
        moved = [copy_ms * ((stage > 0) + (stage < stages - 1)) for stage in range(stages)]
        return [
            [
                batch_ms * share * part * slow / splits * draw.uniform(1 - jitter, 1 + jitter) + moved[stage]
                for _ in range(splits)
            ]
            for stage, share in enumerate(shares)
        ]

    start_ms = batch * batch_ms * 1.5
    played = play(schedule, took(1 / 3), took(2 / 3), [batch_ms * share / 40 for share in shares], transfer=copy_ms / 4)
    return [span for each in played for span in _parts(each, stages, copy_ms, start_ms, batch * splits)]


def _parts(each: Played, stages: int, copy_ms: float, start_ms: float, first: int) -> list[Span]:
    """Return the work of an action and the copies round it; one that goes back comes from the next stage and goes to
    the one before.
    """
    number, start, end = first + each.micro_batch, start_ms + each.start, start_ms + each.end
    onward = 1 if each.what == "forward" else -1
    source, target = each.stage - onward, each.stage + onward
    spans = []
    if each.what != "update" and 0 <= source < stages:
        spans.append(
            Span("receive", each.stage, number, _ns(start), _ns(start + copy_ms), 3 * MB, f"stage{source + 1}")
        )
        start += copy_ms
    if each.what != "update" and 0 <= target < stages:
        spans.append(Span("send", each.stage, number, _ns(end - copy_ms), _ns(end), 3 * MB, f"stage{target + 1}"))
        end -= copy_ms
    return [*spans, Span(each.what, each.stage, number, _ns(start), _ns(end))]


def _ns(ms: float) -> int:
    return START_NS + round(ms * 1e6)
