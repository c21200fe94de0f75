"""A pipeline's numbers against a trace made by hand, and against what the mathematics says for equal and unequal stages."""

import random
from dataclasses import replace

import pytest

from engine.analysis.pipeline import Batch, batches, ideal_bubble, measure, unhindered
from engine.analysis.simulation import makespan, play, speed_up_bound
from engine.experiments.pipeline.schedules import Schedule, depth
from engine.recorder import Span
from tests.analysis.traces import START_NS, hand_made, made

SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b")


def of(*spans: Span) -> Batch:
    (found,) = batches(spans, 2, 2)
    return found


# ---- batches -------------------------------------------------------------------------------------------------------


def test_spans_are_told_apart_by_batch_and_an_incomplete_one_is_known() -> None:
    later = [replace(span, micro_batch=span.micro_batch + 2) for span in hand_made() if span.name != "backward"]
    found = batches([*later, *hand_made()], 2, 2)
    assert [(batch.number, batch.complete, len(batch.spans)) for batch in found] == [(3, True, 18), (4, False, 14)]
    assert found[0].start_ns == START_NS
    assert [span.t0_ns for span in found[0].spans] == sorted(span.t0_ns for span in hand_made())


@pytest.mark.parametrize("missing", ["forward", "backward", "update"])
def test_a_batch_without_one_of_its_spans_is_not_complete(missing: str) -> None:
    gone = next(span for span in hand_made() if span.name == missing)
    assert not of(*(span for span in hand_made() if span != gone)).complete


def test_a_batch_is_complete_where_no_stage_records_updates_or_transfers() -> None:
    assert of(*(span for span in hand_made() if span.name in ("forward", "backward"))).complete


def test_a_span_of_no_stage_counts_nowhere() -> None:
    assert of(*hand_made(), Span("send", 2, 6, 0, 9), Span("forward", -1, 6, 0, 9)) == of(*hand_made())


# ---- the trace made by hand ----------------------------------------------------------------------------------------


def test_the_numbers_are_those_found_by_hand() -> None:
    found = measure(of(*hand_made()), "gpipe")
    assert found.window_s == pytest.approx(0.089)
    assert found.busy_s == pytest.approx((0.010 * 4 + 0.002, 0.015 * 4 + 0.003))
    assert found.moving_s == pytest.approx((0.006, 0.004))
    assert found.waiting_s == pytest.approx((0.089 - 0.042 - 0.006, 0.089 - 0.063 - 0.004))
    assert found.shares == pytest.approx((0.4, 0.6))
    assert found.bubble == pytest.approx(1 - (42 + 63) / (2 * 89))
    assert found.ideal == pytest.approx(1 / 3)
    assert found.bound == pytest.approx(1 / (0.6 + 0.4 / 2))
    assert found.bound_bubble == pytest.approx(1 - 1.25 / 2)
    assert found.at_work == pytest.approx(105 / 89)
    assert found.moving == pytest.approx(10 / 178)


def test_the_bubble_is_shared_out_among_its_causes() -> None:
    found = measure(of(*hand_made()), "gpipe")
    # Without transfers: stage 1 forward 0-10-20, stage 2 forward 10-25-40 and backward 40-55-70, stage 1 backward 55-65 and 70-80, update to 82.
    assert found.least_s == pytest.approx(0.082)
    assert found.of_waiting == pytest.approx((89 - 82) / 89)
    # Stages of 50 ms each would end after 75: 2 * 75 - 100 of idle time is the schedule's.
    assert found.of_schedule == pytest.approx(50 / 178)
    assert found.of_unevenness == pytest.approx((2 * 82 - 105 - 50) / 178)
    assert found.of_schedule + found.of_unevenness + found.of_waiting == pytest.approx(found.bubble)


def test_work_that_overlaps_within_a_stage_counts_once() -> None:
    beside = Span("forward", 0, 6, START_NS + 5_000_000, START_NS + 11_000_000)
    found = measure(of(*hand_made(), beside), "gpipe")
    assert found.busy_s[0] == pytest.approx(0.043)
    assert found.waiting_s[0] == pytest.approx(0.041)


