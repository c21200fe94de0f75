"""Ranks that hang, each in one of many ways: whether the hang doctor names the right rank and the right cause, and how
long it takes; and healthy runs, in which it may find nothing.

All limits of the hang doctor are in proportion to `--quiet-s`. Run: python -m bench.hang_doctor [--injections 20]
[--healthy 500] [--quiet-s 10] [--only CAUSE] [--at-once 1]
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.measuring import save, wait_until
from engine.errors import RankFailed
from engine.experiments.hang_museum import hangs
from engine.hang.watch import HangLimits
from engine.registry import experiment, method
from engine.runtime.rank import fork_server
from engine.runtime.transport.allreduce import Collective
from engine.runtime.transport.request_reply import Exchange
from engine.trace.health import BAD
from tests import hang_functions as functions
from tests.patient import ROLES, Patient

SERVER_ROLES = ("ps", "trainer1", "trainer2")
USUAL = HangLimits(quiet_s=10.0)
TARGETS = {"right_rank_percent": 98, "right_cause_percent": 95, "wrong_rank": 0, "verdict_p95_s": 15}


@dataclass(frozen=True)
class Injection:
    """One way to hang: what the ranks do, and what is right to say. `causes` are causes of the hang doctor, or words in
    the run's error.
    """

    name: str
    causes: tuple[str, ...]
    function: Callable[..., None]
    given: Callable[[int], tuple[Any, ...]]
    """The function's arguments, by the rank that is to be the cause."""
    guilty: tuple[int, ...] = (0, 1, 2)
    anyone: bool = False
    """Whether all ranks are the cause together."""
    roles: tuple[str, ...] = ROLES


def averaging() -> Collective:
    """Return a group of all ranks."""
    return Collective.create("gloo", 8, ROLES, 600.0)


def serving() -> Exchange:
    """Return the connections of two trainers with a server."""
    return Exchange.create("shared_memory", 8, server=0, server_role="ps", clients=(1, 2), patience_s=600.0)


INJECTIONS = (
    Injection("stopped", ("stopped",), hangs.stop_before_an_average, lambda rank: (rank, averaging())),
    Injection(
        "stopped server",
        ("stopped",),
        functions.push_to_a_server,
        lambda rank: (rank, signal.SIGSTOP, serving()),
        guilty=(0,),
        roles=SERVER_ROLES,
    ),
    Injection(
        "stopped client",
        ("stopped",),
        functions.push_to_a_server,
        lambda rank: (rank, signal.SIGSTOP, serving()),
        guilty=(1, 2),
        roles=SERVER_ROLES,
    ),
    Injection("stopped alone", ("stopped",), functions.free_running, lambda rank: (rank, signal.SIGSTOP)),
    Injection("killed", ("SIGKILL",), hangs.stop_before_an_average, lambda rank: (rank, averaging(), signal.SIGKILL)),
    Injection("asleep", ("stuck",), hangs.stop_before_an_average, lambda rank: (rank, averaging(), 0)),
    Injection("not joined", ("not joined",), hangs.never_join, lambda rank: (rank,)),
    Injection("not connected", ("not joined",), functions.never_join_the_group, lambda rank: (rank, averaging())),
    Injection(
        "request not answered",
        ("stuck",),
        functions.push_to_a_server,
        lambda rank: (rank, 0, serving()),
        guilty=(0,),
        roles=SERVER_ROLES,
    ),
    Injection("exited", ("exited",), hangs.return_early, lambda rank: (rank,)),
    Injection("one batch fewer", ("unequal steps",), hangs.have_unequal_batches, lambda rank: (rank, averaging(), -1)),
    Injection("one batch more", ("unequal steps",), hangs.have_unequal_batches, lambda rank: (rank, averaging(), 1)),
    Injection("left the loop", ("unequal steps",), functions.leave_the_loop_early, lambda rank: (rank,)),
    Injection("order mismatch", ("order mismatch",), hangs.mix_up_collectives, lambda rank: (rank,)),
    Injection("shape mismatch", ("got 9 of float32",), hangs.give_another_shape, lambda rank: (rank, averaging())),
    Injection("type mismatch", ("got 8 of float64",), hangs.give_another_type, lambda rank: (rank, averaging())),
    Injection(
        "shape mismatch in plain gloo",
        ("different shapes",),
        functions.give_gloo_another_shape,
        lambda rank: (rank,),
        anyone=True,
    ),
    Injection("disk wait", ("disk wait",), hangs.wait_for_a_disk, lambda rank: (rank,)),
    Injection("out of memory", ("memory",), hangs.run_out_of_memory, lambda rank: (rank,)),
    Injection("wrong port", ("not joined",), hangs.try_a_wrong_port, lambda rank: (rank,), guilty=(1, 2)),
    Injection("deadlock", ("deadlock",), functions.wait_for_each_other, lambda rank: (), anyone=True),
    Injection("lock kept", ("lock kept",), hangs.keep_a_lock, lambda rank: (rank,)),
    Injection(
        "full queue",
        ("full queue",),
        hangs.fill_a_queue,
        lambda rank: (rank, get_context("forkserver").Queue(3)),
    ),
    Injection("nested calls", ("nested calls",), hangs.call_within_a_call, lambda rank: (rank,), guilty=(1,)),
)


