"""The critical path of made traces whose path is known."""

from collections import Counter
from collections.abc import Sequence

import pytest

from engine.trace.chunk import Entries, TraceChunk
from engine.trace.critical_path import HELD, OVERLAPPED, critical_path, own_work
from engine.trace.layout import EVERYBODY
from engine.trace.timeline import RunTrace
from tests.trace_entries import traced

NAMES = ["", "average", "push", "request", "answer", "send", "receive", "activations", "put", "get", "full queue"]
AVERAGE, PUSH, REQUEST, ANSWER, SEND, RECEIVE, ACTIVATIONS, PUT, GET, FULL = range(1, 11)
NAMES += ["forward", "backward", "stages", "calls", "weights", "turnstile", "free slot", "rollout", "env step", "ask"]
FORWARD, BACKWARD, STAGES, CALLS, WEIGHTS, TURNSTILE, FREE, ROLLOUT, ENV_STEP, ASK = range(11, 21)
NAMES += ["collectors", "next round", "requests", "batch"]
COLLECTORS, NEXT_ROUND, REQUESTS, BATCH = range(21, 25)
Part = tuple[str, str, float, float]


def traced_run(roles: str, ranks: Sequence[Sequence[Entries]]) -> RunTrace:
    chunks = [TraceChunk.of(rank, NAMES, entries) for rank, entries in enumerate(ranks)]
    return RunTrace.of([], chunks, roles.split())


def path(roles: str, *ranks: Sequence[Entries], until_us: float = 1_000) -> list[Part]:
    """Return the path through the ranks' operations, from its start: (role, kind, begin, end) in microseconds; a wait
    of an unknown cause has a kind that ends in a question mark.
    """
    named = roles.split()
    parts = critical_path(traced_run(roles, ranks), 0, round(until_us * 1e3))
    return [
        (named[part.rank], part.kind + "?" * (not part.known), part.begin_ns / 1e3, part.end_ns / 1e3)
        for part in reversed(parts)
    ]


def spent(parts: Sequence[Part]) -> Counter[str]:
    """Return the microseconds of each "role kind" of a path."""
    found = Counter[str]()
    for role, kind, begin, end in parts:
        found[f"{role} {kind}"] += end - begin  # type: ignore[assignment]
    return found


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


# ---- a server: parameter_server, async_sgd, batched_reinforce


def busy_server(kind: str, name: int, work: str, *, threads: bool) -> list[list[Entries]]:
    """Return a server that needs 10 us for each request, and three clients that ask again 3 us after each answer.

    With `threads` each request is read by its own thread when it arrives, and waits for the server's lock there.
    """
    server, clients = list[Entries](), [list[Entries]() for _ in range(3)]
    asked = [0.0, 0.5, 0.8]
    for turn in range(12):
        client, began = turn % 3, 1.0 + 10 * turn
        read = min(began, asked[client] + 0.1) if threads else began
        place = {"peer": client + 1, "number": turn}
        server += [
            traced("serve", read, began + 10, lane=1 + client * threads, name=REQUEST, **place),
            traced("send", began + 9.5, began + 9.5, lane=1 + client * threads, depth=1, name=ANSWER, **place),
        ]
        clients[client] += [
            traced(kind, asked[client], began + 9.9, name=name, peer=0, number=turn),
            traced("compute", began + 9.9, began + 12.9, name=ENV_STEP if work == "env" else 0),
        ]
        asked[client] = began + 12.9
    server.append(traced("wait", 0, 125, name=REQUESTS, peer=EVERYBODY))
    return [server, *clients]


@pytest.mark.parametrize("threads", [False, True], ids=["shared memory", "rpc and gloo"])
@pytest.mark.parametrize(
    ("roles", "kind", "name", "work"),
    [
        ("ps trainer1 trainer2 trainer3", "communicate", PUSH, ""),
        ("agent observer1 observer2 observer3", "rpc", ASK, "env"),
    ],
    ids=["parameter_server and async_sgd", "batched_reinforce per call"],
)
def test_through_a_server_that_is_never_free_it_goes_by_the_requests_before(
    roles: str, kind: str, name: int, work: str, threads: bool
) -> None:
    ranks = busy_server(kind, name, work, threads=threads)
    found = spent(path(roles, *ranks, until_us=120))
    server = roles.split()[0]
    way = 0.1 if threads else 1.0  # of the one request that found the server free
    assert found == pytest.approx({f"{server} serve": 120 - way, f"{server} message": way})
    assert own_work(traced_run(roles, ranks), 0, 120_000)[0] == pytest.approx(1e3 * (120 - way))


