"""What is stored of a run's operations: its start, samples of whole steps, its end, and no more than the budget."""

import itertools

import numpy as np
import pytest

from engine.trace import ring_reader
from engine.trace.chunk import DTYPE, Entries
from engine.trace.ring_reader import SECOND, TraceSampler

ZERO = 1_000 * SECOND


def entries(*at_s: float) -> Entries:
    """Return operations of a millisecond that were entered then, in seconds after all ranks were ready."""
    found = np.zeros(len(at_s), DTYPE)
    found["entered_ns"] = [ZERO + round(at * SECOND) for at in at_s]
    found["left_ns"] = found["entered_ns"] + SECOND // 1000
    return found


def seconds(found: Entries) -> list[float]:
    return [round((int(at) - ZERO) / SECOND, 3) for at in found["entered_ns"]]


def spans(chosen: TraceSampler) -> list[tuple[str, float, float]]:
    return [
        (each.reason, round((each.begin_ns - ZERO) / SECOND, 3), round((each.end_ns - ZERO) / SECOND, 3))
        for each in chosen.windows
    ]


def test_start_samples_and_end_are_stored_and_nothing_else() -> None:
    chosen = TraceSampler(1)
    assert seconds(chosen.choose(0, entries(-1.0))) == [], "before all ranks are ready"
    chosen.begin(ZERO)
    assert seconds(chosen.choose(0, entries(0.0, 1.9, 2.1, 6.5))) == [0.0, 1.9]
    chosen.extend(ZERO + 6 * SECOND, [10])
    assert len(chosen.windows) == 1, "not due yet"
    chosen.extend(ZERO + 7 * SECOND, [70])
    assert spans(chosen)[1] == ("sample", 7.0, 7.4), "four steps of a tenth of a second"
    assert seconds(chosen.choose(0, entries(7.0, 7.39, 7.4, 9.4, 9.8))) == [7.0, 7.39]
    [tail] = chosen.finish(ZERO + 10 * SECOND)
    assert seconds(tail) == [9.8] and spans(chosen)[-1] == ("end", 9.5, 10.0)


def test_a_late_entry_of_an_earlier_window_is_stored() -> None:
    chosen = TraceSampler(2)
    chosen.begin(ZERO)
    chosen.extend(ZERO + 8 * SECOND, [1, 1])
    assert seconds(chosen.choose(1, entries(1.5, 3.0, 8.1))) == [1.5, 8.1], "it lasted until now"


def test_a_sample_holds_whole_steps_of_the_slowest_rank_within_limits() -> None:
    for steps, length in (
        ([8, 16], 4.0),
        ([2], ring_reader.LONGEST_S),
        ([100_000], ring_reader.SHORTEST_S),
        ([0], 0.8),
    ):
        chosen = TraceSampler(len(steps))
        chosen.begin(ZERO)
        chosen.extend(ZERO + 8 * SECOND, steps)
        assert spans(chosen)[1] == ("sample", 8.0, 8 + length)


def test_what_is_asked_for_is_stored_whole_and_joins_an_open_window() -> None:
    chosen = TraceSampler(1)
    chosen.begin(ZERO)
    chosen.request(ZERO + SECOND, 5.0)
    assert spans(chosen) == [("request", 0.0, 6.0)]
    many = entries(*np.linspace(1.0, 5.9, ring_reader.PER_WINDOW + 5_000))
    assert len(chosen.choose(0, many)) == len(many)
    assert spans(chosen) == [("request", 0.0, 6.0)]


def test_a_window_ends_early_for_all_ranks_where_one_has_stored_enough() -> None:
    chosen = TraceSampler(2)
    chosen.begin(ZERO)
    fast = entries(*np.linspace(0.0, 1.0, ring_reader.PER_WINDOW + 1))
    assert len(chosen.choose(0, fast)) == len(fast)
    assert spans(chosen) == [("start", 0.0, 1.0)]
    assert seconds(chosen.choose(1, entries(0.5, 1.5))) == [0.5]


def test_samples_become_rarer_as_the_budget_is_used_and_stop_at_its_end() -> None:
    chosen, now, begun = TraceSampler(1), 2.0, []
    chosen.begin(ZERO)
    stored = 0
    for _ in range(20_000):
        now += 1.0
        before = len(chosen.windows)
        chosen.extend(ZERO + round(now * SECOND), [round(now * 10)])
        if len(chosen.windows) > before:
            begun.append(now)
            stored += len(chosen.choose(0, entries(*np.linspace(now, now + 0.3, 19_000))))
    gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert gaps == sorted(gaps) and gaps[-1] > 4 * gaps[0]
    assert stored <= ring_reader.BUDGET + ring_reader.PER_WINDOW


@pytest.mark.parametrize("per_sample", [0, 10, 3_000, 19_000])
@pytest.mark.parametrize("hours", [1, 200])
def test_a_run_of_any_length_has_few_samples_and_some_late_ones(per_sample: int, hours: int) -> None:
    chosen, now, last = TraceSampler(1), 2.0, 0.0
    chosen.begin(ZERO)
    while now < hours * 3_600:
        now = max(now + 0.25, (chosen._next_ns - ZERO) / SECOND)
        before = len(chosen.windows)
        chosen.extend(ZERO + round(now * SECOND), [round(now * 10)])
        if len(chosen.windows) > before:
            last = now
            chosen.choose(0, entries(*np.linspace(now, now + 0.3, per_sample)))
    assert 5 < len(chosen.windows) < 300 and last > hours * 3_600 / 4


def test_a_resumed_run_has_samples_of_whole_steps_though_it_counts_steps_from_its_checkpoint() -> None:
    chosen = TraceSampler(1)
    chosen.begin(ZERO)
    chosen.extend(ZERO + 8 * SECOND, [50_008])
    chosen.extend(ZERO + 28 * SECOND, [50_028])
    assert spans(chosen)[2] == ("sample", 28.0, 32.0)


def test_the_end_overlaps_no_window() -> None:
    chosen = TraceSampler(1)
    chosen.begin(ZERO)
    assert seconds(chosen.choose(0, entries(1.0))) == [1.0]
    assert [len(each) for each in chosen.finish(ZERO + round(1.2 * SECOND))] == [0]
    assert spans(chosen) == [("start", 0.0, 1.2)]


def test_the_tail_is_bounded() -> None:
    chosen = TraceSampler(1)
    for second in range(100):
        chosen.choose(0, entries(*np.linspace(second, second + 0.9, 3_000)))
    [tail] = chosen.finish(ZERO + 100 * SECOND)
    assert 0 < len(tail) <= 2 * ring_reader.TAIL
