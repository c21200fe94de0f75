"""Why a run waits is said in words that name who and what."""

from engine.limits import Limits
from engine.queue.order import Holder, Room, Waiting
from engine.queue.reasons import reasons

ROOM = Room(8, 2)


def clock(in_s: float) -> str:
    return f"14:{in_s:02.0f}"


def said(queue: list[Waiting], holders: list[Holder], room: Room = ROOM) -> list[str]:
    found = reasons(queue, holders, room, clock)
    assert list(found) == [run.id for run in queue]
    return list(found.values())


def test_a_run_that_fits_starts_next() -> None:
    assert said([Waiting(1, "Ada", 8)], []) == ["starts next"]


def test_who_holds_a_gpu_and_until_when() -> None:
    assert said([Waiting(42, "Ada", 1, 2)], [Holder(41, "Grace", 1, 1, 10, 20)]) == ["waits for 2 GPUs: run 41 holds 1 until about 14:20"]
    assert said([Waiting(42, "Ada", 1, 2)], [Holder(41, "Grace", 1, 1)]) == ["waits for 2 GPUs: run 41 holds 1"]


def test_who_holds_cores_soonest_end_first_and_the_rest_by_number() -> None:
    on = [Holder(run_id, "Grace", 1, 0, end, end) for run_id, end in ((1, None), (2, 40.0), (3, 20.0), (4, 50.0), (5, 55.0))]
    told = "waits for 6 cores: run 3 holds 1 until about 14:20, run 2 holds 1 until about 14:40, run 4 holds 1 until about 14:50, 2 more runs the rest"
    assert said([Waiting(9, "Ada", 6)], on) == [told]


def test_a_run_that_lacks_both_kinds() -> None:
    on = [Holder(41, "Grace", 7, 1, 10, 20), Holder(40, "Grace", 1)]
    assert said([Waiting(42, "Ada", 4, 2)], on) == [
        "waits for 2 GPUs and 4 cores: run 41 holds 1 GPU and 7 cores until about 14:20, run 40 holds 1 core",
    ]


def test_a_foreign_program_is_named_by_its_gpu() -> None:
    assert said([Waiting(42, "Ada", 1, 2)], [], Room(8, 1, foreign_gpus=(1,))) == ["waits for 2 GPUs: another program uses GPU 1"]


def test_a_run_behind_another_says_whose_priority_is_higher() -> None:
    on = [Holder(1, "Grace", 6)]
    queue = [Waiting(40, "Ada", 8, priority="high"), Waiting(41, "Ada", 8, priority="high"), Waiting(30, "Ada", 1)]
    assert said(queue, on) == ["waits for 8 cores: run 1 holds 6", "waits behind run 40", "waits behind run 40 (high priority)"]


def test_a_hold_and_a_full_share_name_the_person_and_hold_nobody_else_up() -> None:
    on = [Holder(run_id, "Ada", 1) for run_id in (1, 2, 3)]
    queue = [Waiting(10, "Bea", 1, held_by="Grace"), Waiting(11, "Ada", 1), Waiting(12, "Grace", 1)]
    told = ["held by Grace", "Ada has 3 runs on, the most a person may have", "starts next"]
    assert said(queue, on, Room(8, 0, Limits(3))) == told
    assert said(queue[1:2], on[:1], Room(8, 0, Limits(1))) == ["Ada has 1 run on, the most a person may have"]


def test_a_share_of_cores_and_gpus_says_who_holds_what_of_it() -> None:
    limits = Limits(max_cores_per_person=8, max_gpus_per_person=1, people={"Bea": {"max_cores_per_person": 2}})
    on = [Holder(1, "Ada", 6, 1), Holder(2, "Bea", 2)]
    queue = [Waiting(10, "Ada", 4), Waiting(11, "Ada", 1, 1), Waiting(12, "Bea", 4), Waiting(13, "Bea", 1), Waiting(14, "Ada", 2), Waiting(15, "Cyd", 2)]
    assert said(queue, on, Room(16, 2, limits)) == [
        "waits: Ada holds 6 of 8 cores, and this asks for 4",
        "waits: Ada holds 1 of 1 GPU",
        "waits: it asks for 4 cores, and Bea may hold 2; an admin can change that",
        "waits: Bea holds 2 of 2 cores",
        "starts next",
        "waits behind run 14",
    ]


def test_a_run_that_may_pass_starts_next_though_it_is_not_the_head() -> None:
    queue = [Waiting(10, "Ada", 1, 2), Waiting(11, "Ada", 1)]
    assert said(queue, [Holder(1, "Ada", 1, 1)]) == ["waits for 2 GPUs: run 1 holds 1", "starts next"]
