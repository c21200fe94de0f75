"""DPPO: a bounded queue compared with strict mutual exclusion of readers and writer."""

from engine.published.figure import EXECUTION, WHOLE, Figure, Version
from engine.published.order_rules import Ahead
from engine.published.value_rules import Plausible

_SPEED, _USED = "perf/env_steps_per_second", "perf/steps_used"
_LINES = ("bounded_queue", "reader_writer")

DPPO = Figure(
    name="dppo",
    title="DPPO: bounded queue vs. reader-writer",
    claim=(
        "A bounded queue discards no steps and collectors rarely wait, so the same number of steps takes less time."
    ),
    source=(
        "A note on distributed PPO that explains why its reader-writer version leaves the CPU idle; no numbers are "
        "published."
    ),
    experiment="dppo",
    axis="collectors",
    number=WHOLE,
    line="mode",
    rules=(
        Plausible(
            "charts/episodic_return",
            "Pendulum episodes return between -1,900 and 0, the possible range of 200 steps",
            -1_900,
            0,
        ),
        Ahead(
            EXECUTION, *_LINES, "below", "The queue needs at least 5 % less time than reader-writer for the same steps"
        ),
        Ahead(_SPEED, *_LINES, "above", "The queue collects at least 5 % more env steps per second"),
        Ahead(_USED, *_LINES, "above", "The queue uses at least 0.3 points more of the collected steps"),
    ),
    versions={
        "full": Version("published", {"collectors": (1, 2, 4), "mode": _LINES}, {"stop_when_solved": False}),
        "reduced": Version(
            "published",
            {"collectors": (2, 4), "mode": _LINES},
            {"stop_when_solved": False, "total_steps": 20_000, "evaluation_episodes": 5, "render_every_s": 0},
            reduced=(
                "20,000 env steps instead of 200,000.",
                "2 and 4 collectors, without 1.",
                "5 episodes per evaluation instead of 20, none rendered.",
            ),
        ),
    },
    assumed="Pendulum and all settings, taken from the public code that the note is based on",
    timed=True,
    hardware="unknown",
    note=(
        "No numbers are published, so only the shape of the execution time is judged. With 1 collector, no steps of "
        "another can be lost."
    ),
)
