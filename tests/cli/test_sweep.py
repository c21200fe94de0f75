"""Sweeps from the command line: launched, listed, cancelled; paused, resumed, tried again, extended; drawn
at random.
"""

import json
from collections.abc import Callable

from engine.home import Home
from engine.store import Reader, Store
from engine.store.launches import Draw, Timing
from engine.system.processes import me
from tests.cli.conftest import Parallab

QUICK = ("sweep", "hogwild", "--preset", "quick", "--no-runner")


def test_a_sweep_is_queued_listed_and_cancelled(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    alone = queued()
    told = parallab(*QUICK, "--over", "trainers=1,2", "--seeds", "2", "--set", "epochs=3", "--name", "speed", "--json")
    assert json.loads(told.stdout) == {"id": 1, "runs": [2, 3, 4, 5]}
    assert not home.runner_lock.exists()
    rows = json.loads(parallab("list", "--sweep", "1", "--json").stdout)
    assert [
        (row["id"], row["sweep_id"], row["owner"], row["config"]["trainers"], row["config"]["seed"]) for row in rows
    ] == [
        *((5, 1, "ada", 2, 1), (4, 1, "ada", 1, 1)),
        *((3, 1, "ada", 2, 0), (2, 1, "ada", 1, 0)),
    ]
    assert {row["config"]["epochs"] for row in rows} == {3}
    assert json.loads(parallab("show", "2", "--json").stdout)["sweep_id"] == 1
    assert "list --sweep 1" in parallab("show", "2").stdout
    assert "SWEEP" in parallab("list").stdout
    ended = parallab("cancel", "--sweep", "1", "--owner", "bea", "--json")
    assert json.loads(ended.stdout) == {"id": 1, "runs": dict.fromkeys("2345", "cancelled")}
    with Reader.open(home) as reader:
        assert reader.runs.one(3).cause == "Cancelled by bea."
        assert reader.runs.one(alone).status == "queued"
    again = parallab("cancel", "--sweep", "1")
    assert (again.returncode, "all 4 runs have ended" in again.stderr) == (2, True)


def test_a_person_reads_which_run_has_which_values(parallab: Parallab) -> None:
    told = parallab(*QUICK, "--over", "trainers=1..2", "--over", "lock=false,true")
    assert told.stdout.splitlines() == [
        "Sweep 1: 4 runs queued.",
        "  run 1: trainers 1, lock false, seed 0 (30 passes)",
        "  run 2: trainers 1, lock true, seed 0 (30 passes)",
        "  run 3: trainers 2, lock false, seed 0 (60 passes)",
        "  run 4: trainers 2, lock true, seed 0 (60 passes)",
        "Unequal total work: trainers 1, lock false: 30 passes; trainers 1, lock true: 30 passes; trainers 2, lock "
        "false: 60 passes; trainers 2, lock true: 60 passes. Every metric may differ because of it. To make it equal, "
        "launch with --equal-work.",
        "Show its runs: python -m engine list --sweep 1",
    ]


def test_equal_work_sets_the_length_of_each_run_also_of_an_extended_sweep(parallab: Parallab, home: Home) -> None:
    told = parallab(*QUICK, "--over", "trainers=1,2", "--equal-work")
    assert [line for line in told.stdout.splitlines() if "trainers" in line] == [
        "  run 1: trainers 1, seed 0 (60 passes)",
        "  run 2: trainers 2, seed 0 (60 passes)",
    ]
    assert "Unequal" not in told.stdout + parallab("list", "--sweep", "1").stdout
    assert parallab("sweep", "extend", "1", "--over", "trainers=4", "--no-runner").returncode == 0
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
    assert sweep.equal_work == {"epochs": 30, "trainers": 2}
    assert [(run.config["epochs"], run.preset) for run in runs] == [(60, "quick"), (30, "quick"), (15, "quick")]
    refused = parallab(*QUICK, "--over", "trainers=1,4", "--equal-work", "--set", "epochs=5")
    assert refused.returncode == 2 and "Set epochs to 4 (8 passes) or 6 (12 passes)." in refused.stderr
    assert "total work  60 passes, 86,220 samples, 2,700 updates" in parallab("show", "1").stdout
    with Store.open(home) as store:
        store.claims.claim(1, me(), [])
        store.worker.write(1, [], progress=(30_000, 86_220, "samples"))
        store.claims.end(1, "finished", "It ended early.", execution_time_s=1.0)
    said = "total work  20.88 passes, 30,000 samples, "
    assert said in parallab("show", "1").stdout, "what a run that ended early did"


def test_a_sweep_for_timing_has_a_warm_up_and_enough_runs_for_a_median(parallab: Parallab, home: Home) -> None:
    launched = parallab(*QUICK, "--over", "trainers=1,2", "--timing", "--within", "2.5", "--json")
    assert json.loads(launched.stdout)["runs"] == list(range(1, 14)), launched.stderr
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
    assert (sweep.timing, sweep.exclusive, sweep.seeds) == (Timing(0.025, 12), True, tuple(range(6)))
    assert (runs[0].name, runs[0].config["seed"]) == ("warm-up", 2**31 - 1)
    for options, said in (
        (("--within", "3"), "--within and --most need --timing."),
        (("--timing", "--most", "5"), "At most 5 runs per combination, but at least 6."),
        (("--timing", "--within", "0"), "within must be above 0 and below 100 %, got 0 %."),
    ):
        refused = parallab(*QUICK, "--over", "trainers=1,2", *options)
        assert refused.returncode and said in refused.stderr, refused.stderr


def test_a_drawn_sweep_is_paused_resumed_tried_again_and_extended(parallab: Parallab, home: Home) -> None:
    launched = parallab(
        *QUICK, "--draw", "2", "--over", "learning_rate=log:0.001..0.1", "--exclusive", "--stop-after", "3", "--json"
    )
    assert json.loads(launched.stdout) == {"id": 1, "runs": [1, 2]}, launched.stderr
    assert "Sweep 1 paused: 2 queued runs on hold until `sweep resume 1`." in parallab("sweep", "pause", "1").stdout
    with Store.open(home) as store:
        assert store.read.queue.next() is None
        assert json.loads(parallab("sweep", "resume", "1", "--no-runner", "--json").stdout) == {
            "id": 1,
            "paused": False,
            "runs": [1, 2],
        }
        assert store.claims.claim(1, me(), [])
        store.claims.end(1, "failed", "It failed.")
        store.runs.cancel(2, by="ada")
    again = parallab("sweep", "retry", "1", "--no-runner", "--also-cancelled")
    assert again.stdout.startswith("Sweep 1: 2 runs queued.\n  run 3: learning_rate ")
    assert json.loads(
        parallab("sweep", "extend", "1", "--draw", "1", "--seeds", "1", "--no-runner", "--json").stdout
    ) == {"id": 1, "runs": [5, 6, 7, 8]}
    with Reader.open(home) as reader:
        sweep = reader.sweeps.one(1)
    assert (sweep.draw, sweep.exclusive, sweep.stop_after, len(sweep.seeds)) == (
        Draw(3, 0, {"learning_rate": "log:0.001..0.1"}),
        *(True, 3, 2),
    )


def test_intervals_longer_than_the_runs_are_warned_of_before_the_launch(parallab: Parallab) -> None:
    rounds = ("sync_sgd", "--set", "dataset=digits", "--set", "evaluate_every=10", "--no-runner", "--json")
    said = "evaluate_every is 10 rounds, but the run has {}: it is tested only at the end.\n"
    single = parallab("submit", *rounds, "--set", "rounds=8", "--set", "checkpoint_every_s=0")
    assert (single.stderr, single.stdout) == (f"Caution: {said.format(8)}", '{"id": 1}\n')
    limited = parallab("submit", *rounds, "--set", "rounds=10", "--max-run-time", "20")
    assert (
        limited.stderr == "Caution: checkpoint_every_s is 30 s, but the time limit is 20 s: it keeps no checkpoint.\n"
    )
    sweep = parallab("sweep", *rounds, "--over", "rounds=8,10")
    assert (sweep.stderr, sweep.returncode) == (f"Caution: With rounds 8: {said.format(8)}", 0)
    more = parallab("sweep", "extend", "1", "--over", "rounds=6", "--no-runner")
    assert more.stderr == f"Caution: {said.format(6)}"
    seeded = parallab("sweep", "extend", "1", "--seeds", "1", "--no-runner")
    assert seeded.stdout.endswith("\n1 seed added: 2 per combination now. --seeds adds; it sets no total.\n")
