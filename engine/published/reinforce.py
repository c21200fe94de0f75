"""Execution time against observers, each question answered by itself or all of a step in one batch."""

from engine.published.figure import EXECUTION, WHOLE, Figure, Version
from engine.published.rules import Ahead, Crosses, Plausible, Slower

_SAYS = (
    Plausible(
        "charts/episodic_length",
        "Episodes are longer than those of a policy that always pushes one way (10 steps), and at most 500",
        10,
        500.5,
    ),
    Ahead(
        EXECUTION,
        "batched",
        "per_call",
        "below",
        "Batched takes at least 5 % less time than per_call with the most observers",
    ),
    Slower(
        EXECUTION,
        "batched",
        "per_call",
        "Batched grows more slowly with the observers than per_call, by at least 5 % of its time",
    ),
    Crosses(EXECUTION, "batched", "per_call", 3, "Batched is faster by at least 5 % from 3 observers on at the latest"),
)

REINFORCE = Figure(
    name="reinforce",
    title="Batched RPC: time against observers",
    claim=(
        "Answering all observers of a step in one batch is faster than answering each by itself, and grows more "
        "slowly with their number."
    ),
    source=(
        "PyTorch tutorial on batch RPC processing: a picture of 1 to 10 observers in both modes, on one GPU, "
        "without numbers."
    ),
    experiment="batched_reinforce",
    axis="observers",
    number=WHOLE,
    line="mode",
    rules=_SAYS,
    versions={
        "full": Version(
            "published",
            {"observers": tuple(range(1, 11)), "mode": ("batched", "per_call")},
            {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
        "reduced": Version(
            "published",
            {"observers": (1, 2, 4, 8), "mode": ("batched", "per_call")},
            {"episodes": 5},
            reduced=(
                "The engine variant with its warm start, in place of the published structure.",
                "5 rounds instead of 10.",
                "1, 2, 4 and 8 observers instead of 1 to 10.",
            ),
        ),
    },
    assumed="500 steps a round, one environment an observer",
    timed=True,
    hardware="one GPU",
    note=(
        "No numbers are published, so only the shape is judged, of execution alone: start-up is the same in both modes."
    ),
)
