"""The runner's side of a job, from its submission to its end, with a stand-in for Slurm."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.catalogue import Catalogue, catalogue, set_catalogue
from engine.cluster.slurm import SlurmRefused, SlurmUnavailable
from engine.cluster.supervisor import END_DEADLINE_S, GONE_S, LOST_S, POLL_S, QUIET_S, STOP_DEADLINE_S
from engine.home import Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.records import EventRecord, line_of
from engine.script.command import read_command
from engine.store import Launch
from engine.store.queue.cluster_jobs import JobState
from engine.store.timestamps import now
from tests.checkpoints import lay
from tests.jobs.conftest import JobLab, losses, write_clusters
from tests.transfer.readers.events import event, record, scalar


def test_a_run_goes_from_the_queue_to_its_end_and_leaves_nothing(lab: JobLab) -> None:
    set_catalogue(lab.home, Catalogue(environments=["own_module:Pole-v0"]))
    run_id = lab.launch()
    lab.step()
    job = lab.job(run_id)
    folder = Path(job.folder)
    assert catalogue(Home(folder)) == catalogue(lab.home), "by which the worker checks the run's config"
    assert (job.job_id, folder.stat().st_mode & 0o777) == ("100", 0o700)
    lab.step(POLL_S)
    assert (lab.job(run_id).state, lab.job(run_id).reason) == ("PENDING", "Resources")
    assert lab.run(run_id).status == "queued"
    lab.slurm.set("RUNNING")
    file = lab.records(run_id)
    losses(file, 0, 10)
    (folder / "run" / "logs").mkdir()
    (folder / "run" / "logs" / "trainer1.log").write_text("hello")
    lab.step(POLL_S)
    assert (lab.run(run_id).status, lab.values(run_id)) == ("running", [float(step) for step in range(10)])
    assert lab.run(run_id).environment["host"] == "n1"
    losses(file, 10, 20)
    file.end("finished", "Completed successfully", "", 12.5)
    lab.step()
    assert (lab.run(run_id).status, lab.run(run_id).execution_time_s) == ("finished", 12.5)
    assert (lab.home.run_folder(run_id) / "logs" / "trainer1.log").read_text() == "hello"
    lab.slurm.set("COMPLETED")
    lab.step(POLL_S)
    assert lab.values(run_id) == [float(step) for step in range(20)]
    assert lab.store.read.cluster_jobs.of(run_id) is None and not folder.exists()


def test_a_command_whose_worker_was_killed_keeps_what_only_its_own_files_hold(lab: JobLab, tmp_path: Path) -> None:
    command = read_command(["python", "train.py"], folder=str(tmp_path))
    asked = Launch(command.name, command.defaults(), "ada", command=command, terms=LaunchOptions(target="lab"))
    run_id = launch(lab.home, asked)
    lab.step()
    lab.slurm.set("RUNNING")
    losses(lab.records(run_id), 0, 3)
    folder = Path(lab.job(run_id).folder) / "run"
    (folder / "recorded").mkdir()
    lines = (json.dumps({"t": time.time(), "s": step, "m": {"train/loss": step}}) for step in range(5))
    (folder / "recorded" / "0-4711-1.jsonl").write_text("\n".join(lines))
    (folder / "pids").write_text("4711\n")
    board = tmp_path / f"events.out.tfevents.{int(time.time())}.n1.4711.0"
    board.write_bytes(record(event(time.time(), 1, scalar("board", 0.5))))
    lab.step(POLL_S)
    assert lab.values(run_id) == [0, 1, 2]
    lab.slurm.set("FAILED")
    lab.step(POLL_S + QUIET_S)
    assert (lab.run(run_id).status, lab.values(run_id)) == ("lost", [0, 1, 2, 3, 4])
    assert [each.metric for each in lab.store.read.details.summaries(run_id)] == ["board", "train/loss"]


def test_times_are_those_of_the_records(lab: JobLab, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    monkeypatch.setattr("engine.runtime.worker.records.now", lambda: "2026-11-26T10:00:00.000Z")
    file.end("finished", "Completed successfully", "", 1.0)
    lab.step()
    assert lab.run(run_id).ended_at == "2026-11-26T10:00:00.000Z"


def test_each_record_is_stored_once_whichever_runner_takes_it(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file, expected = lab.records(run_id), 0
    for _ in range(5):
        losses(file, expected, expected + 7)
        expected += 7
        lab.restart()
        lab.step()
    assert lab.values(run_id) == [float(step) for step in range(expected)]


def test_two_runners_at_once_store_a_record_once(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    losses(lab.records(run_id), 0, 5)
    stale = lab.job(run_id)
    lab.step()
    assert not lab.store.cluster_jobs.advance(stale, stale.position + 10, 99, [lambda: pytest.fail("stored twice")])


def test_a_record_that_can_not_be_stored_is_left_out_with_an_event(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    losses(file, 0, 3)
    with JobFolder(Path(lab.job(run_id).folder)).records.open("ab") as records:
        for number, text in ((5, b'{"kind": "ranks", "rows": 7}'), (6, b'{"kind": "unheard of"}'), (7, b"[]")):
            line = line_of(number, now(), EventRecord(event="", detail=""))
            rest = b"%d %s %s" % (number, now().encode(), text)
            from zlib import crc32

            assert line
            records.write(b"%08x %s\n" % (crc32(rest), rest))
    file._sequence = 7
    losses(file, 3, 5)
    lab.step()
    assert lab.values(run_id) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert len(events(lab, run_id, "record left out")) == 3


def test_missing_records_are_said(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    file._sequence += 4
    losses(file, 0, 2)
    lab.step()
    assert "4 records" in events(lab, run_id, "records missing")[0]
    assert lab.values(run_id) == [0.0, 1.0]


def test_a_queued_run_that_is_cancelled_takes_its_job_with_it(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step(POLL_S)
    lab.store.runs.cancel(run_id, by="ada")
    lab.step()
    assert lab.slurm.ended == [*lab.slurm.submitted]
    lab.slurm.set("CANCELLED")
    lab.step(POLL_S)
    assert lab.store.read.cluster_jobs.of(run_id) is None


def test_a_running_run_is_asked_to_stop_and_its_job_ended_at_the_deadline(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    lab.records(run_id)
    lab.slurm.set("RUNNING")
    lab.step(POLL_S)
    lab.store.runs.cancel(run_id, by="ada")
    lab.step(3)
    assert (len(lab.slurm.asked), lab.slurm.ended) == (1, [])
    lab.step(STOP_DEADLINE_S)
    assert (len(lab.slurm.asked), len(lab.slurm.ended)) == (1, 1)
    lab.slurm.set("CANCELLED")
    lab.step(POLL_S + QUIET_S)
    assert (lab.run(run_id).status, lab.run(run_id).cause) == ("cancelled", "Cancelled by ada.")


def test_force_ends_the_job_at_once(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    lab.records(run_id)
    lab.step()
    lab.store.runs.cancel(run_id, by="ada", force=True)
    lab.step()
    assert (lab.slurm.asked, len(lab.slurm.ended)) == ([], 1)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("NODE_FAIL", "lost a node"),
        ("PREEMPTED", "was preempted"),
        ("TIMEOUT", "reached its time limit"),
        ("OUT_OF_MEMORY", "used more memory"),
        ("FAILED", "failed"),
        ("SOMETHING_NEW", "ended as SOMETHING_NEW"),
    ],
)
def test_a_job_that_ends_without_a_last_record_loses_its_run(lab: JobLab, state: str, words: str) -> None:
    run_id = lab.launch()
    lab.step()
    losses(lab.records(run_id), 0, 3)
    lab.step()
    lab.slurm.set(state, "n2")
    lab.step(POLL_S)
    assert lab.run(run_id).status == "running", "the file may still grow: a state needs two sources"
    lab.step(QUIET_S)
    run = lab.run(run_id)
    assert run.status == "lost" and f"Job 100 of lab on n2 {words}" in run.cause
    assert lab.values(run_id) == [0.0, 1.0, 2.0]


def test_a_lost_run_is_retried_by_a_job_of_its_own(lab: JobLab) -> None:
    run_id = lab.launch(max_retries=1)
    lab.step()
    lab.records(run_id)
    lab.step()
    lab.slurm.set("NODE_FAIL")
    lab.step(POLL_S + QUIET_S)
    assert lab.run(run_id).status == "lost"
    again = lab.run(run_id + 1)
    assert (again.parent_id, again.attempt, again.terms.target) == (run_id, 1, "lab")
    lab.step(1)
    assert len(lab.slurm.submitted) == 2


def test_a_checkpoint_that_came_back_is_given_to_the_next_job(lab: JobLab) -> None:
    run_id = lab.launch(max_retries=1)
    lab.step()
    losses(lab.records(run_id), 0, 30)
    folder = JobFolder(Path(lab.job(run_id).folder))
    lay(folder.run, 10, run=lab.run(run_id).uid)
    saved = (folder.run / "checkpoint.pt").read_bytes()
    lab.step()
    lab.slurm.set("NODE_FAIL")
    lab.step(POLL_S + QUIET_S + 1)
    after = JobFolder(Path(lab.job(run_id + 1).folder))
    assert (after.run / "resumed.pt").read_bytes() == saved
    assert after.spec().resumes and after.spec().time_before_s == 1.0
    assert lab.values(run_id + 1) == [float(step) for step in range(11)]


def test_a_job_cancelled_on_the_cluster_cancels_its_run(lab: JobLab) -> None:
    run_id = lab.launch(max_retries=3)
    lab.step()
    lab.records(run_id)
    lab.step()
    lab.slurm.set("CANCELLED")
    lab.step(POLL_S + QUIET_S)
    assert lab.run(run_id).status == "cancelled" and "scancel" in lab.run(run_id).cause


@pytest.mark.parametrize("trouble", ["empty", "failing"])
def test_minutes_of_an_empty_or_failing_squeue_lose_no_run(lab: JobLab, trouble: str) -> None:
    running, queued = lab.launch(), lab.launch()
    lab.step()
    file = lab.records(running)
    lab.step(POLL_S)
    listed = dict(lab.slurm.listed)
    if trouble == "empty":
        lab.slurm.listed = {}
    else:
        lab.slurm.failure = SlurmUnavailable("slurm_load_jobs error: Unable to contact slurm controller")
    lab.step(60)
    losses(file, 0, 3)
    lab.step(120)
    lab.slurm.listed, lab.slurm.failure = listed, None
    lab.step(POLL_S)
    assert (lab.run(running).status, lab.run(queued).status) == ("running", "queued")
    assert lab.slurm.ended == [] and len(lab.slurm.submitted) == 2


def test_a_job_that_slurm_forgot_is_lost_after_minutes_without_records(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    lab.step(POLL_S)
    lab.slurm.listed = {}
    lab.step(LOST_S - 30)
    losses(file, 0, 1)
    lab.step(60)
    assert lab.run(run_id).status == "running", "its records have just grown"
    lab.step(LOST_S)
    assert lab.run(run_id).status == "lost" and "Slurm does not list it" in lab.run(run_id).cause


def test_an_accepted_job_whose_answer_was_lost_is_found_by_its_name(lab: JobLab) -> None:
    lab.slurm.loses_answer = True
    run_id = lab.launch()
    lab.step()
    assert lab.job(run_id).job_id == ""
    lab.restart()
    lab.step(3 * POLL_S)
    assert lab.job(run_id).job_id == "100" and len(lab.slurm.submitted) == 1


def test_a_submission_that_never_reached_slurm_is_made_again(lab: JobLab) -> None:
    lab.slurm.failure = SlurmUnavailable("Unable to contact slurm controller")
    run_id = lab.launch()
    lab.step(10)
    assert lab.run(run_id).status == "queued"
    lab.slurm.failure = None
    lab.step(3 * POLL_S)
    assert lab.job(run_id).job_id == "100" and len(lab.slurm.submitted) == 1


def test_a_job_that_slurm_refuses_fails_its_run_with_slurms_words(lab: JobLab) -> None:
    lab.slurm.failure = SlurmRefused("Slurm did not accept the job: invalid partition specified: gpu")
    run_id = lab.launch()
    lab.step()
    assert (lab.run(run_id).status, lab.store.read.cluster_jobs.of(run_id)) == ("failed", None)
    assert "invalid partition" in lab.run(run_id).cause


def test_a_job_that_ends_before_its_worker_begins_shows_its_output(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step(POLL_S)
    output = Path(lab.job(run_id).folder) / "slurm"
    output.mkdir(exist_ok=True)
    (output / "100_0_log.out").write_text("module: command not found")
    lab.slurm.set("FAILED")
    lab.step(POLL_S + QUIET_S)
    assert lab.run(run_id).status == "failed"
    assert "before the run began. Its output ends: module: command not found" in lab.run(run_id).cause


def test_a_run_on_hold_gives_its_place_back_and_gets_a_new_one(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step(POLL_S)
    lab.store.queue.hold(run_id, by="ada")
    lab.step()
    assert len(lab.slurm.ended) == 1
    lab.slurm.set("CANCELLED")
    lab.step(POLL_S)
    assert lab.store.read.cluster_jobs.of(run_id) is None and lab.run(run_id).status == "queued"
    lab.step(GONE_S)
    assert len(lab.slurm.submitted) == 1
    lab.store.queue.release(run_id, by="ada")
    lab.step(1)
    assert len(lab.slurm.submitted) == 2


def test_a_cluster_and_a_person_have_their_limits(lab: JobLab) -> None:
    for _ in range(5):
        lab.launch("ada")
    lab.step()
    assert len(lab.slurm.submitted) == 3, "max_jobs of the cluster"
    lab.home.limits.write_text('{"max_running_per_person": 3}')
    first = lab.store.read.cluster_jobs.all()[0]
    lab.records(first.run_id).end("finished", "", "", 1.0)
    lab.slurm.listed[f"parallab-{first.run_id}-{first.token}"] = JobState("100", "COMPLETED")
    bob = lab.launch("bob")
    lab.step(POLL_S)
    assert len(lab.slurm.submitted) == 4 and lab.store.read.cluster_jobs.of(bob) is None
    lab.home.limits.write_text('{"max_running_per_person": 1}')
    second = lab.store.read.cluster_jobs.all()[0]
    lab.records(second.run_id).end("finished", "", "", 1.0)
    lab.slurm.listed[f"parallab-{second.run_id}-{second.token}"] = JobState("101", "COMPLETED")
    lab.step(POLL_S)
    assert lab.store.read.cluster_jobs.of(bob) is not None, "ada has reached her limit"


def test_a_job_that_stays_after_its_runs_end_is_ended(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    lab.records(run_id).end("finished", "Completed successfully", "", 1.0)
    lab.slurm.set("RUNNING")
    lab.step(END_DEADLINE_S)
    assert lab.run(run_id).status == "finished" and lab.slurm.ended == []
    lab.step(2)
    assert len(lab.slurm.ended) == 1


def test_a_run_over_its_time_limit_is_stopped(lab: JobLab, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = lab.launch(max_run_time_s=60.0)
    lab.step()
    lab.records(run_id)
    lab.step()
    monkeypatch.setattr("engine.cluster.supervisor._age_s", lambda at: 61.0)
    lab.step(1)
    assert (lab.run(run_id).status, lab.run(run_id).stop_kind) == ("stopping", "time limit")
    assert len(lab.slurm.asked) == 1


def test_a_request_for_a_trace_reaches_the_worker(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    lab.step()
    lab.store.runs.trace(run_id, 2.0, by="ada")
    lab.step()
    assert file.trace_requests() == [2.0]


def test_the_machines_own_runner_leaves_runs_of_clusters_alone(lab: JobLab) -> None:
    run_id = lab.launch()
    assert lab.store.read.queue.next() is None
    lab.step()
    lab.records(run_id)
    lab.step()
    assert lab.store.read.queue.alive() == []
    assert [run.id for run in lab.store.read.queue.alive_on_clusters()] == [run_id]


def test_a_cluster_that_was_removed_keeps_its_runs_waiting(lab: JobLab, logged: list[str]) -> None:
    run_id = lab.launch()
    write_clusters(lab.home, "")
    lab.step(5)
    assert lab.run(run_id).status == "queued" and len(logged) == 1


def events(lab: JobLab, run_id: int, kind: str) -> list[str]:
    return [event.detail for event in lab.store.read.details.events(run_id) if event.kind == kind]


def test_the_word_of_a_state_is_kept_until_it_changes(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step(POLL_S)
    version = lab.run(run_id).version
    lab.step(3 * POLL_S)
    assert lab.run(run_id).version == version, "a page is not redrawn for nothing"
    lab.slurm.listed = {name: replace(one, reason="Priority") for name, one in lab.slurm.listed.items()}
    lab.step(POLL_S)
    assert lab.run(run_id).version > version


def test_a_worker_that_outlives_its_allocation_is_told_to_stop(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    file = lab.records(run_id)
    lab.step(POLL_S)
    folder = JobFolder(Path(lab.job(run_id).folder))
    lab.slurm.set("NODE_FAIL")
    for step in range(20):
        losses(file, step, step + 1)
        lab.step(1)
    assert lab.run(run_id).status == "running" and folder.is_to_stop()
    file.end("cancelled", "The job was cancelled or reached its time limit on the cluster.", "", None)
    lab.step(QUIET_S + 1)
    assert lab.run(run_id).status == "lost" and "lost a node" in lab.run(run_id).cause


def test_a_worker_that_lost_its_allocation_ends_its_run_before_slurm_notices(lab: JobLab) -> None:
    run_id = lab.launch(max_retries=1)
    lab.step()
    lab.slurm.set("RUNNING")
    file = lab.records(run_id)
    losses(file, 0, 3)
    file.end("lost", "The process that started the worker is gone.", "", None)
    lab.step()
    found = lab.run(run_id)
    assert found.status == "lost"
    assert found.cause.startswith(
        "The process that started the worker is gone. Recorded data is kept. It is tried again"
    )
    assert lab.store.read.runs.count() == 2, "it is retried"
    lab.step()
    assert lab.slurm.ended == [next(iter(lab.slurm.submitted))], "what Slurm still runs of it is ended"
    assert lab.values(run_id) == [0.0, 1.0, 2.0]


def test_a_run_that_was_to_stop_is_cancelled_even_if_its_allocation_is_lost(lab: JobLab) -> None:
    run_id = lab.launch()
    lab.step()
    lab.slurm.set("RUNNING")
    file = lab.records(run_id)
    lab.step(POLL_S)
    lab.store.runs.cancel(run_id, by="ada")
    file.end("lost", "The process that started the worker is gone.", "", None)
    lab.step()
    assert (lab.run(run_id).status, lab.run(run_id).cause) == ("cancelled", "Cancelled by ada.")
