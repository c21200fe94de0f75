"""The critical path of made traces whose path is known."""

from collections.abc import Sequence

from engine.trace.chunk import TraceChunk
from engine.trace.critical_path import critical_path
from engine.trace.entries import Entries
from engine.trace.layout import EVERYBODY
from engine.trace.timeline import RunTrace
from tests.trace_entries import traced

NAMES = ["", "average", "push", "request", "answer", "send", "receive", "activations", "put", "get", "full queue"]
AVERAGE, PUSH, REQUEST, ANSWER, SEND, RECEIVE, ACTIVATIONS, PUT, GET, FULL = range(1, 11)


def path(roles: str, *ranks: Sequence[Entries], until_us: float = 1_000) -> list[tuple[str, str, float, float]]:
    """Return the path through the ranks' operations, from its start: (role, kind, begin, end) in microseconds."""
    named = roles.split()
    trace = RunTrace.of([], [TraceChunk.of(rank, NAMES, entries) for rank, entries in enumerate(ranks)], named)
    parts = critical_path(trace, 0, round(until_us * 1e3))
    return [(named[part.rank], part.kind, part.begin_ns / 1e3, part.end_ns / 1e3) for part in reversed(parts)]


def test_through_an_average_it_goes_by_the_trainer_that_entered_last() -> None:
    def average(entered: float) -> list[Entries]:
        together = {"name": AVERAGE, "peer": EVERYBODY, "number": 1}
        return [traced("communicate", entered, 75), traced("collective", entered, 75, depth=1, **together)]

    fast = [traced("compute", 0, 30), *average(30), traced("update", 75, 80)]
    slow = [traced("compute", 0, 70), *average(70), traced("update", 75, 79)]
    assert path("trainer1 trainer2", fast, slow) == [
        ("trainer2", "compute", 0, 70),
        ("trainer1", "collective", 70, 75),
        ("trainer1", "update", 75, 80),
    ]


def test_through_a_server_it_goes_by_the_push_that_completed_the_batch() -> None:
    server = [
        traced("wait", 0, 50),
        traced("serve", 22, 25, lane=1, name=REQUEST, peer=1, number=7),
        traced("serve", 62, 70, lane=1, name=REQUEST, peer=2, number=7),
        traced("send", 68, 68, lane=1, depth=1, name=ANSWER, peer=1, number=7),
        traced("send", 69, 69, lane=1, depth=1, name=ANSWER, peer=2, number=7),
        traced("wait", 50, 100),
    ]
    first = [
        traced("compute", 0, 20),
        traced("communicate", 20, 72, name=PUSH, peer=0, number=7),
        traced("compute", 72, 90),
    ]
    second = [traced("compute", 0, 60), traced("communicate", 60, 73, name=PUSH, peer=0, number=7)]
    assert path("ps trainer1 trainer2", server, first, second) == [
        ("trainer2", "compute", 0, 60),
        ("ps", "message", 60, 62),
        ("ps", "serve", 62, 68),
        ("trainer1", "message", 68, 72),
        ("trainer1", "compute", 72, 90),
    ]


def test_through_a_pipeline_it_follows_the_activations() -> None:
    first = [traced("compute", 0, 40), traced("communicate", 40, 42, name=SEND, peer=1, number=3)]
    second = [
        traced("wait", 0, 42, name=ACTIVATIONS, peer=0, number=3),
        traced("communicate", 42, 44, name=RECEIVE, peer=0, number=3),
        traced("compute", 44, 90),
    ]
    assert path("stage1 stage2", first, second) == [
        ("stage1", "compute", 0, 40),
        ("stage2", "message", 40, 42),
        ("stage2", "communicate", 42, 44),
        ("stage2", "compute", 44, 90),
    ]


def test_a_learner_that_waited_for_a_full_queue_waited_for_who_filled_it() -> None:
    learner = [
        traced("wait", 0, 51, name=FULL, peer=EVERYBODY),
        traced("queue", 52, 52, name=GET, peer=2, number=0),
        traced("queue", 53, 53, name=GET, peer=1, number=1),
        traced("update", 54, 90),
    ]
    early = [traced("compute", 0, 20), traced("queue", 20, 20, name=PUT, peer=0, number=1)]
    late = [traced("compute", 0, 50), traced("queue", 50, 50, name=PUT, peer=0, number=0)]
    assert path("learner collector1 collector2", learner, early, late) == [
        ("collector2", "compute", 0, 50),
        ("learner", "message", 50, 51),
        ("learner", "other", 51, 54),
        ("learner", "update", 54, 90),
    ]


def test_without_exchange_it_stays_in_the_rank_that_ends_last() -> None:
    one = [traced("compute", 0, 40), traced("update", 41, 50)]
    other = [traced("compute", 0, 45)]
    assert path("trainer1 trainer2", one, other) == [
        ("trainer1", "compute", 0, 40),
        ("trainer1", "other", 40, 41),
        ("trainer1", "update", 41, 50),
    ]


def test_two_that_wait_for_each_other_without_a_trace_of_why_end_the_path_in_a_wait() -> None:
    one = [traced("compute", 0, 10), traced("wait", 10, 50, name=ACTIVATIONS, peer=1), traced("compute", 50, 60)]
    other = [traced("compute", 0, 10), traced("wait", 10, 50, name=ACTIVATIONS, peer=0)]
    found = path("stage1 stage2", one, other)
    assert found[-1] == ("stage1", "compute", 50, 60) and ("stage1", "wait", 10, 50) in found
    assert sum(end - begin for _, _, begin, end in found) == 60


def test_an_empty_trace_has_no_path() -> None:
    assert critical_path(RunTrace.of([], [], ("ps",)), 0, 10) == []