@pytest.mark.parametrize("threads", [False, True], ids=["shared memory", "rpc and gloo"])
def test_a_message_that_is_long_on_its_way_to_a_free_server_is_a_message(threads: bool) -> None:
    """Of the 60 us in which the second request travels, the server handles another one for 20."""
    server = [
        traced("serve", 5, 25, lane=1, name=REQUEST, peer=1, number=1),
        traced("send", 24, 24, lane=1, depth=1, name=ANSWER, peer=1, number=1),
        traced("serve", 64, 70, lane=1 + threads, name=REQUEST, peer=2, number=1),
        traced("send", 69, 69, lane=1 + threads, depth=1, name=ANSWER, peer=2, number=1),
    ]
    first = [traced("communicate", 3, 26, name=PUSH, peer=0, number=1)]
    second = [
        traced("compute", 0, 4),
        traced("communicate", 4, 75, name=PUSH, peer=0, number=1),
        traced("compute", 75, 90),
    ]
    assert path("ps trainer1 trainer2", server, first, second) == [
        ("trainer2", "compute", 0, 4),
        ("ps", "message", 4, 64),
        ("ps", "serve", 64, 69),
        ("trainer2", "message", 69, 75),
        ("trainer2", "compute", 75, 90),
    ]


def test_of_observers_that_are_answered_together_the_slowest_is_on_the_path() -> None:
    agent, observers = list[Entries](), [list[Entries](), list[Entries]()]
    for step in range(3):
        at = 50 * step
        agent += [
            traced("serve", at + 12, at + 13, lane=1, name=REQUEST, peer=1, number=step),
            traced("serve", at + 42, at + 46, lane=1, name=REQUEST, peer=2, number=step),
            traced("send", at + 45, at + 45, lane=1, depth=1, name=ANSWER, peer=1, number=step),
            traced("send", at + 45, at + 45, lane=1, depth=1, name=ANSWER, peer=2, number=step),
        ]
        for number, played in enumerate((10, 40)):
            observers[number] += [
                traced("compute", at, at + played, name=ENV_STEP, number=step),
                traced("rpc", at + played, at + 50, name=ASK, peer=0, number=step),
            ]
    found = spent(path("agent observer1 observer2", agent, *observers, until_us=140))
    assert found == {"observer2 compute": 120, "agent message": 4, "agent serve": 6, "observer2 message": 10}


def test_a_servers_test_beside_its_requests_holds_nobody_up() -> None:
    server = [
        traced("wait", 0, 30, name=REQUESTS, peer=EVERYBODY),
        traced("evaluate", 30, 200),
        traced("serve", 42, 44, lane=1, name=REQUEST, peer=1, number=1),
        traced("send", 43, 43, lane=1, depth=1, name=ANSWER, peer=1, number=1),
    ]
    trainer = [
        traced("compute", 0, 40),
        traced("communicate", 40, 45, name=PUSH, peer=0, number=1),
        traced("compute", 45, 120),
    ]
    assert spent(path("ps trainer1", server, trainer, until_us=100)) == {
        "trainer1 compute": 95,
        "ps message": 2,
        "ps serve": 1,
        "trainer1 message": 2,
    }


# ---- sync_sgd


def test_a_slow_test_of_one_trainer_is_on_the_path_of_all() -> None:
    def average(entered: float, left: float, number: int) -> list[Entries]:
        together = {"name": AVERAGE, "peer": EVERYBODY, "number": number}
        return [traced("communicate", entered, left), traced("collective", entered, left, depth=1, **together)]

    first = [*average(10, 12, 1), traced("evaluate", 12, 92), traced("compute", 92, 97), *average(97, 99, 2)]
    second = [traced("compute", 0, 10), *average(10, 12, 1), traced("compute", 12, 17), *average(17, 99, 2)]
    found = path("trainer1 trainer2", first, [*second, traced("update", 99, 110)], until_us=105)
    assert found[-4:] == [
        ("trainer1", "evaluate", 12, 92),
        ("trainer1", "compute", 92, 97),
        ("trainer2", "collective", 97, 99),
        ("trainer2", "update", 99, 105),
    ]


