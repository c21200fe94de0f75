"""What is said of a stretch of a run, from paths with a known answer."""

from collections.abc import Mapping
from typing import Any

import pytest

from engine.analysis.timeline import PathShares, sentences
from engine.trace.critical_path import HELD, PathPart

ROLES = ("ps", "trainer1", "trainer2", "trainer3")
MS = 1_000_000


def said(
    *parts: tuple[str, str, float], work: Mapping[str, float] | None = None, config: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the sentences on a path of (role, kind, milliseconds), of an unknown cause where the kind ends in "?", in
    a stretch in which ranks have `work` milliseconds of their own.
    """
    path = [
        PathPart(ROLES.index(role), kind.rstrip("?"), 0, round(spent * MS), known=not kind.endswith("?"))
        for role, kind, spent in parts
    ]
    own = [round((work or {}).get(role, 0.0) * MS) for role in ROLES]
    return sentences(PathShares.of(path, ROLES, own), len(ROLES), config)


def test_shares_and_what_free_messages_would_bring_are_exact() -> None:
    first, second, third = said(
        ("trainer1", "compute", 30), ("trainer2", "compute", 20), ("ps", "message", 30), ("trainer1", "communicate", 20)
    )
    assert first == (
        "In this stretch, the critical path (100 ms) is computing for 50 %, 30 % in trainer1; messages on their way "
        "30 %, communication 20 %."
    )
    assert second == (
        "Exchange between ranks takes 50 % of it: without messages and waits the same work would take 50 ms, "
        "2.00 times as fast."
    )
    assert third.startswith("Exchange less often or less")


def test_without_exchange_more_ranks_are_the_advice() -> None:
    assert said(("trainer1", "compute", 97), ("trainer1", "update", 3)) == [
        "In this stretch, the critical path (100 ms) is computing for 97 %, all in trainer1.",
        "Exchange between ranks takes none of it.",
        "Faster messages would not help here; more ranks do, as long as there are free cores for them.",
    ]


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        ([("trainer1", "evaluate", 60), ("trainer1", "compute", 40)], "Evaluate less often"),
        ([("trainer1", "data", 30), ("trainer1", "compute", 70)], "Load data ahead"),
        ([("trainer1", "lock", 20), ("trainer1", "compute", 80)], "Hold the lock"),
        ([("ps", "serve", 50), ("trainer1", "compute", 50)], "The server is the bottleneck"),
        ([("trainer1", HELD, 30), ("trainer2", HELD, 30), ("trainer1", "compute", 40)], "Hold the lock"),
        ([("trainer1", "collective", 40), ("trainer1", "compute", 60)], "Exchange less often"),
    ],
)
def test_what_to_change_follows_from_what_takes_the_time(parts: list[tuple[str, str, float]], advice: str) -> None:
    assert said(*parts)[-1].startswith(advice)


def test_a_slow_rank_is_one_with_more_work_than_the_others_like_it() -> None:
    parts = [("trainer2", "compute", 10.0), ("trainer3", "compute", 60.0), ("ps", "message", 30.0)]
    waiting = {"ps": 90.0, "trainer1": 20.0, "trainer2": 20.0, "trainer3": 60.0}
    assert said(*parts, work=waiting)[-1].startswith("trainer3 is on the path")
    assert said(("trainer3", "compute", 100), work=waiting)[-1].startswith("trainer3 is on the path")
    busy = {"trainer1": 95.0, "trainer2": 90.0, "trainer3": 98.0}
    assert not said(*parts, work=busy)[-1].startswith("trainer3")
    assert said(("trainer3", "compute", 100), work=busy)[-1].startswith("Faster messages would not help")


def test_the_predicted_time_is_never_below_a_ranks_own_work() -> None:
    parts = [("trainer1", "compute", 20.0), ("ps", "message", 60.0), ("ps", "serve", 20.0)]
    assert said(*parts, work={"ps": 98.0, "trainer1": 20.0})[1] == (
        "Exchange between ranks takes 60 % of it, but ps is at work for 98 % of the time: without messages and waits "
        "the same work would take at least 98 ms, at most 1.02 times as fast."
    )
    assert said(*parts, work={"ps": 300.0})[1].endswith("at least 100 ms, at most 1.00 times as fast.")
    assert said(*parts, work={"ps": 40.0})[1].endswith("the same work would take 40 ms, 2.50 times as fast.")
    assert said(("ps", "message", 100.0), work={"ps": 40.0})[1].endswith("at least 40 ms, at most 2.50 times as fast.")
    assert said(("ps", "message", 100.0))[1] == "All of it is exchange between ranks."


def test_no_speed_up_is_derived_from_a_wait_of_an_unknown_cause() -> None:
    first, second, *advice = said(("trainer1", "wait?", 89), ("trainer1", "compute", 11))
    assert first == (
        "In this stretch, the critical path (100 ms) is waiting for something that is not traced for 89 %; computing "
        "11 %."
    )
    assert second == (
        "The trace does not show what 89 % of it waited for, so how much faster the same work could be is not known."
    )
    assert advice == [] and " times as fast" not in first + second
    little = said(("trainer1", "communicate?", 4), ("ps", "message", 20), ("trainer1", "compute", 76))
    assert little[1].endswith("would take 80 ms, 1.25 times as fast."), "the unknown wait counts as one that stays"


@pytest.mark.parametrize(
    ("parts", "config", "advice"),
    [
        ("message", {"transport": "shared_memory", "batch_size": 4}, "more work per message, or a larger batch."),
        (
            "message",
            {"transport": "rpc", "batch_size": 4},
            "more work per message, a larger batch, or the shared-memory transport.",
        ),
        (
            "message",
            {"variant": "tutorial", "transport": "rpc", "batch_size": 4},
            "more work per message, a larger batch, or the variant engine.",
        ),
        ("message", {"max_queue_size": 4}, "Exchange less often or less: more work per message."),
        (
            "message",
            {"envs_per_observer": 1, "transport": "shared_memory"},
            "environments per message (envs_per_observer).",
        ),
        ("serve", {"mode": "per_call", "envs_per_observer": 1}, "(mode batched), or use fewer observers."),
        ("serve", {"mode": "batched", "envs_per_observer": 1}, "(envs_per_observer), or use fewer observers."),
        (
            "serve",
            {"batch_size": 4, "batch_update_size": 4},
            "compute more per request (batch_size), or use fewer trainers.",
        ),
        ("data", {"variant": "tutorial"}, "Choose the variant engine, which holds the data in memory."),
        ("evaluate", {"evaluate_every": 5}, "Evaluate less often: it is on the critical path."),
        ("compute", {"splits": 4}, "smaller bubbles do: more splits, or stages of equal work."),
    ],
)
def test_the_advice_leaves_out_what_the_run_does_already(parts: str, config: dict[str, Any], advice: str) -> None:
    share = 100 if parts == "compute" else 60
    others = [("trainer1", "update", 100.0 - share)] if share < 100 else []
    assert said(("trainer2", parts, share), *others, config=config)[-1].endswith(advice)


def test_a_test_at_the_end_alone_can_not_be_rarer() -> None:
    assert not said(("trainer1", "evaluate", 90), ("trainer1", "compute", 10), config={"evaluate_every": 0})[2:]


def test_nothing_is_said_of_an_empty_path_and_no_advice_without_a_reason() -> None:
    assert sentences(PathShares.of([], ROLES), 4) == []
    assert len(said(("trainer1", "compute", 60), ("trainer1", "update", 20), ("ps", "message", 20))) == 2


def test_one_rank_exchanges_nothing_and_is_told_so_little() -> None:
    path = [PathPart(0, "compute", 0, 4 * MS)]
    assert sentences(PathShares.of(path, ("main",)), 1) == [
        "In this stretch, the critical path (4 ms) is computing for 100 %, all in main."
    ]
