"""Duels in the store: kept whole or not at all, their sweeps and runs found again, the second stage queued once."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import NoSuchDuel
from engine.launch_options import USUAL, LaunchOptions
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store, StrategyLaunch
from tests.store.conftest import WORKER, Program

RATES = (0.01, 0.1)
TERMS = LaunchOptions("high", max_retries=2)


def run_of(strategy: int, rate: float, seed: int, terms: LaunchOptions = TERMS) -> StrategyLaunch:
    name, settings = ("hogwild", "sync_sgd")[strategy], {"learning_rate": rate, "seed": seed}
    run = Launch(name, settings, "ada", None, f"{name} {rate}", terms, demand=Demand(1, 0, 2, 1))
    return StrategyLaunch(strategy, name.title(), run)


def add(store: Store, **more: Any) -> int:
    runs = [run_of(strategy, rate, 0) for rate in RATES for strategy in (0, 1)]
    return store.duels.add(
        {"budget": 3},
        runs,
        owner="ada",
        name="first",
        **{"exclusive": True, **more},
    )


def test_a_duel_is_a_sweep_for_each_strategy_with_runs_in_turns(store: Store, reader: Reader) -> None:
    duel_id = add(store)
    found = reader.duels.one(duel_id)
    assert (found.name, found.owner, found.stage, found.plan) == ("first", "ada", "tuning", {"budget": 3})
    assert [(part.strategy, part.stage) for part in found.parts] == [(0, "tuning"), (1, "tuning")]
    runs = reader.duels.runs(duel_id)
    assert [[run.id for run in runs[part.sweep_id]] for part in found.parts] == [[1, 3], [2, 4]]
    sweep = reader.sweeps.one(found.parts[1].sweep_id)
    assert (sweep.experiment, sweep.name, dict(sweep.grid), sweep.exclusive) == (
        *("sync_sgd", "Duel 1, tuning: Sync_Sgd"),
        *({"learning_rate": RATES, "seed": (0,)}, True),
    )
    assert reader.runs.one(1).name == "Duel 1, tuning: hogwild 0.01"
    assert reader.duels.token(duel_id) == 4 and reader.duels.token(99) == 0
    assert reader.duels.plans_of([1, 4, 99]) == {1: (1, {"budget": 3}), 4: (1, {"budget": 3})}
    with pytest.raises(NoSuchDuel, match="Duel 7 doesn't exist"):
        reader.duels.one(7)


def test_the_second_stage_is_queued_once_on_the_same_terms(store: Store, reader: Reader) -> None:
    duel_id, other = add(store), add(store)
    judged = [run_of(strategy, 0.1, seed, USUAL) for seed in (0, 100) for strategy in (0, 1)]
    assert [store.duels.judge(duel_id, judged, exclusive=True) for _ in range(2)] == [True, False]
    assert [one.id for one in reader.duels.recent(stage="tuning")] == [other]
    assert [one.id for one in reader.duels.recent()] == [other, duel_id]
    assert [(part.strategy, part.stage) for part in reader.duels.one(duel_id).parts] == [
        (0, "tuning"),
        (1, "tuning"),
        (0, "judging"),
        (1, "judging"),
    ]
    new = [run for part in reader.duels.one(duel_id).parts[2:] for run in reader.duels.runs(duel_id)[part.sweep_id]]
    assert sorted(run.id for run in new) == [9, 10, 11, 12]
    assert {reader.runs.one(run.id).terms for run in new} == {TERMS}
    with pytest.raises(NoSuchDuel):
        store.duels.judge(99, judged, exclusive=True)


@pytest.mark.processes
def test_two_processes_that_go_on_at_once_queue_it_once(
    store: Store, reader: Reader, program: Callable[..., Program]
) -> None:
    duel_id = add(store)
    text = (
        "launch = Launch('hogwild', {'learning_rate': 0.1, 'seed': 0}, name='x', demand=Demand(1, 0, 2, 1))\n"
        "run = lambda s: StrategyLaunch(s, 'x', launch)\n"
        "with Store.open(home) as store:\n    wait()\n"
        f"    print(store.duels.judge({duel_id}, [run(0), run(1)], exclusive=True))"
    )
    programs = [program(text, store.db.home.path) for _ in range(2)]
    assert [each.line() for each in programs] == ["ready", "ready"]
    for each in programs:
        each.go()
    assert sorted(each.rest() for each in programs) == ["False", "True"]
    assert reader.runs.count() == 6


def test_a_duel_without_runs_has_no_parts_and_a_run_its_own_last_point(store: Store, reader: Reader) -> None:
    add(store)
    for run_id in (1, 2):
        store.claims.claim(run_id, WORKER, ())
        store.worker.begin(run_id, WORKER, {})
        store.worker.mark_running(run_id, 0.1)
    first = [Point("train/loss", step, 1.0, float(step), step / 10) for step in range(1, 60)]
    store.worker.write(1, [RankBatch(0, first), RankBatch(1, first[:10])])
    store.worker.write(
        2, [RankBatch(0, [Point("train/loss", 1, 1.0, 2.5, None), Point("test/accuracy", 1, 1.0, 99.0, 99.0)])]
    )
    assert reader.duels.furthest([1, 2, 3]) == {1: (59.0, 5.9), 2: (2.5, 0.0)}
    duel_id = add(store)
    with store.db.change() as connection:
        connection.execute("DELETE FROM runs")
        connection.execute("DELETE FROM sweeps")
    assert reader.duels.one(duel_id).parts == () and reader.duels.runs(duel_id) == {}