def test_the_averaging_inside_of_a_backward_is_not_told_from_it() -> None:
    def backward(entered: float) -> list[Entries]:
        together = {"name": AVERAGE, "peer": EVERYBODY, "number": 1}
        return [traced("compute", entered, 90), traced("collective", entered, 90, depth=1, **together)]

    fast = [traced("compute", 0, 20), *backward(20), traced("update", 90, 95)]
    slow = [traced("compute", 0, 50), *backward(50), traced("update", 90, 94)]
    assert path("trainer1 trainer2", fast, slow, until_us=95) == [
        ("trainer2", "compute", 0, 50),
        ("trainer1", OVERLAPPED, 50, 90),
        ("trainer1", "update", 90, 95),
    ]


def test_a_sum_that_computing_waits_for_is_told_from_it() -> None:
    def forward(entered: float, left: float) -> list[Entries]:
        together = {"name": AVERAGE, "peer": EVERYBODY, "number": 1}
        summed = [
            traced("communicate", entered, left, depth=1),
            traced("collective", entered, left, depth=2, **together),
        ]
        return [traced("compute", 0, 90), *summed]

    assert path("rank1 rank2", forward(20, 60), forward(50, 60), until_us=80) == [
        ("rank2", "compute", 0, 50),
        ("rank1", "collective", 50, 60),
        ("rank1", "compute", 60, 80),
    ]


# ---- hogwild


def test_a_lock_leads_to_the_trainer_that_held_it() -> None:
    def step(computed: float, waited: float, updated: float) -> list[Entries]:
        lock = [traced("lock", computed, updated + 1), traced("update", waited, updated, depth=1)]
        return [*lock, *([traced("lock", computed, waited, depth=1, name=WEIGHTS)] if waited > computed else [])]

    first = [traced("compute", 0, 10), *step(10, 10, 40), traced("compute", 41, 51), *step(51, 70, 100)]
    second = [traced("compute", 0, 12), *step(12, 41, 69), traced("compute", 70, 80)]
    assert path("trainer1 trainer2", first, second, until_us=95) == [
        ("trainer1", "compute", 0, 10),
        ("trainer1", HELD, 10, 40),
        ("trainer2", "lock", 40, 41),
        ("trainer2", HELD, 41, 69),
        ("trainer1", "lock", 69, 70),
        ("trainer1", "update", 70, 95),
    ]


# ---- dppo


def test_the_learner_of_a_bounded_queue_and_its_collectors_take_turns() -> None:
    """`main` waits for nobody, and is never on the path."""
    main = [traced("wait", at, at + 10) for at in range(0, 200, 10)]
    learner = [
        traced("wait", 0, 61, name=FULL, peer=EVERYBODY),
        traced("queue", 61, 61, name=GET, peer=2, number=0),
        traced("update", 62, 92),
        traced("queue", 92, 92, name=GET, peer=3, number=1),
        traced("update", 92, 120),
        traced("wait", 121, 190, name=FULL, peer=EVERYBODY),
    ]
    early = [
        traced("compute", 0, 40, name=ROLLOUT),
        traced("queue", 40, 40, name=PUT, peer=1, number=0),
        traced("wait", 40, 122, name=FREE, peer=1),
        traced("compute", 122, 170, name=ROLLOUT),
    ]
    late = [
        traced("compute", 0, 60, name=ROLLOUT),
        traced("queue", 60, 60, name=PUT, peer=1, number=1),
        traced("wait", 60, 122, name=FREE, peer=1),
        traced("compute", 122, 165, name=ROLLOUT),
    ]
    assert path("main learner collector1 collector2", main, learner, early, late, until_us=150) == [
        ("collector2", "compute", 0, 60),
        ("learner", "message", 60, 61),
        ("learner", "other", 61, 62),
        ("learner", "update", 62, 92),
        ("learner", "update", 92, 120),
        ("collector1", "wait?", 120, 122),
        ("collector1", "compute", 122, 150),
    ]


def test_a_reader_writers_learner_waits_for_the_last_collector_to_stop() -> None:
    main = [traced("wait", at, at + 10) for at in range(0, 200, 10)]
    learner = [traced("wait", 0, 81, name=COLLECTORS, peer=EVERYBODY), traced("update", 82, 120)]
    queued = [
        traced("compute", 0, 50, name=ROLLOUT),
        traced("queue", 50, 50, name=PUT, peer=1, number=0),
        traced("wait", 50, 150, name=NEXT_ROUND, peer=1),
    ]
    discarded = [traced("compute", 0, 80, name=ROLLOUT), traced("wait", 80, 150, name=NEXT_ROUND, peer=1)]
    assert path("main learner collector1 collector2", main, learner, queued, discarded, until_us=110) == [
        ("collector2", "compute", 0, 80),
        ("learner", "wait?", 80, 81),
        ("learner", "other", 81, 82),
        ("learner", "update", 82, 110),
    ]


