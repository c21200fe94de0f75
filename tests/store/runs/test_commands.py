"""What people do to runs, and that each change has its event and its change token."""

from collections.abc import Callable

import pytest

from engine.errors import ConfigError, NoSuchRun, WrongStatus
from engine.store import Demand, Launch, Reader, Store


def kinds(reader: Reader, run_id: int) -> list[tuple[str, str]]:
    return [(event.kind, event.who) for event in reader.details.events(run_id)]


def test_a_run_comes_back_as_queued_and_odd_texts_readable(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    first = store.runs.add(
        Launch("hogwild", {"lr": 0.1, "name": "é"}, "ada", "quick", "mine", demand=Demand(4, 1, 2, 2))
    )
    run = reader.runs.one(store.runs.add(Launch("hogwild", {}, "grace", parent_id=first, demand=Demand(1, 0, 1, 1))))
    assert (run.parent_id, run.config, run.preset) == (first, {}, None)
    run = reader.runs.one(first)
    assert (run.experiment, run.owner, run.preset, run.name, run.status) == (
        "hogwild",
        "ada",
        "quick",
        "mine",
        "queued",
    )
    assert (run.config, run.demand) == ({"lr": 0.1, "name": "é"}, Demand(4, 1, 2, 2))
    assert (run.worker, run.gpus, run.environment, run.tags, run.note, run.active) == (None, (), {}, (), "", True)
    assert kinds(reader, first) == [("queued", "ada"), ("resumed", "grace")]
    run_id = running()
    store.runs.add_event(run_id, "note", "worker", "half \udcff a name")
    store.claims.end(run_id, "failed", "bad \ud800", error="Traceback \udc80")
    assert reader.details.events(run_id)[-2].detail == "half \\udcff a name"
    assert (reader.runs.one(run_id).cause, reader.runs.one(run_id).error) == ("bad \\ud800", "Traceback \\udc80")


def test_a_cancel_ends_a_queued_run_stops_a_live_one_and_is_refused_for_an_ended_one(
    store: Store, reader: Reader, add: Callable[..., int], running: Callable[..., int]
) -> None:
    run_id = add()
    assert store.runs.cancel(run_id, by="grace") == "cancelled"
    run = reader.runs.one(run_id)
    assert (run.status, run.cause, run.stop_requested_by, run.active) == (
        "cancelled",
        "Cancelled by grace.",
        "grace",
        False,
    )
    assert run.ended_at is not None
    assert kinds(reader, run_id)[-1] == ("cancelled", "grace")
    run_id = running()
    assert store.runs.cancel(run_id, by="grace") == "stopping"
    asked = reader.runs.one(run_id)
    assert store.runs.cancel(run_id, by="linus") == "stopping"
    assert reader.runs.one(run_id) == asked
    assert asked.stop_requested_by == store.read.runs.one(run_id).stop_requested_by == "grace"
    run_id = running()
    store.claims.end(run_id, "finished", "Completed successfully")
    with pytest.raises(WrongStatus, match=f"Run {run_id} can't be cancelled: it is already finished"):
        store.runs.cancel(run_id, by="ada")


def test_tags_note_and_name_come_back_and_leave_events_once(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    run_id = add()
    store.annotations.tag([run_id], " thesis ", by="grace")
    store.annotations.tag([run_id], "baseline", by="ada")
    store.annotations.tag([run_id], "wrong, really", by="ada")
    store.annotations.untag([run_id], "wrong, really", by="ada")
    store.annotations.set_note(run_id, "first", by="ada")
    store.annotations.set_note(run_id, "second ⟨note⟩", by="grace")
    store.annotations.rename(run_id, "wide", by="ada")
    run = reader.runs.one(run_id)
    assert (run.tags, run.note, run.name) == (("baseline", "thesis"), "second ⟨note⟩", "wide")
    assert reader.runs.find()[0].tags == ("baseline", "thesis")
    assert [kind for kind, _ in kinds(reader, run_id)] == [
        "queued",
        "tagged",
        "tagged",
        "tagged",
        "untagged",
        "noted",
        "noted",
        "renamed",
    ]
    store.annotations.tag([run_id], "thesis", by="ada")
    before = (reader.runs.token(run_id), reader.details.events(run_id))
    store.annotations.tag([run_id], "thesis", by="grace")
    store.annotations.untag([run_id], "other", by="grace")
    assert (reader.runs.token(run_id), reader.details.events(run_id)) == before


@pytest.mark.parametrize("tag", ["", "   ", "x" * 41])
def test_a_tag_has_1_to_40_characters(store: Store, add: Callable[..., int], tag: str) -> None:
    with pytest.raises(ConfigError, match="tag must have") as error:
        store.annotations.tag([add()], tag, by="ada")
    assert error.value.problems[0].field == "tag"


def commands(store: Store) -> dict[str, Callable[[int], object]]:
    return {
        "cancel": lambda run_id: store.runs.cancel(run_id, by="ada"),
        "tag": lambda run_id: store.annotations.tag([run_id], "x", by="ada"),
        "untag": lambda run_id: store.annotations.untag([run_id], "x", by="ada"),
        "note": lambda run_id: store.annotations.set_note(run_id, "x", by="ada"),
        "rename": lambda run_id: store.annotations.rename(run_id, "x", by="ada"),
        "event": lambda run_id: store.runs.add_event(run_id, "x", "ada"),
        "resume": lambda run_id: store.runs.add(
            Launch("hogwild", {}, "ada", parent_id=run_id, demand=Demand(1, 0, 1, 1))
        ),
        "write": lambda run_id: store.worker.write(run_id, []),
        "ranks": lambda run_id: store.worker.update_ranks(run_id, []),
        "log": lambda run_id: store.worker.add_log(run_id, "worker", "logs/worker.log"),
        "running": lambda run_id: store.worker.mark_running(run_id, 1.0),
        "end": lambda run_id: store.claims.end(run_id, "failed", "x"),
    }


def test_every_command_needs_its_run_and_gives_it_a_new_token(
    store: Store, reader: Reader, add: Callable[..., int], running: Callable[..., int]
) -> None:
    add()
    for name, command in commands(store).items():
        with pytest.raises(NoSuchRun, match="Run 99 doesn't exist "):
            command(99)
        assert reader.runs.count() == 1, name
    with pytest.raises(NoSuchRun):
        reader.runs.one(99)
    assert reader.runs.token(99) == 0
    other, run_id = add(), running()
    seen = [reader.runs.token(other), reader.runs.token(run_id)]
    for name in ("tag", "untag", "note", "rename", "event", "write", "ranks", "log", "cancel", "end"):
        commands(store)[name](run_id)
        seen.append(reader.runs.token(run_id))
        assert seen[-1] == reader.runs.token() == reader.runs.one(run_id).version, name
    assert seen == sorted(set(seen))
    assert reader.runs.token(other) == seen[0]
