"""Listing, showing and cancelling runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from engine.cli.launch import progress_line
from engine.home import Home
from engine.store import Reader, Store
from engine.store.imports.reports import ReportedRun
from engine.store.timestamps import in_seconds
from engine.system.processes import me
from engine.transfer.import_child import import_path
from tests.cli.conftest import Parallab
from tests.transfer.readers.test_other_programs import mlruns


def test_runs_are_listed_newest_first_and_filtered(parallab: Parallab, queued: Callable[..., int]) -> None:
    first, second, third = queued("one"), queued("two", owner="bea"), queued("three", experiment="reference")

    def ids(*words: str) -> list[int]:
        return [row["id"] for row in json.loads(parallab("list", "--json", *words).stdout)]

    assert ids() == [third, second, first]
    assert ids("--owner", "bea") == [second]
    assert ids("--experiment", "reference") == [third]
    unknown = parallab("list", "--experiment", "Hogwild")
    assert "Unknown experiment 'Hogwild'. Did you mean hogwild?" in unknown.stderr
    assert ids("--status", "finished") == []
    assert ids("--status", "finished", "--status", "queued", "--search", "one") == [first]
    assert ids("--limit", "1", "--offset", "1") == [second]


def test_the_table_says_how_many_it_leaves_out(parallab: Parallab, queued: Callable[..., int]) -> None:
    queued("one")
    queued("two")
    told = parallab("list", "--limit", "1")
    assert "two" in told.stdout and "Showing" not in told.stdout
    assert "Showing 1 of 2" in told.stderr


def test_the_table_has_tags_where_a_listed_run_has_one(
    parallab: Parallab, store: Store, queued: Callable[..., int]
) -> None:
    tagged, other = queued("one"), queued("two")
    assert "TAGS" not in parallab("list").stdout
    for tag in ("paper", "keep"):
        store.annotations.tag([tagged], tag, by="ada")
    heading, *rows = parallab("list").stdout.splitlines()
    assert heading.endswith("TAGS") and rows[1].endswith("keep, paper") and "keep" not in rows[0]
    assert "TAGS" not in parallab("list", "--filter", f"id == {other}").stdout


def test_the_share_done_is_empty_for_a_run_that_ended_without_recording_one(
    parallab: Parallab, store: Store, queued: Callable[..., int]
) -> None:
    ended = queued("one")
    store.runs.cancel(ended, by="ada")
    queued("two")
    _, *rows = parallab("list").stdout.splitlines()
    assert ["0%" in row for row in rows] == [True, False]


def test_an_empty_store_says_how_to_make_the_first_run(parallab: Parallab) -> None:
    assert "run hogwild --preset quick" in parallab("list").stdout


def test_show_finds_the_newest_run_of_a_filter(parallab: Parallab, queued: Callable[..., int]) -> None:
    first, second = queued("one"), queued("two")
    for text, run_id in (("", second), ("name == 'one'", first)):
        assert json.loads(parallab("show", "--latest", text, "--json").stdout)["id"] == run_id
    assert "No run matches" in parallab("show", "--latest", "name == 'three'").stderr
    assert "either the id of a run or --latest" in parallab("show").stderr
    assert "either the id of a run or --latest" in parallab("show", "1", "--latest", "").stderr


def test_show_tells_all_of_a_run_in_json(parallab: Parallab, live: int) -> None:
    told = json.loads(parallab("show", str(live), "--json").stdout)
    assert (told["id"], told["status"], told["pid"], told["owner"]) == (live, "running", me().pid, "ada")
    assert told["startup_time_s"] == 1.25
    assert told["config"] == {"seed": 3, "trainers": 2}
    assert told["environment"]["git_commit"] == "abc123"
    assert told["metrics"]["test/accuracy"] == 96.0
    assert told["best"]["test/accuracy"] == 97.5
    assert [rank["role"] for rank in told["ranks"]] == ["trainer1", "trainer2"]
    assert told["phases"]["0"] == {"compute": 1.5, "wait": 0.25}
    assert next(found for found in told["summaries"] if found["rank"] == 0)["nonfinite"] == 2
    assert [event["kind"] for event in told["events"]] == ["queued", "starting", "running"]
    assert told["machine"][0]["value"] == 83.0
    assert told["logs"] == [{"source": "worker", "path": "logs/worker.log"}]
    assert told["histograms"] == [{"rank": 0, "name": "staleness", "counts": {"2": 7}}]
    assert told["spans"][0]["name"] == "forward"
    assert told["progress"] == 0.25


def test_a_queued_run_says_how_many_wait_before_it(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    queued()
    told = json.loads(parallab("show", str(queued()), "--json").stdout)
    assert (told["status"], told["queue_position"], told["pid"]) == ("queued", 1, None)
    parallab("hold", "1")
    with Reader.open(home) as reader:
        assert [progress_line(reader.runs.one(run_id), ahead=reader.queue.position(run_id)) for run_id in (1, 2)] == [
            "queued, on hold",
            "queued, next",
        ]
    assert [json.loads(parallab("show", str(run_id), "--json").stdout)["queue_position"] for run_id in (1, 2)] == [
        None,
        0,
    ]


def test_show_tells_a_person_what_matters(parallab: Parallab, ended: int) -> None:
    told = parallab("show", str(ended)).stdout
    for text in (
        f"Run {ended} finished in 4.5 s (start-up 1.2 s). All 2 ranks finished.",
        "first light",
        "trainer2",
        "Test accuracy",
        "97.5",
        "trainers = 2",
    ):
        assert text in told, text


def test_show_tells_how_long_a_run_waited_and_for_what(
    parallab: Parallab, store: Store, queued: Callable[..., int]
) -> None:
    run_id = queued("patient")
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET created_at = ? WHERE id = ?", [in_seconds(-90), run_id])
    assert store.claims.claim(run_id, me(), [], reason="waits for 2 cores: run 7 holds 2")
    assert re.search(
        r"^waited +1 min 3\d s, last for 2 cores: run 7 holds 2$", parallab("show", str(run_id)).stdout, re.M
    )


def test_a_lost_run_that_its_program_reported_has_no_logs_to_read(parallab: Parallab, store: Store) -> None:
    run_id = store.reports.begin(ReportedRun("pets", "a key", "", {}, {}), by="Ada")
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET heartbeat_at = ? WHERE id = ?", [in_seconds(-90), run_id])
    assert store.reports.lose_silent(30) == [run_id]
    told = parallab("show", str(run_id)).stdout
    assert f"Run {run_id} lost" in told and "logs" not in told


def test_a_run_of_another_program_has_no_start_up(parallab: Parallab, store: Store, tmp_path: Path) -> None:
    import_path(store, mlruns(tmp_path), by="Lin")
    told = parallab("show", "1").stdout
    assert told.startswith("Run 1 finished in 1 min 00 s. Finished, according to MLflow.\n")
    reported = parallab("show", str(store.reports.begin(ReportedRun("pets", "a key"), by="Ada"))).stdout
    for name in ("resources", "seeding", "disturbance", "Whole logs"):
        assert f"\n{name}" not in told + reported, "Parallab did not run it"


def test_a_failed_run_shows_the_end_of_its_traceback(parallab: Parallab, store: Store, live: int) -> None:
    store.claims.end(
        live,
        "failed",
        "trainer1 raised ValueError: seven is not eight.",
        error="Traceback (most recent call last):\nValueError: seven is not eight",
    )
    told = parallab("show", str(live)).stdout
    assert re.match(rf"Run {live} failed after \S+ s \(start-up 1.2 s\)\. trainer1 raised", told)
    assert "ValueError: seven is not eight\n" in told and f"Whole logs: python -m engine logs {live}\n" in told
    assert "Start-up time" not in told, "its use of the machine says nothing of the failure"


def test_a_queued_run_is_cancelled_at_once_by_name(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    run_id = queued()
    told = parallab("cancel", str(run_id), "--owner", "bea", "--json")
    assert json.loads(told.stdout) == {"id": run_id, "status": "cancelled"}
    with Reader.open(home) as reader:
        assert reader.runs.one(run_id).cause == "Cancelled by bea."
    assert not home.runner_lock.exists(), "no runner is needed for that"


def test_an_ended_run_cannot_be_cancelled(parallab: Parallab, ended: int) -> None:
    told = parallab("cancel", str(ended))
    assert (told.returncode, "already finished" in told.stderr) == (2, True)


def test_a_name_with_line_breaks_or_many_letters_leaves_the_table_whole(
    parallab: Parallab, queued: Callable[..., int]
) -> None:
    queued("two\nlines")
    queued("x" * 200)
    lines = parallab("list").stdout.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) < 200
    assert "two lines" in lines[2] and f"{'x' * 39}…" in lines[1]