def test_a_collector_at_the_turnstile_waits_for_the_update_under_it() -> None:
    main = [traced("wait", at, at + 10) for at in range(0, 200, 10)]
    learner = [
        traced("wait", 0, 31, name=BATCH, peer=EVERYBODY),
        traced("queue", 31, 31, name=GET, peer=2, number=0),
        traced("update", 31, 100),
        traced("wait", 101, 200, name=BATCH, peer=EVERYBODY),
    ]
    collector = [
        traced("compute", 0, 30, name=ROLLOUT),
        traced("compute", 31, 160, name=ROLLOUT),
        traced("lock", 35, 102, depth=1),
        traced("lock", 35, 102, depth=2, name=TURNSTILE),
        traced("queue", 30, 30, name=PUT, peer=1, number=0),
    ]
    assert path("main learner collector1", main, learner, collector, until_us=140) == [
        ("collector1", "compute", 0, 30),
        ("learner", "message", 30, 31),
        ("learner", HELD, 31, 100),
        ("collector1", "lock", 100, 102),
        ("collector1", "compute", 102, 140),
    ]


def test_collectors_that_are_threads_of_the_learner_are_on_the_path_as_threads() -> None:
    main = [traced("wait", at, at + 10) for at in range(0, 200, 10)]
    learner = [
        traced("wait", 0, 71, name=FULL, peer=EVERYBODY),
        traced("update", 71, 100),
        traced("compute", 0, 40, lane=1, name=ROLLOUT),
        traced("wait", 40, 102, lane=1, name=FREE, peer=1),
        traced("compute", 0, 70, lane=2, name=ROLLOUT),
        traced("wait", 70, 102, lane=2, name=FREE, peer=1),
        traced("compute", 102, 150, lane=2, name=ROLLOUT),
    ]
    assert path("main learner", main, learner, until_us=140) == [
        ("learner", "compute", 0, 70),
        ("learner", "wait?", 70, 71),
        ("learner", "update", 71, 100),
        ("learner", "wait?", 100, 102),
        ("learner", "compute", 102, 140),
    ]


# ---- pipeline


def stages(*, lane: int) -> list[list[Entries]]:
    """Return one batch of two micro-batches on two stages: forwards of 10 and 20 us, backwards of 20 and 40."""

    def work(name: int, stage: int, number: int, begin: float, end: float) -> Entries:
        return traced("compute", begin, end, lane=lane, depth=1 - lane, name=name, value=stage, number=number)

    return [
        [
            work(FORWARD, 0, 0, 2, 12),
            work(FORWARD, 0, 1, 12, 22),
            work(BACKWARD, 0, 0, 97, 117),
            work(BACKWARD, 0, 1, 137, 157),
        ],
        [
            work(FORWARD, 1, 0, 13, 33),
            work(FORWARD, 1, 1, 33, 53),
            work(BACKWARD, 1, 0, 56, 96),
            work(BACKWARD, 1, 1, 96, 136),
        ],
    ]


def test_a_master_waits_for_the_stages_that_it_calls_and_they_for_each_other_and_for_it() -> None:
    first, second = stages(lane=1)
    master = [
        traced("data", 0, 1),
        traced("wait", 1, 54, name=STAGES, peer=EVERYBODY),
        traced("compute", 54, 55),
        traced("wait", 55, 158, name=STAGES, peer=EVERYBODY),
        traced("update", 158, 170),
    ]
    waits = [traced("wait", at, at + 50, name=CALLS, peer=0) for at in range(0, 200, 50)]
    found = path("master stage1 stage2", master, [*first, *waits], [*second, *waits], until_us=168)
    assert found == [
        ("master", "data", 0, 1),
        ("stage1", "message", 1, 2),
        ("stage1", "compute", 2, 12),
        ("stage2", "message", 12, 13),
        ("stage2", "compute", 13, 33),
        ("stage2", "compute", 33, 53),
        ("master", "wait?", 53, 54),
        ("master", "compute", 54, 55),
        ("stage2", "message", 55, 56),
        ("stage2", "compute", 56, 96),
        ("stage2", "compute", 96, 136),
        ("stage1", "message", 136, 137),
        ("stage1", "compute", 137, 157),
        ("master", "wait?", 157, 158),
        ("master", "update", 158, 168),
    ]