@dataclass(frozen=True)
class Outcome:
    """What was said of one run."""

    right_rank: bool
    right_cause: bool
    wrong_rank: bool
    after_s: float | None
    said: str


SYSTEMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("hogwild", {}),
    ("parameter_server", {}),
    ("async_sgd", {}),
    ("sync_sgd", {}),
    ("batched_reinforce", {}),
    ("dppo", {}),
    ("pipeline", {"mode": "gpipe"}),
    ("pipeline", {"mode": "rpc"}),
)
"""Experiments of which one rank after another is stopped."""


def limits(quiet_s: float) -> HangLimits:
    """Return the usual limits in proportion to `quiet_s`."""
    scale = quiet_s / USUAL.quiet_s
    return HangLimits(quiet_s, USUAL.steps, USUAL.looks, USUAL.between_s * scale, USUAL.every_s * scale)


def inject(injection: Injection, number: int, quiet_s: float) -> Outcome:
    """Let a rank hang, and return what is said of it first."""
    guilty = injection.guilty[number % len(injection.guilty)]
    with tempfile.TemporaryDirectory(prefix="parallab-hang-") as folder:
        patient = Patient(Path(folder), limits(quiet_s), injection.roles)
        patient.start(injection.function, *injection.given(guilty))
        return outcome(patient, "" if injection.anyone else injection.roles[guilty], injection.causes, quiet_s)


def stop_in(name: str, changes: Mapping[str, Any], number: int, quiet_s: float) -> Outcome:
    """Stop a rank of an experiment soon after all are ready, and return what is said of it first."""
    config: Any = experiment(name).configure("quick", changes)
    roles = tuple(config.roles)
    guilty = number % len(roles)
    with tempfile.TemporaryDirectory(prefix="parallab-hang-") as folder:
        patient = Patient(Path(folder), limits(quiet_s), roles)
        patient.begin(lambda ranks: method(name)(config, ranks))
        wait_until(lambda: patient.sink.startup_time_s is not None, 120, f"{name} to start")
        time.sleep(0.5)
        functions.fault_file(Path(folder)).write_text(str(time.monotonic()))
        os.kill(patient.ranks.members[guilty].pid, signal.SIGSTOP)
        return outcome(patient, roles[guilty], ("stopped",), quiet_s)


def outcome(patient: Patient, role: str, causes: Sequence[str], quiet_s: float) -> Outcome:
    """Wait for what the hang doctor, or the run's error, says first, and judge it; any role is right if `role` is
    empty.
    """
    try:
        until = time.monotonic() + 60 + 5 * quiet_s
        while not (patient.bad_ones() or patient.failure) and time.monotonic() < until:
            time.sleep(0.01)
        at, bad, failure = time.monotonic(), patient.bad_ones(), patient.failure
    finally:
        patient.end()
    if bad:
        named, said = bad[0].rank, bad[0].sentence
        right_cause = bad[0].cause in causes
    elif isinstance(failure, RankFailed):
        named, said = failure.role, str(failure)
        right_cause = any(words in said for words in causes)
    else:
        return Outcome(False, False, False, None, "nothing was said")
    right = role in ("", named)
    began = float(functions.fault_file(patient.ranks.folder).read_text())
    return Outcome(right, right_cause, bool(named) and not right, at - began, said)


