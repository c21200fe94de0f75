"""The trace of a run, written as its worker would."""

from engine.store import RankBatch, Store
from engine.trace.chunk import TraceChunk
from engine.trace.layout import TraceWindow
from tests.trace_entries import traced

NAMES = ("", "push", "request", "answer", "<b>backward</b>")
STEP_US, STEPS = 1_000, 400
ZERO_US = 1_000_000


def add_trace(store: Store, run_id: int, after_s: int = 0) -> None:
    """Add steps of a server (rank 0) and a trainer (rank 1), some seconds after all were ready: half of each step is
    computing, a third a push.
    """
    start_us = ZERO_US + after_s * 1_000_000
    server, trainer = [], []
    for number in range(STEPS):
        at = start_us + STEP_US * number
        trainer += [
            traced("compute", at, at + 500, name=4, number=number),
            traced("communicate", at + 500, at + 800, name=1, peer=0, number=number, bytes=4_000_000, version=number),
        ]
        server += [
            traced("serve", at + 600, at + 700, name=2, peer=1, number=number, lane=1),
            traced("send", at + 690, at + 690, name=3, peer=1, number=number, lane=1, depth=1, version=number),
        ]
    end_us = start_us + STEP_US * STEPS
    windows = [TraceWindow(start_us * 1_000, end_us * 1_000, "sample" if after_s else "start")]
    chunks = [TraceChunk.of(0, NAMES, server), TraceChunk.of(1, NAMES, trainer)]
    store.worker.write(run_id, [RankBatch(chunk.rank, trace=chunk) for chunk in chunks], windows=windows)