def test_the_unhindered_batch_is_the_simulation_of_its_own_durations() -> None:
    free = unhindered(of(*hand_made()), "gpipe")
    assert free.complete
    assert free.start_ns == START_NS
    assert free.window_s == pytest.approx(0.082)
    assert {span.name for span in free.spans} == {"forward", "backward", "update"}
    last = next(span for span in free.spans if (span.name, span.stage, span.micro_batch) == ("backward", 0, 7))
    assert ((last.t0_ns - START_NS) / 1e6, (last.t1_ns - START_NS) / 1e6) == pytest.approx((70, 80))


# ---- the mathematics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "splits"), [(2, 1), (2, 4), (2, 32), (3, 2), (4, 8), (4, 120)])
def test_equal_stages_idle_the_ideal_bubble_and_no_more(schedule: Schedule, stages: int, splits: int) -> None:
    spans = made(schedule, (1 / stages,) * stages, splits, copy_ms=0, jitter=0)
    found = measure(batches([span for span in spans if span.name != "update"], stages, splits)[0], schedule)
    assert found.bubble == pytest.approx(ideal_bubble(stages, splits), abs=1e-6)
    assert found.bubble == pytest.approx(found.bound_bubble, abs=1e-6)
    assert (found.of_unevenness, found.of_waiting) == pytest.approx((0, 0), abs=1e-6)


@pytest.mark.parametrize("shares", [(0.44, 0.56), (0.7, 0.3), (0.1, 0.2, 0.7), (0.1, 0.4, 0.3, 0.2)])
def test_unequal_stages_slowest_in_both_directions_are_bound_by_the_slowest_ones_share(shares: tuple[float, ...]) -> None:
    forward, backward = ([[part * share] * 6 for share in shares] for part in (1.0, 2.0))
    slowest = max(shares)
    in_turn = sum(map(sum, (*forward, *backward)))
    assert in_turn / makespan("gpipe", forward, backward) == pytest.approx(1 / (slowest + (1 - slowest) / 6))
    assert speed_up_bound("gpipe", list(map(sum, forward)), list(map(sum, backward)), 6) == pytest.approx(1 / (slowest + (1 - slowest) / 6))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_simulation_keeps_to_order_and_needs_whatever_the_durations(schedule: Schedule) -> None:
    draw = random.Random(3)
    for stages, splits in ((2, 5), (3, 7), (4, 3)):
        forward, backward = ([[draw.uniform(0.1, 3) for _ in range(splits)] for _ in range(stages)] for _ in range(2))
        played = {(each.what, each.stage, each.micro_batch): each for each in play(schedule, forward, backward, transfer=0.5)}
        assert len(played) == 2 * stages * splits
        for (what, stage, number), each in played.items():
            lasts = (forward if what == "forward" else backward)[stage][number]
            assert each.end - each.start == pytest.approx(lasts)
            before = (what, stage - 1, number) if what == "forward" else (what, stage + 1, number)
            assert before not in played or played[before].end + 0.5 <= each.start + 1e-9
            assert what == "forward" or played["forward", stage, number].end <= each.start + 1e-9
            others = [other for other in played.values() if other.stage == stage and other != each]
            assert all(other.end <= each.start + 1e-9 or other.start >= each.end - 1e-9 for other in others)
            held = sum(o.start <= each.start < played["backward", stage, o.micro_batch].end for o in (each, *others) if o.what == "forward")
            assert held <= depth(schedule, stage, stages, splits)
        busiest = max(sum(forward[stage]) + sum(backward[stage]) for stage in range(stages))
        assert makespan(schedule, forward, backward) >= busiest


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_real_looking_trace_adds_up(schedule: Schedule) -> None:
    spans = made(schedule, (0.2, 0.3, 0.28, 0.22), 8, batch=5)
    found = measure(batches(spans, 4, 8)[0], schedule)
    for busy, moving, waiting in zip(found.busy_s, found.moving_s, found.waiting_s, strict=True):
        assert busy + moving + waiting == pytest.approx(found.window_s)
    assert found.least_s < found.window_s
    assert found.bubble > found.ideal
    assert found.of_schedule + found.of_unevenness + found.of_waiting == pytest.approx(found.bubble)
    assert min(found.of_schedule, found.of_unevenness, found.of_waiting) > 0
