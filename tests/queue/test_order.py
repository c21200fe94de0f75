"""Who starts next, and when the others should."""

import random
from dataclasses import replace

import pytest

from engine.limits import Limits
from engine.queue.estimates import Estimate
from engine.queue.order import Free, Holder, Room, Waiting, delays_not, fits, forecast, free, next_up, soonest_start, started

ROOM = Room(4, 2)
SHORT = Estimate(10.0, 8.0, 12.0, 5)


def chosen(queue: list[Waiting], holders: list[Holder], room: Room = ROOM) -> int | None:
    found = next_up(queue, holders, room)
    return found.id if found else None


def test_the_head_starts_where_it_fits_and_an_empty_queue_starts_nobody() -> None:
    assert chosen([Waiting(1, "ada", 4), Waiting(2, "ada", 1)], []) == 1
    assert chosen([], []) is None


def test_a_run_on_hold_lets_the_next_one_by() -> None:
    assert chosen([Waiting(1, "ada", 1, held_by="grace"), Waiting(2, "ada", 1)], []) == 2
    assert chosen([Waiting(1, "ada", 1, held_by="grace")], []) is None


def test_who_has_as_many_runs_on_as_a_person_may_lets_others_by() -> None:
    on = [Holder(1, "ada", 1), Holder(2, "ada", 1)]
    queue = [Waiting(3, "ada", 1), Waiting(4, "grace", 1)]
    assert chosen(queue, on, Room(4, limits=Limits(2))) == 4
    assert chosen(queue, on, Room(4, limits=Limits(3))) == 3
    assert chosen(queue[:1], on, Room(4, limits=Limits(2))) is None


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


def test_a_run_that_takes_nothing_of_what_the_head_needs_passes_however_long_it_is() -> None:
    on = [Holder(1, "ada", 1, 2)]
    head = Waiting(2, "ada", 2, 1)  # waits for a GPU; its 2 cores are free and stay so
    assert chosen([head, Waiting(3, "ada", 1)], on) == 3
    assert chosen([head, Waiting(3, "ada", 2)], on) is None


def test_a_holder_of_unknown_length_may_end_at_any_moment_so_nothing_passes() -> None:
    on = [Holder(1, "ada", 3), Holder(2, "ada", 0, soonest_end=100.0, end=100.0)]
    head = Waiting(3, "ada", 4)
    assert soonest_start(head, on, ROOM) == 0.0
    assert chosen([head, Waiting(4, "ada", 1, takes=SHORT)], on) is None


def test_a_run_that_the_machine_never_has_room_for_has_no_start() -> None:
    assert soonest_start(Waiting(1, "ada", 1, 3), [], ROOM) == float("inf")


def test_runs_that_share_cores_keep_others_from_them() -> None:
    on = [Holder(1, "ada", 4), Holder(2, "ada", 4)]
    assert not fits(Waiting(3, "ada", 1), free(on, ROOM))
    assert fits(Waiting(3, "ada", 1, oversubscribe=True), free(on, ROOM))
    assert not fits(Waiting(3, "ada", 1, 3, oversubscribe=True), free(on, ROOM))  # GPUs are never shared


def test_the_forecast_follows_the_ends_of_runs() -> None:
    on = [Holder(1, "ada", 3, soonest_end=16.0, end=20.0)]
    queue = [Waiting(2, "ada", 4, takes=SHORT), Waiting(3, "ada", 1, takes=SHORT), Waiting(4, "ada", 4)]
    assert forecast(queue, on, ROOM) == {3: 0.0, 2: 20.0, 4: 30.0}


def test_the_forecast_says_nothing_where_nothing_tells() -> None:
    assert forecast([Waiting(2, "ada", 4)], [Holder(1, "ada", 1)], ROOM) == {}
    assert forecast([Waiting(2, "ada", 4), Waiting(3, "ada", 1)], [Holder(1, "ada", 1, soonest_end=1, end=2)], ROOM) == {2: 2.0}
    assert forecast([Waiting(2, "ada", 1, held_by="ada")], [], ROOM) == {}


def test_a_persons_share_spreads_their_runs_over_time() -> None:
    queue = [Waiting(run_id, owner, 1, takes=SHORT) for run_id, owner in ((1, "ada"), (2, "ada"), (3, "grace"), (4, "ada"))]
    assert forecast(queue, [], Room(4, limits=Limits(1))) == {1: 0.0, 3: 0.0, 2: 10.0, 4: 20.0}


@pytest.mark.parametrize("seed", range(60))
def test_no_run_that_passes_delays_the_head(seed: int) -> None:
    """Let runs of random sizes, each as long as its like, pass a head; it starts no later than if none had."""
    draw = random.Random(seed)

    def run(run_id: int) -> Waiting:
        length = draw.uniform(1, 60)
        return Waiting(run_id, "ada", draw.randint(1, 4), draw.choice((0, 0, 1)), takes=Estimate(length, length, length, 9) if draw.random() < 0.8 else None)

    on: list[Holder] = []
    for each in map(run, range(1, 4)):
        if fits(each, free(on, ROOM)):
            on.append(started(each, 0.0))
    head = Waiting(9, "ada", draw.randint(3, 4), draw.randint(0, 2), takes=SHORT)
    alone = forecast([head], on, ROOM)
    queue = [head, *map(run, range(10, 30))]
    assert forecast(queue, on, ROOM).get(9) == alone.get(9)


def test_a_run_may_pass_where_the_head_shares_cores_itself() -> None:
    head = Waiting(1, "ada", 4, 1, oversubscribe=True)
    assert delays_not(Waiting(2, "ada", 4), head, 0.0, Free(4, 0))
