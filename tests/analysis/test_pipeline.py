"""A pipeline's numbers against a trace made by hand, and against what the mathematics says for equal and unequal
stages.
"""

import random
from dataclasses import replace
from typing import get_args

import pytest

from engine.analysis.pipeline import (
    BatchSpans,
    Measures,
    Settings,
    SpeedupBound,
    SplitCost,
    advice,
    batches,
    best_speed_up,
    measure,
    recorded_order,
    unhindered,
)
from engine.pipelining import Action, Layout, Schedule, ideal_bubble, makespan, orders, play, speed_up_bound
from engine.recorder import Span
from tests.analysis.traces import START_NS, hand_made, made

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def of(*spans: Span) -> BatchSpans:
    (found,) = batches(spans, Layout(2, 2))
    return found


# ---- batches -------------------------------------------------------------------------------------------------------


def test_batches_are_told_apart_and_spans_of_no_stage_count_nowhere() -> None:
    later = [span._replace(micro_batch=span.micro_batch + 2) for span in hand_made() if span.name != "backward"]
    found = batches([*later, *hand_made()], Layout(2, 2))
    assert [(batch.number, batch.complete, len(batch.spans)) for batch in found] == [(3, True, 18), (4, False, 14)]
    assert found[0].start_ns == START_NS
    assert [span.t0_ns for span in found[0].spans] == sorted(span.t0_ns for span in hand_made())
    assert of(*(span for span in hand_made() if span.name in ("forward", "backward"))).complete
    assert of(*hand_made(), Span("send", 2, 6, 0, 9), Span("forward", -1, 6, 0, 9)) == of(*hand_made())


@pytest.mark.parametrize("missing", ["forward", "backward", "update"])
def test_a_batch_without_one_of_its_spans_is_not_complete(missing: str) -> None:
    gone = next(span for span in hand_made() if span.name == missing)
    assert not of(*(span for span in hand_made() if span != gone)).complete


# ---- the trace made by hand ----------------------------------------------------------------------------------------


def test_the_numbers_of_the_batch_made_by_hand_and_the_causes_of_its_bubble() -> None:
    found = measure(of(*hand_made()))
    assert found.window_s == pytest.approx(0.089)
    assert found.busy_s == pytest.approx((0.010 * 4 + 0.002, 0.015 * 4 + 0.003))
    assert found.moving_s == pytest.approx((0.006, 0.004))
    assert found.waiting_s == pytest.approx((0.089 - 0.042 - 0.006, 0.089 - 0.063 - 0.004))
    assert found.shares == pytest.approx((0.4, 0.6))
    assert found.bubble == pytest.approx(1 - (42 + 63) / (2 * 89))
    assert found.ideal == pytest.approx(1 / 3)
    assert found.bound == pytest.approx(105 / 82)
    assert found.bound_bubble == pytest.approx(1 - 105 / 164)
    assert found.at_work == pytest.approx(105 / 89)
    assert found.moving == pytest.approx(10 / 178)
    # Without transfers: stage 1 forward 0-10-20, stage 2 forward 10-25-40 and backward 40-55-70, stage 1 backward 55-65
    # and 70-80, update to 82.
    assert found.least_s == pytest.approx(0.082)
    assert found.of_waiting == pytest.approx(105 / 164 - 105 / 178)
    assert found.of_unevenness == pytest.approx(1 - 105 / 164 - 1 / 3)
    assert found.ideal + found.of_unevenness + found.of_waiting == pytest.approx(found.bubble)
    beside = Span("forward", 0, 6, START_NS + 5_000_000, START_NS + 11_000_000)
    found = measure(of(*hand_made(), beside))
    assert found.busy_s[0] == pytest.approx(0.043)
    assert found.waiting_s[0] == pytest.approx(0.041)
    free = unhindered(of(*hand_made()))
    assert free.complete
    assert free.start_ns == START_NS
    assert free.window_s == pytest.approx(0.082)
    assert {span.name for span in free.spans} == {"forward", "backward", "update"}
    last = next(span for span in free.spans if (span.name, span.stage, span.micro_batch) == ("backward", 0, 7))
    assert ((last.t0_ns - START_NS) / 1e6, (last.t1_ns - START_NS) / 1e6) == pytest.approx((70, 80))


# ---- the mathematics -----------------------------------------------------------------------------------------------


def layout_of(schedule: Schedule, stages: int, splits: int) -> Layout:
    return Layout(stages, splits, 2 if schedule == "interleaved" else 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "splits"), [(2, 4), (2, 32), (4, 8), (4, 120)])
