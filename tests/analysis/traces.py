"""Traces of a pipeline: one made by hand, whose numbers can be checked on paper, and ones as a real run would leave
them.
"""

import random

from engine.pipelining import Action, Layout, Played, Schedule, orders, play
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
    chunks: int = 1,
) -> list[Span]:
    """Return a batch's spans as a run would: forward a third of each stage's work, copies before and after it, `slow`
    times as long a micro-batch.
    """
    draw, layout = random.Random(batch), Layout(len(shares), splits, chunks)
    thirds = {"forward": 1, "backward": 2, "input_gradient": 1, "weight_gradient": 1}
    lasts = {
        (stage, action): batch_ms
        * share
        * thirds[action.what]
        / 3
        * slow
        / (splits * chunks)
        * draw.uniform(1 - jitter, 1 + jitter)
        + copy_ms * len(_moves(layout, stage, action))
        for stage, (share, order) in enumerate(zip(shares, orders(schedule, layout), strict=True))
        for action in order
    }
    for stage, share in enumerate(shares):
        lasts[stage, UPDATE] = batch_ms * share / 40
    table = [[*order, UPDATE] for order in orders(schedule, layout)]
    played = play(table, layout, lambda stage, action: lasts[stage, action], transfer=copy_ms / 4)
    start_ms = batch * batch_ms * 1.5
    return [span for each in played for span in _parts(each, layout, copy_ms, start_ms, batch * splits)]


UPDATE = Action("update", 0)


def _moves(layout: Layout, stage: int, action: Action) -> list[tuple[str, int]]:
    """Return the copies round an action, with the other stage: one that goes back comes from the next part."""
    if action.what in ("update", "weight_gradient"):
        return []
    part, onward = layout.part(stage, action.chunk), 1 if action.what == "forward" else -1
    ends = (("receive", part - onward), ("send", part + onward))
    return [(name, layout.place(other)[0]) for name, other in ends if 0 <= other < layout.parts]


def _parts(each: Played, layout: Layout, copy_ms: float, start_ms: float, first: int) -> list[Span]:
    """Return the work of an action and the copies round it."""
    number, start, end = first + each.action.micro_batch, start_ms + each.start, start_ms + each.end
    own, spans = layout.part(each.stage, each.action.chunk), []
    for name, other in _moves(layout, each.stage, each.action):
        at = start if name == "receive" else end - copy_ms
        spans.append(Span(name, own, number, _ns(at), _ns(at + copy_ms), 3 * MB, f"stage{other + 1}"))
        start, end = (start + copy_ms, end) if name == "receive" else (start, end - copy_ms)
    return [*spans, Span(each.action.what, own, number, _ns(start), _ns(end))]


def _ns(ms: float) -> int:
    return START_NS + round(ms * 1e6)