def test_the_stages_of_torchs_schedule_wait_for_each_other_though_it_traces_no_message() -> None:
    first, second = stages(lane=0)
    first += [traced("data", 0, 2), traced("wait", 2, 158), traced("update", 158, 160)]
    second += [traced("wait", 0, 137), traced("update", 137, 139)]
    assert path("stage1 stage2", first, second, until_us=159) == [
        ("stage1", "data", 0, 2),
        ("stage1", "compute", 2, 12),
        ("stage2", "message", 12, 13),
        ("stage2", "compute", 13, 33),
        ("stage2", "compute", 33, 53),
        ("stage2", "wait?", 53, 56),
        ("stage2", "compute", 56, 96),
        ("stage2", "compute", 96, 136),
        ("stage1", "message", 136, 137),
        ("stage1", "compute", 137, 157),
        ("stage1", "wait?", 157, 158),
        ("stage1", "update", 158, 159),
    ]


def test_a_stage_waits_for_the_neighbour_it_receives_from_next_not_for_the_last_that_sent() -> None:
    """The third stage's gradient is under way when the second one waits for activations of the first one."""
    first = [traced("compute", 0, 40), traced("communicate", 40, 42, name=SEND, peer=1, number=3)]
    second = [
        traced("wait", 0, 42, name=ACTIVATIONS, peer=0, number=1),
        traced("communicate", 42, 44, name=RECEIVE, peer=0, number=3),
        traced("compute", 44, 90),
    ]
    third = [traced("compute", 0, 41), traced("communicate", 41, 42, name=SEND, peer=1, number=2)]
    assert path("stage1 stage2 stage3", first, second, third)[:2] == [
        ("stage1", "compute", 0, 40),
        ("stage2", "message", 40, 42),
    ]


def test_ranks_beyond_the_first_hundred_are_told_apart() -> None:
    ranks = [[traced("compute", 0, 10 + rank)] for rank in range(300)]
    trace = traced_run(" ".join(f"trainer{rank}" for rank in range(300)), ranks)
    assert {thread: did.end_ns for thread, did in trace.threads.items()} == {
        (rank, 0): [(10 + rank) * 1_000] for rank in range(300)
    }
    assert own_work(trace, 0, 1_000_000) == [(10 + rank) * 1_000 for rank in range(300)]


# ---- reference, and what is not traced


def test_one_process_is_its_own_path() -> None:
    rank = [traced("data", 0, 2), traced("compute", 2, 8), traced("update", 8, 9), traced("evaluate", 9, 30)]
    assert [(kind, end - begin) for _, kind, begin, end in path("main", rank, until_us=25)] == [
        ("data", 2),
        ("compute", 6),
        ("update", 1),
        ("evaluate", 16),
    ]


def test_a_wait_whose_end_left_no_trace_is_one_of_an_unknown_cause() -> None:
    agent = [traced("wait", 0, 80), traced("update", 80, 100)]
    observer = [traced("barrier", 0, 120, peer=EVERYBODY)]
    assert path("agent observer1", agent, observer, until_us=95) == [
        ("agent", "wait?", 0, 80),
        ("agent", "update", 80, 95),
    ]
    trainer = [traced("compute", 0, 10), traced("communicate", 10, 60), traced("compute", 60, 70)]
    assert ("trainer1", "communicate?", 10, 60) in path("ps trainer1", [traced("wait", 0, 70)], trainer)


def test_two_that_wait_for_each_other_without_a_trace_of_why_end_the_path_in_a_wait() -> None:
    one = [traced("compute", 0, 10), traced("wait", 10, 50, name=ACTIVATIONS, peer=1), traced("compute", 50, 60)]
    other = [traced("compute", 0, 10), traced("wait", 10, 50, name=ACTIVATIONS, peer=0)]
    found = path("stage1 stage2", one, other)
    assert found[-1:] == [("stage1", "compute", 50, 60)]
    assert ("stage1", "wait?", 10, 50) in found
    assert sum(end - begin for _, _, begin, end in found) == 60


def test_an_empty_trace_has_no_path() -> None:
    assert critical_path(RunTrace.of([], [], ("ps",)), 0, 10) == []