def test_equal_stages_idle_the_ideal_bubble_and_no_more(schedule: Schedule, stages: int, splits: int) -> None:
    layout = layout_of(schedule, stages, splits)
    spans = made(schedule, (1 / stages,) * stages, splits, copy_ms=0, jitter=0, chunks=layout.chunks)
    found = measure(batches([span for span in spans if span.name != "update"], layout)[0])
    assert found.bubble == pytest.approx(ideal_bubble(schedule, layout), abs=1e-6)
    assert found.bubble == pytest.approx(found.bound_bubble, abs=1e-6)
    assert (found.of_unevenness, found.of_waiting) == pytest.approx((0, 0), abs=1e-6)
    assert found.ideal_with(2 * splits) == pytest.approx(ideal_bubble(schedule, replace(layout, splits=2 * splits)))


@pytest.mark.parametrize("shares", [(0.44, 0.56), (0.7, 0.3), (0.1, 0.2, 0.7), (0.1, 0.4, 0.3, 0.2)])
def test_unequal_stages_slowest_in_both_directions_are_bound_by_the_slowest_ones_share(
    shares: tuple[float, ...],
) -> None:
    slowest, work = max(shares), [(6 * share, 12 * share) for share in shares]
    found = speed_up_bound("gpipe", work, Layout(len(shares), 6))
    assert found == pytest.approx(1 / (slowest + (1 - slowest) / 6))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_simulation_keeps_to_order_and_needs_whatever_the_durations(schedule: Schedule) -> None:
    draw = random.Random(3)
    for stages, splits in ((2, 6), (3, 9), (4, 4)):
        layout = layout_of(schedule, stages, splits)
        table = orders(schedule, layout)
        lasts = {(stage, one): draw.uniform(0.1, 3) for stage, order in enumerate(table) for one in order}
        took = lambda stage, action, lasts=lasts: lasts[stage, action]  # noqa: E731
        ends: dict[Action, tuple[int, float]] = {}
        free = [0.0] * stages
        for each in sorted(play(table, layout, took, transfer=0.5), key=lambda one: one.start):
            part, number = layout.part(each.stage, each.action.chunk), each.action.micro_batch
            assert each.end - each.start == pytest.approx(lasts[each.stage, each.action])
            assert free[each.stage] <= each.start + 1e-9, "one at a time"
            free[each.stage] = each.end
            kind = "backward" if each.action.what == "input_gradient" else each.action.what
            needs = {
                "forward": [("forward", part - 1)] if part else [],
                "backward": [("forward", part), *([("backward", part + 1)] if part < layout.parts - 1 else [])],
                "weight_gradient": [("backward", part)],
            }[kind]
            for what, other in needs:
                stage, end = ends[Action(what, number, other)]
                assert end + (0.5 if stage != each.stage else 0) <= each.start + 1e-9
            ends[Action(kind, number, part)] = each.stage, each.end
        busiest = max(sum(lasts[stage, one] for one in order) for stage, order in enumerate(table))
        assert makespan(table, layout, took) >= busiest


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_real_looking_trace_adds_up(schedule: Schedule) -> None:
    layout = layout_of(schedule, 4, 8)
    spans = made(schedule, (0.2, 0.3, 0.28, 0.22), 8, batch=5, chunks=layout.chunks)
    (batch,) = batches(spans, layout)
    found = measure(batch)
    assert batch.complete
    assert recorded_order(batch) == [[*order, Action("update", 0)] for order in orders(schedule, layout)]
    for busy, moving, waiting in zip(found.busy_s, found.moving_s, found.waiting_s, strict=True):
        assert busy + moving + waiting == pytest.approx(found.window_s)
    assert found.least_s < found.window_s
    assert found.bubble > found.ideal
    assert found.ideal + found.of_unevenness + found.of_waiting == pytest.approx(found.bubble)
    assert min(found.of_unevenness, found.of_waiting) > 0
    for name in ("forward", "backward", "input_gradient"):
        gone = [span for span in spans if (span.name, span.stage) != (name, layout.parts - 1)]
        assert batches(gone, layout)[0].complete == (len(gone) == len(spans))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.9])
def test_no_measure_of_a_batch_exceeds_its_bound(schedule: Schedule, jitter: float) -> None:
    for batch in range(8):
        layout = layout_of(schedule, 2, 4)
        spans = made(schedule, (0.49, 0.51), 4, batch=batch, copy_ms=0.01, jitter=jitter, chunks=layout.chunks)
        found = measure(batches(spans, layout)[0])
        assert found.at_work <= found.bound + 1e-9, "more stages are never busy than could be without waiting"
        assert found.bound_bubble <= found.bubble + 1e-9
        assert found.bubble == pytest.approx(1 - found.at_work / 2)


ROOM = SpeedupBound(4.0, "", 4.0, "")
SETTINGS = Settings("gpipe", 120, 18, cuts=(9,))


