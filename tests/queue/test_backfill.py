"""Who starts next, and when the others should."""

import random
from dataclasses import replace

import pytest

from engine.access.quotas import Limits
from engine.queue.backfill import (
    Free,
    FreeSlots,
    Holder,
    Waiting,
    delays_not,
    fits,
    forecast,
    free,
    next_up,
    soonest_start,
    started,
)
from engine.queue.estimates import Estimate
from engine.queue.forecast import reasons

ROOM = FreeSlots(4, 2)
SHORT = Estimate(10.0, 8.0, 12.0, 5)


def chosen(queue: list[Waiting], holders: list[Holder], room: FreeSlots = ROOM) -> int | None:
    found = next_up(queue, holders, room)
    return found.id if found else None


def test_the_first_that_may_start_does() -> None:
    assert chosen([Waiting(1, "ada", 4), Waiting(2, "ada", 1)], []) == 1
    assert chosen([], []) is None
    assert chosen([Waiting(1, "ada", 1, held_by="grace"), Waiting(2, "ada", 1)], []) == 2
    assert chosen([Waiting(1, "ada", 1, held_by="grace")], []) is None
    on = [Holder(1, "ada", 1), Holder(2, "ada", 1)]
    queue = [Waiting(3, "ada", 1), Waiting(4, "grace", 1)]
    assert chosen(queue, on, FreeSlots(4, limits=Limits(2))) == 4
    assert chosen(queue, on, FreeSlots(4, limits=Limits(3))) == 3
    assert chosen(queue[:1], on, FreeSlots(4, limits=Limits(2))) is None


@pytest.mark.parametrize(
    ("candidate", "passes"),
    [
        (Waiting(3, "ada", 1, takes=SHORT), True),  # 12 s at most, and the head waits for 16 s at least
        (Waiting(3, "ada", 1, takes=Estimate(10, 8, 15, 5)), False),  # 15 s and its margin are more
        (Waiting(3, "ada", 1, takes=replace(SHORT, runs=2)), False),  # seen too seldom
        (Waiting(3, "ada", 1), False),  # nothing tells how long it takes
        (Waiting(3, "ada", 2, takes=SHORT), False),  # does not fit
        (Waiting(3, "ada", 2, takes=SHORT, oversubscribe=True), True),
    ],
)
def test_a_small_run_passes_a_waiting_one_only_if_it_has_ended_before(candidate: Waiting, passes: bool) -> None:
    on = [Holder(1, "ada", 3, soonest_end=16.0, end=20.0)]
    assert chosen([Waiting(2, "ada", 4), candidate], on) == (3 if passes else None)


def test_what_does_not_delay_the_head_passes_it() -> None:
    on = [Holder(1, "ada", 1, 2)]
    head = Waiting(2, "ada", 2, 1)  # waits for a GPU; its 2 cores are free and stay so
    assert chosen([head, Waiting(3, "ada", 1)], on) == 3
    assert chosen([head, Waiting(3, "ada", 2)], on) is None
    on = [Holder(1, "ada", 3), Holder(2, "ada", 0, soonest_end=100.0, end=100.0)]
    head = Waiting(3, "ada", 4)
    assert soonest_start(head, on, ROOM) == 0.0
    assert chosen([head, Waiting(4, "ada", 1, takes=SHORT)], on) is None


def test_runs_that_share_cores_keep_others_from_them_and_one_too_large_never_starts() -> None:
    on = [Holder(1, "ada", 4), Holder(2, "ada", 4)]
    assert not fits(Waiting(3, "ada", 1), free(on, ROOM))
    assert fits(Waiting(3, "ada", 1, oversubscribe=True), free(on, ROOM))
    assert not fits(Waiting(3, "ada", 1, 3, oversubscribe=True), free(on, ROOM))  # GPUs are never shared
    assert soonest_start(Waiting(1, "ada", 1, 3), [], ROOM) == float("inf")
    head = Waiting(1, "ada", 4, 1, oversubscribe=True)
    assert delays_not(Waiting(2, "ada", 4), head, 0.0, Free(4, 0))


def test_the_forecast_follows_ends_and_shares_and_says_nothing_where_nothing_tells() -> None:
    on = [Holder(1, "ada", 3, soonest_end=16.0, end=20.0)]
    queue = [Waiting(2, "ada", 4, takes=SHORT), Waiting(3, "ada", 1, takes=SHORT), Waiting(4, "ada", 4)]
    assert forecast(queue, on, ROOM) == {3: 0.0, 2: 20.0, 4: 30.0}
    assert forecast([Waiting(2, "ada", 4)], [Holder(1, "ada", 1)], ROOM) == {}
    assert forecast(
        [Waiting(2, "ada", 4), Waiting(3, "ada", 1)], [Holder(1, "ada", 1, soonest_end=1, end=2)], ROOM
    ) == {2: 2.0}
    assert forecast([Waiting(2, "ada", 1, held_by="ada")], [], ROOM) == {}
    queue = [
        Waiting(run_id, owner, 1, takes=SHORT) for run_id, owner in ((1, "ada"), (2, "ada"), (3, "grace"), (4, "ada"))
    ]
    assert forecast(queue, [], FreeSlots(4, limits=Limits(1))) == {1: 0.0, 3: 0.0, 2: 10.0, 4: 20.0}


