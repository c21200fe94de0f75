"""Whether runs can be compared by their times: disturbance, hardware, and the seeding rule."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.errors import counted
from engine.registry import server_roles
from engine.store import Surroundings
from engine.store.records import Run, RunRow
from engine.store.sweeps.sweeps import SEED

# ------------------------------------------------------------------------------------------------------------------
# Disturbed runs: their times tell of what else ran on the machine, so that analyses of times leave them out.

MOST_NAMED = 6
OTHER_PROGRAMS = "other_programs"
"""The field of an environment that has the programs beside a run, each with its cores."""


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


# ---- The environment of a run as pages show it ---------------------------------------------------------------------

_OF_WORKER = ("python", "packages")
"""Fields that are of a command's own interpreter only where that was looked at."""


def environment_shown(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's environment by field, for people: Parallab's version apart from that of a command's code, what
    others took in words. Left out are the boot, and what other parts of the page show.
    """
    found = {name: value for name, value in recorded.items() if name not in ("boot_id", "recognised")}
    if "git_commit" in found:
        found = {("parallab_commit" if name == "git_commit" else name): value for name, value in found.items()}
    if OTHER_PROGRAMS in found:
        found[OTHER_PROGRAMS] = programs_in_words(found[OTHER_PROGRAMS])
    if not isinstance(started := found.pop("command", None), Mapping):
        return found
    if not found.get("interpreter"):
        found = {name: value for name, value in found.items() if name not in _OF_WORKER}
    code = {"code": code_in_words(recorded) or "no git commit", "folder": started.get("folder", "")}
    own = {name: found.pop(name) for name in ("interpreter", *_OF_WORKER) if name in found}
    return {**code, **own, "variables_set": started.get("environment") or "none", **found, **code}


def code_in_words(environment: Mapping[str, Any]) -> str:
    """Return the version of a run's code: `commit 1a2b3c4d (main), changed`; empty if none was recorded."""
    found = environment.get("code")
    if not isinstance(found, Mapping) or not (commit := found.get("commit")):
        return ""
    branch = f" ({found['branch']})" if found.get("branch") else ""
    return f"commit {str(commit)[:8]}{branch}{', changed' if found.get('is_changed') else ''}"


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
        return f"{len(chips)} ranks share {counted(len(set(chips)), 'GPU')}"
    servers = server_roles()
    needed = sum(1 if role in servers else run.threads_per_rank for role, device in run.devices if device == "cpu")
    return f"{counted(needed, 'thread')} on {counted(run.cores, 'core')}" if run.cores and needed > run.cores else ""


def gpus_used(run: Surroundings) -> int:
    """Return the number of GPUs used by the ranks of a run."""
    return len({device for _, device in run.devices if device.startswith("cuda")})


def _machine(host: str, cpu: str, cores: int, gpus: Sequence[str]) -> str:
    chips = f", {len(gpus)} × {gpus[0]}" if gpus else ""
    return f"{host or 'unnamed machine'} ({counted(cores, 'core')} of {cpu or 'unknown CPU'}{chips})"


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
