"""The schedules as drawings: what stages do in each unit of time when each operation takes one unit and transfers none;
and what holds for tables of any size.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import get_args

import pytest

from engine.pipelining import (
    Action,
    Layout,
    Schedule,
    What,
    actions,
    bubble,
    depth,
    forwards,
    ideal_bubble,
    makespan,
    orders,
    play,
    sizes,
)

DRAWINGS: dict[tuple[Schedule, int, int], str] = {
    ("gpipe", 2, 4): """
        F0 F1 F2 F3 .  .  B0 B1 B2 B3
        .  F0 F1 F2 F3 B0 B1 B2 B3 .
    """,
    ("1f1b", 2, 4): """
        F0 F1 .  B0 F2 B1 F3 B2 .  B3
        .  F0 B0 F1 B1 F2 B2 F3 B3 .
    """,
    ("gpipe", 4, 8): """
        F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  B0 B1 B2 B3 B4 B5 B6 B7
        .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  B0 B1 B2 B3 B4 B5 B6 B7 .
        .  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  B0 B1 B2 B3 B4 B5 B6 B7 .  .
        .  .  .  F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7 .  .  .
    """,
    ("1f1b", 4, 8): """
        F0 F1 F2 F3 .  .  .  B0 F4 B1 F5 B2 F6 B3 F7 B4 .  B5 .  B6 .  B7
        .  F0 F1 F2 .  .  B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 .  B6 .  B7 .
        .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 .  B7 .  .
        .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 .  .  .
    """,
    ("gpipe", 3, 2): """
        F0 F1 .  .  .  .  B0 B1
        .  F0 F1 .  .  B0 B1 .
        .  .  F0 F1 B0 B1 .  .
    """,
    ("1f1b", 3, 2): """
        F0 F1 .  .  .  B0 .  B1
        .  F0 F1 .  B0 .  B1 .
        .  .  F0 B0 F1 B1 .  .
    """,
    ("interleaved", 2, 4): """
        F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 .  b2 .  b3 B2 B3
        .  F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3 .
    """,
    ("zb_h1", 4, 8): """
        F0 F1 F2 F3 .  .  .  B0 W0 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 B5 W5 B6 W6 B7 W7
        .  F0 F1 F2 .  .  B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7
        .  .  F0 F1 .  B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5 W6 W7
        .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 W5 W6 W7
    """,
    ("zb_h1", 2, 4): """
        F0 F1 .  B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
        .  F0 B0 F1 B1 W0 F2 B2 W1 F3 B3 W2 W3
    """,
    ("zb_h1", 3, 2): """
        F0 F1 .  .  .  B0 W0 B1 W1
        .  F0 F1 .  B0 .  B1 W0 W1
        .  .  F0 B0 F1 B1 W0 W1 .
    """,
    ("gpipe", 2, 1): """
        F0 .  .  B0
        .  F0 B0 .
    """,
    ("1f1b", 2, 1): """
        F0 .  .  B0
        .  F0 B0 .
    """,
}


def letter(action: Action) -> str:
    """Return an action as drawn: W is a weight gradient, small letters are the second chunk."""
    name = (
        f"{'W' if action.what == 'weight_gradient' else 'F' if action.what == 'forward' else 'B'}{action.micro_batch}"
    )
    return name.lower() if action.chunk else name


def unit(stage: int, action: Action) -> float:
    return 1.0


def drawn(schedule: Schedule, layout: Layout) -> list[list[str]]:
    """Return what `play` does with unit times: a row a stage, a cell a unit."""
    table = orders(schedule, layout)
    rows = [["."] * int(makespan(table, layout, unit)) for _ in range(layout.stages)]
    for each in play(table, layout, unit):
        assert rows[each.stage][int(each.start)] == "."
        rows[each.stage][int(each.start)] = letter(each.action)
    return rows


@pytest.mark.parametrize(("schedule", "stages", "splits"), DRAWINGS)
def test_a_schedule_is_its_drawing(schedule: Schedule, stages: int, splits: int) -> None:
    layout = Layout(stages, splits, 2 if schedule == "interleaved" else 1)
    rows = [line.split() for line in DRAWINGS[schedule, stages, splits].strip().splitlines()]
    assert drawn(schedule, layout) == rows
    for stage, row in enumerate(rows):
        order = [letter(action) for action in actions(schedule, stage, layout)]
        assert order == [cell for cell in row if cell != "."]


def layouts(schedule: Schedule) -> Iterator[Layout]:
    """Yield layouts of all sizes that the schedule takes."""
    for stages, splits in product(range(1, 6), range(1, 21)):
        if schedule != "interleaved":
            yield Layout(stages, splits)
        elif splits % stages == 0:
            yield from (Layout(stages, splits, chunks) for chunks in (2, 3, 4))


@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_every_table_has_each_operation_once_and_ends_without_a_deadlock(schedule: Schedule) -> None:
    for layout in layouts(schedule):
        table = orders(schedule, layout)
        played = play(table, layout, unit)  # raises ValueError where stages wait for each other
        kinds = ("forward", "input_gradient", "weight_gradient") if schedule == "zb_h1" else ("forward", "backward")
        every = {Action(what, *each) for what in kinds for each in forwards(layout)}
        ends = {(each.stage, each.action): each for each in played}
        for stage, order in enumerate(table):
            assert (len(order), set(order)) == (len(every), every)
            for number, chunk in forwards(layout):
                times = [ends[stage, Action(what, number, chunk)] for what in kinds]
                assert all(one.end <= after.start for one, after in pairwise(times)), "F, then B, then W"
        free = makespan(table, layout, unit)
        assert all(each.end <= free for each in played)


def test_a_table_whose_stages_wait_for_each_other_is_refused() -> None:
    first, last = [Action("backward", 0), Action("forward", 0)], [Action("forward", 0), Action("backward", 0)]
    with pytest.raises(ValueError, match="The stages wait for each other: stage 1 at "):
        play([first, last], Layout(2, 1), unit)


@pytest.mark.parametrize("schedule", get_args(Schedule))
@pytest.mark.parametrize("work", [(1, 1, 1), (1, 1.2, 0.8), (1, 0.8, 1.2), (1, 2, 0.5), (1, 2, 1.5), (2, 1, 3)])
def test_the_simulated_bubble_is_the_papers_formula(schedule: Schedule, work: tuple[float, ...]) -> None:
    ahead, of_inputs, of_weights = work
    lasts = dict(zip(get_args(What), (ahead, of_inputs + of_weights, of_inputs, of_weights), strict=False))
    for layout in layouts(schedule):
        if layout.splits >= layout.stages:
            found = bubble(orders(schedule, layout), layout, lambda stage, action: lasts[action.what])
            assert found == pytest.approx(ideal_bubble(schedule, layout, work), abs=1e-9), layout


def test_zero_bubble_fills_the_bubble_at_the_memory_of_1f1b() -> None:
    """At 4 stages, 8 splits and equal times 3/27 of the time is idle instead of 3/11, and no stage holds more than the
    fullest one by 1f1b.
    """
    layout = Layout(4, 8)
    assert ideal_bubble("zb_h1", layout) == pytest.approx(3 / 27)
    assert ideal_bubble("1f1b", layout) == pytest.approx(3 / 11)
    assert ideal_bubble("interleaved", replace(layout, chunks=2)) == pytest.approx(3 / 19)
    for layout in layouts("zb_h1"):
        held = [held_by(schedule, stage, layout) for schedule in ("zb_h1", "1f1b") for stage in range(layout.stages)]
        assert max(held[: layout.stages]) <= max(held[layout.stages :]) == min(layout.stages, layout.splits)


def held_by(schedule: Schedule, stage: int, layout: Layout) -> int:
    """Return the most micro-batches of a chunk whose activations a stage holds until nothing needs them."""
    held = most = 0
    for action in actions(schedule, stage, layout):
        held += (action.what == "forward") - (action.what in ("backward", "weight_gradient"))
        most = max(most, held)
    assert held == 0
    return most


@pytest.mark.parametrize(("schedule", "stages", "splits"), DRAWINGS)
def test_a_slot_is_rewritten_only_after_its_micro_batch_came_back(schedule: Schedule, stages: int, splits: int) -> None:
    layout = Layout(stages, splits, 2 if schedule == "interleaved" else 1)
    for stage, chunk in product(range(stages), range(layout.chunks)):
        slots, under_way = depth(schedule, stage, layout, chunk), {}
        for what, number, at in actions(schedule, stage, layout):
            if at == chunk and what == "forward":
                assert under_way.setdefault(number % slots, number) == number
            elif at == chunk and what != "weight_gradient":
                del under_way[number % slots]


@pytest.mark.parametrize(("batch_size", "splits"), [(120, 4), (10, 4), (7, 7), (5, 1), (121, 15)])
def test_a_batch_is_cut_as_evenly_as_it_goes(batch_size: int, splits: int) -> None:
    found = sizes(batch_size, splits)
    assert (len(found), sum(found)) == (splits, batch_size)
    assert max(found) - min(found) <= 1
    assert found == sorted(found, reverse=True)
