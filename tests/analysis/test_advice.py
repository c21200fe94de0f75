"""The advice names the largest loss with its cure, and the best speed-up is what the machine and the cut allow."""

import pytest

from engine.analysis.advice import Best, Settings, Slower, advice, best_speed_up
from engine.analysis.pipeline import Measures, batches, ideal_bubble, measure
from tests.analysis.traces import made

ROOM = Best(4.0, "", 4.0, "")
SETTINGS = Settings("gpipe", "gpipe", 120, 18, cuts=(9,))


def measures(
    of_schedule: float = 0.0, of_unevenness: float = 0.0, of_waiting: float = 0.0, shares: tuple[float, ...] = (0.5, 0.5), sending: float = 0.0
) -> Measures:
    """Return a batch of one second and 4 splits with these losses, its stages sending for `sending` of the time."""
    bubble, stages = of_schedule + of_unevenness + of_waiting, len(shares)
    busy, moving = tuple(share * stages * (1 - bubble) for share in shares), (sending,) * stages
    return Measures(4, 1.0, 1 - of_waiting, busy, moving, (0.0,) * stages, shares, bubble, of_schedule, of_unevenness, of_waiting, 1.0)


# ---- advice --------------------------------------------------------------------------------------------------------


def test_few_splits_are_to_be_raised_as_far_as_a_batch_can_be_cut() -> None:
    found = measures(of_schedule=0.2, of_unevenness=0.1, of_waiting=0.1)
    assert advice(found, SETTINGS, ROOM) == (
        f"With 4 splits the schedule alone idles 20 % of the time: raise splits to 8, where equal stages idle {100 * ideal_bubble(2, 8):.0f} %,"
        " if micro-batches of 15 images cost no more each."
    )
    assert "raise splits to 5," in advice(found, Settings("gpipe", "gpipe", 5, 18), ROOM)
    assert "raise splits to 10," in advice(found, Settings("torch_pipelining", "gpipe", 30, 18), ROOM)
    assert "a batch of 4 can't be cut further: take a larger batch_size." in advice(found, Settings("gpipe", "gpipe", 4, 18), ROOM)
    assert "batch_size or fewer stages." in advice(measures(of_schedule=0.2, shares=(0.3, 0.3, 0.4)), Settings("gpipe", "gpipe", 4, 18), ROOM)


@pytest.mark.parametrize(
    ("shares", "cuts", "says"),
    [
        ((0.4, 0.6), (9,), "stage2 has 60 % of the work and stage1 40 %: move layer 9 to stage1, which is cut 10 (now 9)."),
        ((0.6, 0.4), (9,), "stage1 has 60 % of the work and stage2 40 %: move layer 8 to stage2, which is cut 8 (now 9)."),
        ((0.3, 0.5, 0.2), (4, 9), "stage2 has 50 % of the work and stage3 20 %: move layer 8 to stage3, which is cut 4,8 (now 4,9)."),
        ((0.2, 0.5, 0.3), (4, 9), "stage2 has 50 % of the work and stage1 20 %: move layer 4 to stage1, which is cut 5,9 (now 4,9)."),
        ((0.6, 0.4), (), "stage1 has 60 % of the work and stage2 40 %: move the last layer of stage1 to stage2 by cut."),
        ((0.4, 0.6), (17,), "stage2 has 60 % of the work and stage1 40 %, but stage2 has one layer only, so no cut makes them more equal."),
        (
            (0.5, 0.3, 0.2),
            (1, 9),
            "stage1 has 50 % of the work and stage2 30 %, but stage1 has one layer only, so no cut makes them more equal; fewer stages would be more equal.",
        ),
    ],
)
def test_unequal_stages_name_the_slower_one_and_the_layer_to_move(shares: tuple[float, ...], cuts: tuple[int, ...], says: str) -> None:
    assert advice(measures(of_schedule=0.1, of_unevenness=0.2, shares=shares), Settings("gpipe", "gpipe", 120, 18, cuts=cuts), ROOM) == says


def test_equal_stages_with_unequal_micro_batches_point_to_other_programs() -> None:
    assert "look for other programs on their cores" in advice(measures(of_unevenness=0.2, shares=(0.51, 0.49)), SETTINGS, ROOM)


def test_waiting_is_cured_by_what_it_comes_from() -> None:
    sending, idling = measures(of_waiting=0.3, sending=0.25), measures(of_waiting=0.3, sending=0.02)
    assert "mode gpipe or 1f1b hands activations" in advice(sending, Settings("rpc", "gpipe", 120, 18), ROOM)
    assert "choose transport shared_memory" in advice(sending, Settings("gpipe", "gpipe", 120, 18, "rpc"), ROOM)
    assert "cut where activations are smaller" in advice(sending, SETTINGS, ROOM)
    assert "fewer stages" not in advice(sending, SETTINGS, ROOM)
    assert "hold mode gpipe against it" in advice(measures(of_waiting=0.3), Settings("torch_pipelining", "gpipe", 120, 18), ROOM)
    assert "take fewer stages, or cut" in advice(measures(of_waiting=0.3, sending=0.25, shares=(0.4, 0.3, 0.3)), SETTINGS, ROOM)
    assert "sending takes only 2 %: micro-batches are small beside the time of a hand-over; lower splits" in advice(idling, SETTINGS, ROOM)


