"""Execution time by observers, with requests answered individually or in one batch per step."""

from engine.published.figure import EXECUTION, WHOLE, Figure, Version
from engine.published.order_rules import Ahead, Crosses, Slower
from engine.published.value_rules import Plausible

_SAYS = (
    Plausible(
        "charts/episodic_length",
        "Episodes are longer than those of a constant policy (10 steps), and have at most 500 steps",
        10,
        500.5,
    ),
    Ahead(
        EXECUTION,
        "batched",
        "per_call",
        "below",
        "Batched needs at least 5 % less time than per_call with the most observers",
    ),
    Slower(
        EXECUTION,
        "batched",
        "per_call",
        "Batched time grows more slowly with observers than per_call, by at least 5 % of its time",
    ),
    Crosses(EXECUTION, "batched", "per_call", 3, "Batched is at least 5 % faster from 3 observers on"),
)

REINFORCE = Figure(
    name="reinforce",
    title="Batched RPC: time by observers",
    claim=(
        "Answering all observers of a step in one batch is faster than answering each individually, and the time grows "
        "more slowly with their number."
    ),
    source=(
        "PyTorch tutorial on batch RPC processing: a picture without numbers, with 1 to 10 observers in both modes on "
        "one GPU."
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
                "The engine variant with its warm start, instead of the published code structure.",
                "5 rounds instead of 10.",
                "1, 2, 4 and 8 observers instead of 1 to 10.",
            ),
        ),
    },
    assumed="500 steps per round, one environment per observer",
    timed=True,
    hardware="one GPU",
    note=(
        "No numbers are published, so only the shape of the execution time is judged: start-up is the same in both "
        "modes."
    ),
)
