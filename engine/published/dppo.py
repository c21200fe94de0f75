"""DPPO: a bounded queue against strict mutual exclusion of readers and writer."""

from engine.published.figure import EXECUTION, WHOLE, Figure, Version
from engine.published.rules import Ahead, Plausible

_SPEED, _USED = "perf/env_steps_per_second", "perf/steps_used"
_LINES = ("bounded_queue", "reader_writer")

DPPO = Figure(
    name="dppo",
    title="DPPO: bounded queue against reader-writer",
    claim=(
        "With a bounded queue no step is thrown away and collectors rarely wait, so the same number of steps takes "
        "less time."
    ),
    source=(
        "A note on distributed PPO about why its reader-writer version leaves the CPU idle; no numbers are published."
    ),
    experiment="dppo",
    axis="collectors",
    number=WHOLE,
    line="mode",
    rules=(
        Plausible(
            "charts/episodic_return",
            "Episodes of Pendulum return between -1,900 and 0, as 200 steps of any policy can",
            -1_900,
            0,
        ),
        Ahead(
            EXECUTION, *_LINES, "below", "The queue takes at least 5 % less time than reader-writer for the same steps"
        ),
        Ahead(_SPEED, *_LINES, "above", "The queue collects at least 5 % more env steps a second"),
        Ahead(_USED, *_LINES, "above", "The queue uses more of the steps that were collected, by at least 0.3 points"),
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
                "5 episodes an evaluation instead of 20, none drawn.",
            ),
        ),
    },
    assumed="Pendulum and all settings, taken from the public code that the note started from",
    timed=True,
    hardware="unknown",
    note=(
        "No numbers are published, so only the shape is judged, of execution alone. 1 collector has no other one "
        "whose steps could be lost."
    ),
)