def measures(
    splits: int = 100,
    of_unevenness: float = 0.0,
    of_waiting: float = 0.0,
    shares: tuple[float, ...] = (0.5, 0.5),
    sending: float = 0.0,
) -> Measures:
    """Return a batch of one second with these losses, its stages sending for `sending` of the time."""
    stages = len(shares)
    ideal = ideal_bubble("gpipe", Layout(stages, splits))
    bubble = ideal + of_unevenness + of_waiting
    busy, moving = tuple(share * stages * (1 - bubble) for share in shares), (sending,) * stages
    least = (1 - bubble) / (1 - bubble + of_waiting)
    return Measures(splits, 1.0, least, busy, moving, (0.0,) * stages, shares, bubble, ideal)


# ---- advice --------------------------------------------------------------------------------------------------------


def test_few_splits_are_raised_and_small_micro_batches_made_larger() -> None:
    found = measures(4, 0.1, 0.1)
    assert advice(found, SETTINGS, ROOM) == (
        "With 4 splits the schedule alone leaves stages idle 20 % of the time. Raise splits to 8: equal stages then "
        f"idle {100 * ideal_bubble('gpipe', Layout(2, 8)):.1f} %,"
        " if micro-batches of 15 images don't cost more per image."
    )
    assert "Raise splits to 5:" in advice(found, Settings("gpipe", 5, 18), ROOM)
    assert "Raise splits to 10:" in advice(found, Settings("torch_pipelining", 30, 18), ROOM)
    assert "a batch of 4 can't be split further. Use a larger batch_size." in advice(
        found, Settings("gpipe", 4, 18), ROOM
    )
    assert "batch_size or fewer stages." in advice(measures(4, shares=(0.3, 0.3, 0.4)), Settings("gpipe", 4, 18), ROOM)
    slower = SplitCost(12, 4, 2.2)
    assert advice(measures(8), SETTINGS, ROOM, slower) == (
        "Lower splits to 4: an image takes 2.2 times as much work as in run 12, which has larger micro-batches."
    )
    assert "Raise splits" in advice(measures(8), SETTINGS, ROOM, SplitCost(12, 4, 1.05))
    assert "Near the optimum" in advice(measures(40), SETTINGS, ROOM, SplitCost(12, 4, 1.2))
    unsplit = best_speed_up(["cpu", "cpu"], 2, 1, (0.5, 0.5), 1, 1.0)
    assert "Raise splits to 2" in advice(measures(1), SETTINGS, unsplit)


@pytest.mark.parametrize(
    ("shares", "cuts", "says"),
    [
        (
            (0.4, 0.6),
            (9,),
            "stage2 has 60 % of the work and stage1 40 %. Move layer 9 to stage1: set cut to 10 (now 9).",
        ),
        (
            (0.6, 0.4),
            (9,),
            "stage1 has 60 % of the work and stage2 40 %. Move layer 8 to stage2: set cut to 8 (now 9).",
        ),
        (
            (0.3, 0.5, 0.2),
            (4, 9),
            "stage2 has 50 % of the work and stage3 20 %. Move layer 8 to stage3: set cut to 4,8 (now 4,9).",
        ),
        (
            (0.2, 0.5, 0.3),
            (4, 9),
            "stage2 has 50 % of the work and stage1 20 %. Move layer 4 to stage1: set cut to 5,9 (now 4,9).",
        ),
        (
            (0.6, 0.4),
            (),
            (
                "stage1 has 60 % of the work and stage2 40 %. Move the last layer of stage1 to stage2 with the setting "
                "cut."
            ),
        ),
        (
            (0.4, 0.6),
            (17,),
            (
                "stage2 has 60 % of the work and stage1 40 %, but stage2 has only one layer: no cut balances "
                "them better."
            ),
        ),
        (
            (0.5, 0.3, 0.2),
            (1, 9),
            (
                "stage1 has 50 % of the work and stage2 30 %, but stage1 has only one layer: no cut balances "
                "them better, but fewer stages would."
            ),
        ),
    ],
)
def test_unequal_stages_name_the_slower_one_and_the_layer_to_move(
    shares: tuple[float, ...], cuts: tuple[int, ...], says: str
) -> None:
    assert (
        advice(
            measures(of_unevenness=0.2, shares=shares),
            Settings("gpipe", 120, 18, cuts=cuts),
            ROOM,
        )
        == says
    )


