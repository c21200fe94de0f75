"""Whether runs can be compared by their times: disturbance, hardware, and the seeding rule."""

from collections.abc import Iterable, Sequence
from typing import Any

from engine.metrics import metric
from engine.registry import server_roles
from engine.store import Surroundings
from engine.store.records import Run, RunRow
from engine.store.sweeps.sweeps import SEED

# ------------------------------------------------------------------------------------------------------------------
# Disturbed runs: their times tell of what else ran on the machine, so that analyses of times leave them out.

MOST_NAMED = 6
OTHER_PROGRAMS = "other_programs"
"""The field of an environment that has the programs beside a run, each with its cores."""


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
    return programs_in_words(run.environment.get(OTHER_PROGRAMS))


def programs_in_words(found: object) -> str:
    """Return the recorded programs with the cores that each took; empty for anything else."""
    if not isinstance(found, list):
        return ""
    pairs = [each for each in found if isinstance(each, list) and len(each) == 2]
    return ", ".join(f"{name} {cores:.2g} cores" for name, cores in pairs if isinstance(cores, int | float))


# ---- Whether the timings of runs are comparable: same hardware, and one core or GPU per rank -----------------------
# Torch-free and pure.


def unlike(runs: Sequence[Surroundings]) -> str:
    """Return the differences between the machines of some runs, in words; empty if they are the same. Runs without this
    information are ignored.
    """
    machines = list(dict.fromkeys((run.host, run.cpu, run.cores, run.gpus) for run in runs if run.cores))
    if len(machines) < 2:
        return ""
    return " and ".join(_machine(*machine) for machine in machines[:3]) + (
        f" and {len(machines) - 3} more" if len(machines) > 3 else ""
    )


def crowded(run: Surroundings) -> str:
    """Return why a run is oversubscribed, in words; empty if each rank had its own cores or GPU.

    Ranks on the CPU need as many cores as they have threads; a server needs one.
    """
    chips = [device for _, device in run.devices if device != "cpu"]
    if len(chips) > len(set(chips)):
        return f"{len(chips)} ranks share {len(set(chips))} {'GPU' if len(set(chips)) == 1 else 'GPUs'}"
    servers = server_roles()
    needed = sum(1 if role in servers else run.threads_per_rank for role, device in run.devices if device == "cpu")
    return (
        f"{needed} threads on {run.cores} {'core' if run.cores == 1 else 'cores'}"
        if run.cores and needed > run.cores
        else ""
    )


def gpus_used(run: Surroundings) -> int:
    """Return the number of GPUs used by the ranks of a run."""
    return len({device for _, device in run.devices if device.startswith("cuda")})


def _machine(host: str, cpu: str, cores: int, gpus: Sequence[str]) -> str:
    chips = f", {len(gpus)} × {gpus[0]}" if gpus else ""
    return f"{host or 'unnamed machine'} ({cores} cores of {cpu or 'unknown CPU'}{chips})"


# ------------------------------------------------------------------------------------------------------------------
# Which runs are paired by seed, and whether runs use the same seeding rule (engine/seeding.py): runs with different
# rules are not repetitions of each other. Torch-free.


def block_of(run: RunRow) -> tuple[int, Any]:
    """Return the rule and seed of a run: runs of one experiment with the same ones share initialization and data
    order, so they are compared with each other (a block).
    """
    return run.seeding, run.config.get(SEED)


def mixture(runs: Iterable[RunRow]) -> str:
    """Return a caution if runs use different seeding rules, else an empty string."""
    by_rule: dict[int, list[int]] = {}
    for run in sorted(runs, key=lambda run: run.id):
        by_rule.setdefault(run.seeding, []).append(run.id)
    if len(by_rule) < 2:
        return ""
    said = "; ".join(f"seeding {rule}: {_named(ids)}" for rule, ids in sorted(by_rule.items()))
    return f"The runs use different seeding rules ({said}), so they are not repetitions of each other."


def _named(ids: list[int]) -> str:
    some = ", ".join(map(str, ids[:MOST_NAMED])) + (
        f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    )
    return f"{'run' if len(ids) == 1 else 'runs'} {some}"