def healthy(number: int, quiet_s: float) -> list[str]:
    """Run ranks that do not hang, and return the bad verdicts: of ten runs, one evaluates for long, in three a rank is
    20 times slower, in three one is stopped for a while, and three are even.
    """
    slow = number % 3
    kinds: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (functions.work_long, (6 * quiet_s,)),
        *3 * [(functions.be_slow, (slow, 20.0, 40))],
        *3 * [(functions.stop_for_a_while, (quiet_s / 2,))],
        *3 * [(functions.be_slow, (slow, 1.0, 800))],
    ]
    function, given = kinds[number % len(kinds)]
    with tempfile.TemporaryDirectory(prefix="parallab-hang-") as folder:
        patient = Patient(Path(folder), limits(quiet_s))
        patient.start(function, *given)
        patient.thread.join()
    if patient.failure:
        raise patient.failure
    return [f"{function.__name__}: {verdict.sentence}" for verdict in patient.verdicts() if verdict.state in BAD]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what is right of these, and the seconds to the verdict."""
    times = sorted(outcome.after_s for outcome in outcomes if outcome.after_s is not None) or [float("nan")]
    count = len(outcomes)
    return {
        "injections": count,
        "right_rank_percent": round(100 * sum(outcome.right_rank for outcome in outcomes) / count, 1),
        "right_cause_percent": round(100 * sum(outcome.right_cause for outcome in outcomes) / count, 1),
        "wrong_rank": sum(outcome.wrong_rank for outcome in outcomes),
        "verdict_p50_s": round(statistics.median(times), 2),
        "verdict_p95_s": round(times[min(len(times) - 1, int(0.95 * len(times)))], 2),
        "wrong": sorted({each.said for each in outcomes if not (each.right_rank and each.right_cause)}),
    }


def main() -> None:
    """Measure and print; save what was measured in full."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--injections", type=int, default=20, help="of each cause")
    options.add_argument("--healthy", type=int, default=500, help="runs that do not hang")
    options.add_argument("--quiet-s", type=float, default=USUAL.quiet_s, help="seconds without progress")
    options.add_argument("--only", help="one of the causes")
    options.add_argument("--at-once", type=int, default=1, help="runs at once")
    chosen = options.parse_args()
    fork_server.start()
    fork_server.wait_until_loaded()
    found: dict[str, Any] = {}
    outcomes: list[Outcome] = []
    trials: Mapping[str, Callable[[int], Outcome]] = {
        injection.name: partial(inject, injection, quiet_s=chosen.quiet_s) for injection in INJECTIONS
    } | {
        f"stopped in {' '.join([name, *changes.values()])}": partial(stop_in, name, changes, quiet_s=chosen.quiet_s)
        for name, changes in SYSTEMS
    }
    with ThreadPoolExecutor(chosen.at_once) as pool:
        for name, trial in trials.items():
            if chosen.only in (None, name):
                own = list(pool.map(trial, range(chosen.injections)))
                found[name] = summary(own)
                outcomes += own
                print(name, found[name], file=sys.stderr, flush=True)
        checks = pool.map(partial(healthy, quiet_s=chosen.quiet_s), range(chosen.healthy))
        alarms = [sentence for check in checks for sentence in check]
    figures = {
        "quiet_s": chosen.quiet_s,
        "targets": TARGETS,
        "all": summary(outcomes),
        "causes": found,
        "healthy_runs": chosen.healthy,
        "false_alarms": alarms,
    }
    if chosen.only is None and chosen.injections >= 20 and chosen.healthy >= 500 and chosen.quiet_s == USUAL.quiet_s:
        save("hang_doctor", figures)
    else:
        print(figures)


if __name__ == "__main__":
    main()