@pytest.mark.parametrize("seed", range(60))
def test_no_run_that_passes_delays_the_head(seed: int) -> None:
    """Let runs of random sizes, each as long as its like, pass a head; it starts no later than if none had."""
    draw = random.Random(seed)

    def run(run_id: int) -> Waiting:
        length = draw.uniform(1, 60)
        return Waiting(
            run_id,
            "ada",
            draw.randint(1, 4),
            draw.choice((0, 0, 1)),
            takes=Estimate(length, length, length, 9) if draw.random() < 0.8 else None,
        )

    on: list[Holder] = []
    for each in map(run, range(1, 4)):
        if fits(each, free(on, ROOM)):
            on.append(started(each, 0.0))
    head = Waiting(9, "ada", draw.randint(3, 4), draw.randint(0, 2), takes=SHORT)
    alone = forecast([head], on, ROOM)
    queue = [head, *map(run, range(10, 30))]
    assert forecast(queue, on, ROOM).get(9) == alone.get(9)


HALL = FreeSlots(8, 2)


def clock(in_s: float) -> str:
    return f"14:{in_s / 60:02.0f}"


def said(queue: list[Waiting], holders: list[Holder], room: FreeSlots = HALL) -> list[str]:
    found = reasons(queue, holders, room, clock)
    assert list(found) == [run.id for run in queue]
    return list(found.values())


def test_who_holds_cores_and_gpus_and_until_when() -> None:
    assert said([Waiting(1, "Ada", 8)], []) == ["starts next"]
    assert said([Waiting(42, "Ada", 1, 2)], [Holder(41, "Grace", 1, 1, 600, 1200)]) == [
        "waits for 2 GPUs: run 41 holds 1 until about 14:20"
    ]
    assert said([Waiting(42, "Ada", 1, 2)], [Holder(41, "Grace", 1, 1)]) == ["waits for 2 GPUs: run 41 holds 1"]
    on = [
        Holder(run_id, "Grace", 1, 0, end, end)
        for run_id, end in ((1, None), (2, 2400.0), (3, 1200.0), (4, 3000.0), (5, 3300.0))
    ]
    told = (
        "waits for 6 cores: run 3 holds 1 until about 14:20, run 2 holds 1 until about 14:40, run 4 holds 1 until "
        "about 14:50, 2 more runs hold the rest"
    )
    assert said([Waiting(9, "Ada", 6)], on) == [told]
    on = [Holder(41, "Grace", 7, 1, 600, 1200), Holder(40, "Grace", 1)]
    assert said([Waiting(42, "Ada", 4, 2)], on) == [
        "waits for 2 GPUs and 4 cores: run 41 holds 1 GPU and 7 cores until about 14:20, run 40 holds 1 core",
    ]
    assert said([Waiting(42, "Ada", 1, 2)], [], FreeSlots(8, 1, foreign_gpus=(1,))) == [
        "waits for 2 GPUs: another program uses GPU 1"
    ]


def test_an_end_within_a_minute_is_not_named() -> None:
    for end, until in ((0.0, ""), (59.0, ""), (60.0, " until about 14:01")):
        assert said([Waiting(42, "Ada", 8)], [Holder(41, "Grace", 1, 0, 0.0, end)]) == [
            f"waits for 8 cores: run 41 holds 1{until}"
        ]


def test_a_run_behind_another_says_whose_priority_is_higher_and_one_that_passes_is_next() -> None:
    on = [Holder(1, "Grace", 6)]
    queue = [Waiting(40, "Ada", 8, priority="high"), Waiting(41, "Ada", 8, priority="high"), Waiting(30, "Ada", 1)]
    assert said(queue, on) == [
        "waits for 8 cores: run 1 holds 6",
        "waits behind run 40",
        "waits behind run 41 (high priority)",
    ]
    queue = [Waiting(10, "Ada", 1, 2), Waiting(11, "Ada", 1)]
    assert said(queue, [Holder(1, "Ada", 1, 1)]) == ["waits for 2 GPUs: run 1 holds 1", "starts next"]


def test_each_run_names_the_one_whose_turn_is_just_before_it() -> None:
    queue = [
        Waiting(3, "Ada", 8),
        Waiting(4, "Ada", 8, held_by="Grace"),
        *(Waiting(run_id, "Ada", 8) for run_id in (5, 6)),
    ]
    assert said(queue, [Holder(1, "Grace", 6)]) == [
        *("waits for 8 cores: run 1 holds 6", "held by Grace", "waits behind run 3", "waits behind run 5")
    ]


def test_holds_and_full_shares_name_the_person_and_what_they_hold() -> None:
    on = [Holder(run_id, "Ada", 1) for run_id in (1, 2, 3)]
    queue = [Waiting(10, "Bea", 1, held_by="Grace"), Waiting(11, "Ada", 1), Waiting(12, "Grace", 1)]
    told = ["held by Grace", "waits: Ada has 3 running runs, and the limit per person is 3", "starts next"]
    assert said(queue, on, FreeSlots(8, 0, Limits(3))) == told
    assert said(queue[1:2], on[:1], FreeSlots(8, 0, Limits(1))) == [
        "waits: Ada has 1 running run, and the limit per person is 1"
    ]
    limits = Limits(max_cores_per_person=8, max_gpus_per_person=1, people={"Bea": {"max_cores_per_person": 2}})
    on = [Holder(1, "Ada", 6, 1), Holder(2, "Bea", 2)]
    queue = [
        Waiting(10, "Ada", 4),
        Waiting(11, "Ada", 1, 1),
        Waiting(12, "Bea", 4),
        Waiting(13, "Bea", 1),
        Waiting(14, "Ada", 2),
        Waiting(15, "Cyd", 2),
    ]
    assert said(queue, on, FreeSlots(16, 2, limits)) == [
        "waits: Ada uses 6 of 8 cores, and this run needs 4",
        "waits: Ada uses 1 of 1 GPU",
        "waits: needs 4 cores, but Bea's limit is 2; an admin can raise it",
        "waits: Bea uses 2 of 2 cores",
        "starts next",
        "waits behind run 14",
    ]
