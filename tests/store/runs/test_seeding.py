"""The rule that a run draws random numbers by is recorded, and runs of different rules are never put together."""

from collections.abc import Callable

import pytest

from engine.home import Home
from engine.metrics import ACCURACY
from engine.seeding import SEEDING
from engine.store import Demand, Launch, Reader, Store
from engine.store.schema.migrations import steps
from tests.store.conftest import WORKER
from tests.store.ends import finish

NEW_STEP = "rule_of_random_numbers"


def drew_by(store: Store, run_id: int, seeding: int) -> None:
    """Make a run one of another version."""
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET seeding = ? WHERE id = ?", [seeding, run_id])


def test_a_run_is_recorded_with_the_rule_of_the_version_that_carries_it_out(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    run_id = add()
    assert (reader.runs.one(run_id).seeding, reader.runs.entry(run_id).seeding) == (SEEDING, SEEDING) == (2, 2)
    drew_by(store, run_id, 1)  # an older version queued it
    store.claims.claim(run_id, WORKER, ())
    assert store.worker.begin(run_id, WORKER, {}).seeding == SEEDING


def test_runs_of_an_older_store_have_rule_1_but_for_those_that_wait(home: Home) -> None:
    with Store.open(home) as store:
        ended, waiting = (
            finish(store, {"seed": 0}, 90.0),
            store.runs.add(Launch("hogwild", {"seed": 1}, "ada", demand=Demand(1, 0, 1, 1))),
        )
        with store.db.change() as connection:
            connection.execute("ALTER TABLE runs DROP COLUMN seeding")
            connection.execute(
                "DELETE FROM _sqlite_migrations WHERE migration_set = ? AND name = ?", [steps.name, NEW_STEP]
            )
    with Store.open(home), Reader.open(home) as reader:
        assert [reader.runs.one(run_id).seeding for run_id in (ended, waiting)] == [1, 2]


def test_seeds_of_different_rules_are_different_groups(store: Store, reader: Reader) -> None:
    old, *new = (
        finish(store, {"dataset": "digits", "seed": seed}, value) for seed, value in ((0, 90.0), (1, 94.0), (2, 96.0))
    )
    drew_by(store, old, 1)
    assert [(group.run_ids, group.seeding) for group in reader.groups.find()] == [(tuple(new), 2), ((old,), 1)]
    assert reader.groups.count() == 2
    assert reader.groups.of(old).run_ids == (old,)
    (best,) = reader.leaderboard.bests("hogwild", ACCURACY)
    assert (best.seeds, best.mean) == (2, pytest.approx(95.0))
