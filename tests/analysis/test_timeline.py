"""What is said of a stretch of a run, from paths with a known answer."""

import pytest

from engine.analysis.timeline import PathShares, sentences
from engine.trace.critical_path import PathPart

ROLES = ("ps", "trainer1", "trainer2", "trainer3")
MS = 1_000_000


def said(*parts: tuple[str, str, float]) -> list[str]:
    """Return the sentences on a path of (role, kind, milliseconds)."""
    path = [PathPart(ROLES.index(role), kind, 0, round(spent * MS)) for role, kind, spent in parts]
    return sentences(PathShares.of(path, ROLES), len(ROLES))


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
        "2.00 x as fast."
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
        (
            [
                ("trainer1", "compute", 5),
                ("trainer2", "compute", 5),
                ("trainer3", "compute", 60),
                ("ps", "message", 30),
            ],
            "trainer3 is on the path",
        ),
        ([("trainer1", "evaluate", 60), ("trainer1", "compute", 40)], "Evaluate less often"),
        ([("trainer1", "data", 30), ("trainer1", "compute", 70)], "Load data ahead"),
        ([("trainer1", "lock", 20), ("trainer1", "compute", 80)], "Hold the lock"),
        ([("ps", "serve", 50), ("trainer1", "compute", 50)], "The server is the bottleneck"),
        ([("trainer1", "collective", 40), ("trainer1", "compute", 60)], "Exchange less often"),
    ],
)
def test_what_to_change_follows_from_what_takes_the_time(parts: list[tuple[str, str, float]], advice: str) -> None:
    assert said(*parts)[-1].startswith(advice)


def test_nothing_is_said_of_an_empty_path_and_no_advice_without_a_reason() -> None:
    assert sentences(PathShares.of([], ROLES), 4) == []
    assert len(said(("trainer1", "compute", 60), ("trainer1", "update", 20), ("ps", "message", 20))) == 2


def test_one_rank_exchanges_nothing_and_is_told_so_little() -> None:
    path = [PathPart(0, "compute", 0, 4 * MS)]
    assert sentences(PathShares.of(path, ("main",)), 1) == [
        "In this stretch, the critical path (4 ms) is computing for 100 %, all in main."
    ]