def test_waiting_and_unequal_micro_batches_are_cured_by_what_they_come_from() -> None:
    sending, idling = measures(of_waiting=0.3, sending=0.25), measures(of_waiting=0.3, sending=0.02)
    assert "Modes gpipe and 1f1b pass activations" in advice(sending, Settings("rpc", 120, 18), ROOM)
    assert "Set transport to shared_memory" in advice(sending, Settings("gpipe", 120, 18, "rpc"), ROOM)
    assert "cut deeper in the net, where activations are smaller" in advice(sending, SETTINGS, ROOM)
    assert "fewer stages" not in advice(sending, SETTINGS, ROOM)
    assert "Compare with mode gpipe" in advice(
        measures(of_waiting=0.3), Settings("torch_pipelining", 120, 18, peer_schedule="gpipe"), ROOM
    )
    assert "use fewer stages, or cut" in advice(
        measures(of_waiting=0.3, sending=0.25, shares=(0.4, 0.3, 0.3)), SETTINGS, ROOM
    )
    assert "only 2 %: micro-batches are small compared with the transfer overhead. Lower splits" in advice(
        idling, SETTINGS, ROOM
    )
    assert "Check for other programs on the same cores" in advice(
        measures(of_unevenness=0.2, shares=(0.51, 0.49)), SETTINGS, ROOM
    )


def test_little_loss_shared_devices_and_full_cores_are_told() -> None:
    assert advice(measures(30, 0.04, 0.04), SETTINGS, ROOM).startswith("Near the optimum: no single cause makes up")
    shared = best_speed_up(["cuda:0", "cuda:0"], 16, 1, (0.5, 0.5), 4, 1.6)
    assert advice(measures(4), SETTINGS, shared).startswith(
        "All stages share 1 device (cuda:0), so splits can't beat one process"
    )
    shared = best_speed_up(["cpu"] * 4, 2, 1, (0.25,) * 4, 8, 2.9)
    full, idle = (measures(splits, shares=(0.25,) * 4) for splits in (4, 2))
    assert advice(full, SETTINGS, shared).startswith(
        "4 stages share 2 CPU cores with 1 thread per rank, with 2.3 busy at a time. The hardware is the limit"
    )
    assert "Raise splits to 4" in advice(idle, SETTINGS, shared)


@pytest.mark.parametrize(
    ("shares", "splits", "copy_ms", "says"),
    [
        ((0.5, 0.5), 4, 0.2, "Raise splits to 8"),
        ((0.3, 0.7), 16, 0.2, "stage2 has 70 % of the work"),
        ((0.5, 0.5), 60, 1.5, "sending takes"),
        ((0.49, 0.51), 60, 0.02, "Near the optimum"),
    ],
)
def test_traces_with_one_ill_are_told_that_ill(
    shares: tuple[float, ...], splits: int, copy_ms: float, says: str
) -> None:
    found = measure(batches(made("gpipe", shares, splits, copy_ms=copy_ms, jitter=0.01), Layout(2, splits))[0])
    assert says in advice(found, SETTINGS, ROOM)


# ---- the best speed-up ---------------------------------------------------------------------------------------------

EQUAL2, EQUAL4 = (0.5, 0.5), (0.25,) * 4


@pytest.mark.parametrize(
    ("devices", "cores", "threads", "shares", "splits", "best", "because"),
    [
        (["cpu"] * 2, 1, 1, EQUAL2, 4, 1.0, "2 stages on 1 CPU core with 1 thread per rank."),
        (["cpu"] * 2, 2, 2, EQUAL2, 4, 1.0, "2 stages on 2 CPU cores with 2 threads per rank."),
        (["cuda:0"] * 4, 16, 4, EQUAL4, 8, 1.0, "4 stages on 1 device (cuda:0)."),
        (["cpu"] * 4, 2, 1, EQUAL4, 32, 2.0, "4 stages on 2 CPU cores with 1 thread per rank."),
        (["cuda:0", "cuda:1", "cuda:0", "cuda:1"], 16, 4, EQUAL4, 32, 2.0, "4 stages on 2 devices (cuda:0, cuda:1)."),
        (["cpu"] * 2, 2, 1, (0.4, 0.6), 2, 1.25, "Stage shares 40 %, 60 %, 2 splits."),
        (["cpu"] * 2, 2, 1, EQUAL2, 1, 1.0, "Stage shares 50 %, 50 %, 1 split."),
        (["cuda:0", "cuda:1"], 2, 1, EQUAL2, 4, 1.6, "Stage shares 50 %, 50 %, 4 splits."),
    ],
)
def test_the_best_speed_up_is_the_least_of_places_and_cut(
    devices: list[str], cores: int, threads: int, shares: tuple[float, ...], splits: int, best: float, because: str
) -> None:
    bound = 1 / (max(shares) + (1 - max(shares)) / splits)
    found = best_speed_up(devices, cores, threads, shares, splits, bound)
    assert (found.speed_up, found.because) == (pytest.approx(best), because)
