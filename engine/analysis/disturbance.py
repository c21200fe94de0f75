"""Disturbed runs: their times tell of what else ran on the machine, so that analyses of times leave them out."""

from collections.abc import Sequence

from engine.metrics import metric
from engine.store.records import Run, RunRow

MOST_NAMED = 6


def depends_on_time(name: str) -> bool:
    """Return whether the values of a metric depend on what else runs on the machine: times, rates, shares of idle
    time.
    """
    return metric(name).is_rate or metric(name).unit in ("s", "ms") or name == "perf/bubble_share"


def left_out(runs: Sequence[RunRow]) -> str:
    """Return which of the runs are left out because they are disturbed, as a sentence; empty if none is."""
    return _disturbed(runs, "Means and fits leave it out.", "Means and fits leave them out.")


def unreliable(runs: Sequence[RunRow]) -> str:
    """Return which of the runs whose times are shown are disturbed, as a sentence; empty if none is."""
    return _disturbed(runs, "Its times are not reliable.", "Their times are not reliable.")


def _disturbed(runs: Sequence[RunRow], of_one: str, of_several: str) -> str:
    found = [run for run in runs if run.disturbed]
    if not found:
        return ""
    ids = [run.id for run in found]
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    some = ", ".join(map(str, ids[:MOST_NAMED])) + more
    which, whose, so = (
        (f"Run {some} was", "its", of_one) if len(ids) == 1 else (f"{len(ids)} runs ({some}) were", "their", of_several)
    )
    return (
        f"{which} disturbed: other programs or the host took more than {100 * found[0].disturbed_above:g} % of {whose} "
        f"CPU time. {so}"
    )


def in_words(share: float) -> str:
    """Return a disturbance such as `12 %`."""
    return f"{100 * share:.0f} %"


def named(run: Run) -> str:
    """Return the programs that ran beside a run, such as `stress 0.5 cores`; empty if none were seen."""
    found = run.environment.get("other_programs")
    if not isinstance(found, list):
        return ""
    pairs = [each for each in found if isinstance(each, list) and len(each) == 2]
    return ", ".join(f"{name} {cores:.2g} cores" for name, cores in pairs if isinstance(cores, int | float))
