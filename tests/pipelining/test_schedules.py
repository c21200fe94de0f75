"""The schedules as drawings: what stages do in each unit of time when a forward and a backward take one unit each and
transfers none.
"""

import pytest

from engine.pipelining import Schedule, actions, depth, makespan, play, sizes

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
    ("gpipe", 2, 1): """
        F0 .  .  B0
        .  F0 B0 .
    """,
    ("1f1b", 2, 1): """
        F0 .  .  B0
        .  F0 B0 .
    """,
}


def drawn(schedule: Schedule, stages: int, splits: int) -> list[list[str]]:
    """Return what `play` does with unit times: a row a stage, a cell a unit."""
    units = [[1.0] * splits] * stages
    rows = [["."] * int(makespan(schedule, units, units)) for _ in range(stages)]
    for each in play(schedule, units, units):
        assert rows[each.stage][int(each.start)] == "."
        rows[each.stage][int(each.start)] = f"{each.what[0].upper()}{each.micro_batch}"
    return rows


@pytest.mark.parametrize(("schedule", "stages", "splits"), DRAWINGS)
def test_a_schedule_is_its_drawing(schedule: Schedule, stages: int, splits: int) -> None:
    rows = [line.split() for line in DRAWINGS[schedule, stages, splits].strip().splitlines()]
    assert drawn(schedule, stages, splits) == rows
    assert len(rows[0]) == 2 * (splits + stages - 1)
    for stage, row in enumerate(rows):
        order = [f"{what[0].upper()}{number}" for what, number in actions(schedule, stage, stages, splits)]
        assert order == [cell for cell in row if cell != "."]


@pytest.mark.parametrize(("schedule", "stages", "splits"), DRAWINGS)
def test_a_stage_holds_no_more_activations_than_its_depth(schedule: Schedule, stages: int, splits: int) -> None:
    for stage in range(stages):
        held, most = 0, 0
        for what, _ in actions(schedule, stage, stages, splits):
            held += 1 if what == "forward" else -1
            most = max(most, held)
        assert (held, most) == (0, depth(schedule, stage, stages, splits))


@pytest.mark.parametrize(("batch_size", "splits"), [(120, 4), (10, 4), (7, 7), (5, 1), (121, 15)])
def test_a_batch_is_cut_as_evenly_as_it_goes(batch_size: int, splits: int) -> None:
    found = sizes(batch_size, splits)
    assert (len(found), sum(found)) == (splits, batch_size)
    assert max(found) - min(found) <= 1
    assert found == sorted(found, reverse=True)
