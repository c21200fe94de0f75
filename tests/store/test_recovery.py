"""Force, time limits and retries in the store: each is one transaction, and asking twice changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.checkpoint import last_checkpoint, take_checkpoint
from engine.errors import ConfigError, NoSuchRun
from engine.store import Reader, Store
from engine.terms import Terms

Running = Callable[..., int]


def test_force_on_a_stopping_run_is_noted_once(store: Store, reader: Reader, running: Running) -> None:
    run_id = running()
    assert store.request_cancel(run_id, by="ada") == "stopping"
    assert (reader.run(run_id).stop_kind, reader.run(run_id).stop_requested_by) == ("cancel", "ada")
    assert store.request_cancel(run_id, by="grace", force=True) == "stopping"
    assert (reader.run(run_id).stop_kind, reader.run(run_id).stop_requested_by) == ("force", "grace")
    before = (reader.token(), reader.events(run_id))
    assert store.request_cancel(run_id, by="eve", force=True) == "stopping"
    assert store.request_cancel(run_id, by="eve") == "stopping"
    assert (reader.token(), reader.events(run_id)) == before


def test_a_queued_run_needs_no_force(store: Store, reader: Reader, add: Running) -> None:
    run_id = add()
    assert store.request_cancel(run_id, by="ada", force=True) == "cancelled"
    assert reader.run(run_id).cause == "Cancelled by ada."


def test_a_time_limit_stops_a_live_run_alone(store: Store, reader: Reader, add: Running, running: Running) -> None:
    queued, live = add(terms=Terms(max_run_time_s=60)), running(terms=Terms(max_run_time_s=60))
    assert not store.stop_at_limit(queued)
    assert store.stop_at_limit(live)
    assert not store.stop_at_limit(live)
    run = reader.run(live)
    assert (run.status, run.stop_kind, run.stop_requested_by) == ("stopping", "time limit", "its time limit")
    assert (reader.events(live)[-1].kind, reader.events(live)[-1].detail) == ("stopping", "60 s")


def test_a_run_that_ended_is_not_lost_after_all(store: Store, reader: Reader, running: Running) -> None:
    run_id = running(terms=Terms(max_retries=3))
    store.end(run_id, "finished", "All ranks ended their work.")
    assert store.lose(run_id, "gone", resumes=False) is None
    assert (reader.run(run_id).status, reader.count()) == ("finished", 1)
    with pytest.raises(NoSuchRun):
        store.lose(99, "gone", resumes=False)


def test_the_end_and_the_retry_of_a_lost_run_are_one_transaction(store: Store, reader: Reader, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = running(terms=Terms(max_retries=1))
    monkeypatch.setattr(store, "_end", _dies)
    with pytest.raises(KeyboardInterrupt):
        store.lose(run_id, "gone", resumes=False)
    assert (reader.run(run_id).status, reader.count()) == ("running", 1)
    monkeypatch.undo()
    assert store.lose(run_id, "gone", resumes=False) == run_id + 1


def _dies(*_: object) -> bool:
    raise KeyboardInterrupt


def test_a_retry_by_a_person_names_its_parent_and_no_checkpoint(store: Store, reader: Reader, add: Running, running: Running) -> None:
    first = running()
    store.end(first, "failed", "no")
    second = add(parent_id=first, resumes=False)
    third = add(parent_id=first)
    assert (reader.run(second).resumes, reader.run(second).parent_id, reader.run(third).resumes) == (False, first, True)
    assert (reader.retried_as(first), reader.resumed_as(first)) == ([second], [third])
    assert [(event.kind, event.detail) for event in reader.events(first)[-2:]] == [("retried", f"as run {second}"), ("resumed", f"as run {third}")]
    assert reader.events(second)[-1].detail == f"run {first} from the start"
    assert reader.chain(second) == [(first, "failed"), (second, "queued")]
    assert reader.chain(first) == [(first, "failed"), (second, "queued"), (third, "queued")]


@pytest.mark.parametrize("limits", [Terms(max_run_time_s=0.5), Terms(max_run_time_s=1e9), Terms(max_retries=-1), Terms(max_retries=11)])
def test_a_limit_out_of_bounds_is_a_sentence(limits: Terms) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        limits.checked()


def test_a_run_that_went_on_has_its_parents_checkpoint_until_it_saves_one(tmp_path: Path) -> None:
    first, second, third = (tmp_path / str(number) for number in (1, 2, 3))
    first.mkdir()
    (first / "checkpoint.pt").write_bytes(b"weights")
    (first / "checkpoint.json").write_text('{"step": 12, "passes": 0.5, "time_s": 1.5, "saved_at": "2026-01-01T00:00:00.000Z"}')
    taken = take_checkpoint(first, second)
    assert taken is not None
    assert last_checkpoint(second) == taken[1]
    (second / "part").write_bytes(b"newer")
    (second / "part").replace(second / "checkpoint.pt")  # as a checkpoint is saved
    assert ((first / "checkpoint.pt").read_bytes(), taken[0].read_bytes()) == (b"weights", b"weights")
    assert take_checkpoint(second, third) == (third / "resumed.pt", taken[1])
    assert (third / "resumed.pt").read_bytes() == b"newer"
