"""What has ended since a moment: runs and whole sweeps, without those archived; and the mark that tells that there is more."""

from collections.abc import Callable

from engine.recorder import Point
from engine.store import Demand, Reader, Store
from engine.store.clock import now
from engine.store.news import _COUNTS, _MARK, _SINCE
from engine.store.sweep_commands import NewRun
from tests.store.ends import end, finish

START = "2000-01-01T00:00:00.000Z"


def test_what_ended_is_told_newest_first_and_a_sweeps_runs_together(store: Store, reader: Reader) -> None:
    alone = finish(store, {"seed": 0}, None)
    middle = now()
    asked = [NewRun({"seed": seed}, Demand(1, 0, 1, 1), "") for seed in range(4)]
    sweep_id = store.add_sweep("hogwild", {"seed": list(range(4))}, asked, owner="ada")
    runs = [run.id for run in reader.sweep_runs(sweep_id)]
    for run_id in runs[:2]:
        end(store, run_id, None)
    store.request_cancel(runs[2], by="ada")
    found = reader.ended_since(START)
    assert [(each.sweep_id, each.run_id, dict(each.statuses)) for each in found] == [
        (sweep_id, runs[2], {"finished": 2, "cancelled": 1}),
        (None, alone, {"finished": 1}),
    ]
    assert reader.count_ended_since(START) == {"finished": 3, "cancelled": 1}
    assert [each.sweep_id for each in reader.ended_since(middle)] == [sweep_id]
    store.archive([alone], by="ada")
    assert [each.run_id for each in reader.ended_since(START)] == [runs[2]]
    assert (reader.ended_since(now()), reader.count_ended_since(now())) == ([], {})


def test_the_mark_changes_with_ends_deletions_and_the_archive_and_with_nothing_else(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    seen = [reader.end_mark()]
    run_id = running()
    seen.append(reader.end_mark())
    store.write(run_id, [], run_points=[Point("train/loss", 1, 0.5, 1.0)])
    store.star([run_id], by="ada")
    assert reader.end_mark() == seen[-1]
    for change in (
        lambda: store.end(run_id, "finished", "It ended.", execution_time_s=1.0),
        lambda: store.archive([run_id], by="ada"),
        lambda: store.unarchive([run_id], by="ada"),
        lambda: store.connection.execute("DELETE FROM runs"),
    ):
        change()
        assert reader.end_mark() != seen[-1]
        seen.append(reader.end_mark())


def test_news_and_mark_are_read_from_indexes_alone(store: Store, reader: Reader) -> None:
    for sql, values in ((f"SELECT {_COUNTS} {_SINCE}", [START]), (_MARK, [])):
        plan = [row["detail"] for row in reader.rows(f"EXPLAIN QUERY PLAN {sql}", values)]
        touched = [detail for detail in plan if "runs" in detail]
        assert touched and not [detail for detail in touched if "COVERING INDEX" not in detail], plan