def test_small_micro_batches_that_cost_more_are_to_be_made_larger() -> None:
    slower = Slower(12, 4, 2.2)
    assert advice(measures(of_schedule=0.1), SETTINGS, ROOM, slower) == (
        "Lower splits to 4: an image takes 2.2 times the work that it takes in run 12, whose micro-batches are larger."
    )
    assert "raise splits" in advice(measures(of_schedule=0.1), SETTINGS, ROOM, Slower(12, 4, 1.05))
    assert "Near what" in advice(measures(of_schedule=0.03), SETTINGS, ROOM, Slower(12, 4, 1.2))


def test_little_loss_is_near_what_can_be_had_and_one_device_is_past_all_cure() -> None:
    assert advice(measures(0.04, 0.04, 0.04), SETTINGS, ROOM).startswith("Near what can be had: of the 12 % of the time that stages idle")
    shared = best_speed_up(["cuda:0", "cuda:0"], 16, 1, (0.5, 0.5), 4, 1.6)
    assert advice(measures(of_schedule=0.4), SETTINGS, shared).startswith("All stages share 1 device (cuda:0): splits can't make this faster")


def test_stages_that_fill_the_cores_they_share_are_told_so() -> None:
    shared = best_speed_up(["cpu"] * 4, 2, 1, (0.25,) * 4, 8, 2.9)
    full, idle = (measures(of_schedule=lost, shares=(0.25,) * 4) for lost in (0.4, 0.6))
    assert advice(full, SETTINGS, shared).startswith("4 stages share 2 CPU cores at 1 thread a rank, on which 2.4 work at a time: that is the limit")
    assert "raise splits to 8" in advice(idle, SETTINGS, shared)


def test_one_split_on_two_cores_is_cured_by_more_splits() -> None:
    unsplit = best_speed_up(["cpu", "cpu"], 2, 1, (0.5, 0.5), 1, 1.0)
    assert "raise splits to 8" in advice(measures(of_schedule=0.5), SETTINGS, unsplit)


@pytest.mark.parametrize(
    ("shares", "splits", "copy_ms", "says"),
    [
        ((0.5, 0.5), 4, 0.2, "raise splits to 8"),
        ((0.3, 0.7), 16, 0.2, "stage2 has 70 % of the work"),
        ((0.5, 0.5), 60, 1.5, "sending takes"),
        ((0.49, 0.51), 60, 0.02, "Near what can be had"),
    ],
)
def test_traces_with_one_ill_are_told_that_ill(shares: tuple[float, ...], splits: int, copy_ms: float, says: str) -> None:
    found = measure(batches(made("gpipe", shares, splits, copy_ms=copy_ms, jitter=0.01), 2, splits)[0], "gpipe")
    assert says in advice(found, SETTINGS, ROOM)


# ---- the best speed-up ---------------------------------------------------------------------------------------------

EQUAL2, EQUAL4 = (0.5, 0.5), (0.25,) * 4


@pytest.mark.parametrize(
    ("devices", "cores", "threads", "shares", "splits", "best", "because"),
    [
        (["cpu"] * 2, 1, 1, EQUAL2, 4, 1.0, "2 stages on 1 CPU core at 1 thread a rank."),
        (["cpu"] * 2, 2, 2, EQUAL2, 4, 1.0, "2 stages on 2 CPU cores at 2 threads a rank."),
        (["cuda:0"] * 4, 16, 4, EQUAL4, 8, 1.0, "4 stages on 1 device (cuda:0)."),
        (["cpu"] * 4, 2, 1, EQUAL4, 32, 2.0, "4 stages on 2 CPU cores at 1 thread a rank."),
        (["cuda:0", "cuda:1", "cuda:0", "cuda:1"], 16, 4, EQUAL4, 32, 2.0, "4 stages on 2 devices (cuda:0, cuda:1)."),
        (["cpu"] * 2, 2, 1, (0.4, 0.6), 2, 1.25, "Stages with 40 %, 60 % of the work, in 2 splits."),
        (["cpu"] * 2, 2, 1, EQUAL2, 1, 1.0, "Stages with 50 %, 50 % of the work, in 1 split."),
        (["cuda:0", "cuda:1"], 2, 1, EQUAL2, 4, 1.6, "Stages with 50 %, 50 % of the work, in 4 splits."),
    ],
)
def test_the_best_speed_up_is_the_least_of_places_and_cut(
    devices: list[str], cores: int, threads: int, shares: tuple[float, ...], splits: int, best: float, because: str
) -> None:
    bound = 1 / (max(shares) + (1 - max(shares)) / splits)
    found = best_speed_up(devices, cores, threads, shares, splits, bound)
    assert (found.speed_up, found.because) == (pytest.approx(best), because)
