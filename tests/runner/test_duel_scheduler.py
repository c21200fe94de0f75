"""The runner and duels: it queues what is judged once what tunes has ended, whichever runner that is, and ends what has
spent its seconds.
"""

import pytest

from engine.home import Home
from engine.runner.runner import Runner
from engine.runner.schedulers import MARGIN_S, Referee
from engine.store import Launch, Store
from engine.store.records import reached_budget
from engine.system.machine import Machine
from engine.system.processes import me, uptime_s
from tests.labs import duel as labs
from tests.runner.test_runner import PaperLauncher


def stage(home: Home, duel_id: int) -> tuple[str, int]:
    found = labs.gathered(home, duel_id)
    return found.stored.stage, len(found.of("judging"))


def test_any_runner_goes_on_where_the_last_one_was(home: Home, store: Store) -> None:
    duel_id = labs.launched(home)
    runner = Runner(home, store, PaperLauncher(), Machine(4, (), "cpu", 8.0))
    runner.referee.look([])
    labs.drive(home, duel_id, "tuning")  # it died meanwhile, and runs went on
    assert stage(home, duel_id) == ("tuning", 0)
    Runner(home, store, PaperLauncher(), Machine(4, (), "cpu", 8.0)).step()
    assert stage(home, duel_id) == ("judging", 10)


def test_a_duel_that_can_not_go_on_is_looked_at_again_only_when_it_has_news(home: Home, store: Store) -> None:
    duel_id = labs.launched(home)
    first = labs.gathered(home, duel_id).of("tuning")[0].run
    assert first
    labs.drive(home, duel_id, "tuning", ends={first.id: "lost"})
    referee = Referee(home, store)
    referee.look([])
    seen = dict(referee._seen)
    assert set(seen) == {duel_id} and stage(home, duel_id) == ("tuning", 0)
    again = store.runs.add(
        Launch(first.experiment, first.config, "Ada", parent_id=first.id, resumes=False, demand=labs.demand_of(first))
    )
    labs.drive(home, duel_id, "tuning")
    referee.looked_at = float("-inf")
    referee.look([])
    assert stage(home, duel_id) == ("judging", 10) and again


def test_a_run_is_ended_once_it_has_spent_its_seconds_and_no_other(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = uptime_s()
    monkeypatch.setattr("engine.runner.schedulers.uptime_s", lambda: now_s)
    labs.launched(home, kind="seconds", amount=5.0)
    labs.launched(home, amount=5.0)
    ids = [row.id for row in store.read.queue.waiting()]
    assert len(ids) == 12
    for run_id, ago_s in ((ids[0], 5.0 + MARGIN_S + 1.1), (ids[1], 5.0), (ids[6], 500.0)):
        store.claims.claim(run_id, me(), ())
        store.worker.begin(run_id, me(), {}, now_s - ago_s)
        store.worker.mark_running(run_id, 1.0)
    referee = Referee(home, store)
    for _ in range(2):
        referee.looked_at = float("-inf")
        referee.look(store.read.queue.alive())
    assert {run.id: (run.status, run.stop_requested_by) for run in store.read.queue.alive()} == {
        ids[0]: ("stopping", "the budget of duel 1"),
        ids[1]: ("running", None),
        ids[6]: ("running", None),
    }
    by = store.read.runs.one(ids[0]).stop_requested_by
    store.claims.end(ids[0], "cancelled", f"Cancelled by {by}.")
    store.runs.cancel(ids[2], by="Ada")
    assert [reached_budget(store.read.runs.entry(run_id)) for run_id in ids[:3]] == [True, False, False]
    assert [fold.reached_budget for fold in store.read.folds.find()] == [0, 1]
