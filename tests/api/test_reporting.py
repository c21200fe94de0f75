"""Runs of programs outside of Parallab, by the API: begun once, reported in batches that may come twice, and ended."""

import json
import time
from typing import Any

import pytest

from engine.access.quotas import Limits, set_limits
from engine.errors import WrongStatus
from engine.runner.schedulers import Silence
from engine.store import Reader
from engine.store.imports.reports import MOST_METRICS
from engine.system.runner_process import console_presence
from engine.upkeep.backups import back_up, restore
from tests.api.conftest import Lab, Script

BEGIN = {
    "key": "job 7",
    "experiment": "net",
    "name": "first",
    "config": {"lr": 0.1, "net": {"width": 8, "act": "relu"}},
    "tags": ["a=1"],
    "note": "by hand",
    "host": "laptop",
}


def rows(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"step": n, "time_s": n / 10, "values": {"loss": float(n), **more}} for n in range(first, first + count)]


def stored(lab: Lab, run_id: int, metric: str = "loss") -> list[float]:
    with Reader.open(lab.home) as reader:
        return [value for curve in reader.curves.series(run_id, [metric]) for value in curve.values]


def test_a_run_is_begun_once_reported_in_batches_that_may_come_twice_and_ended(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    first, again = mo.post("/reported-runs", BEGIN), mo.post("/reported-runs", BEGIN)
    run_id = first.json()["id"]
    assert [first.status_code, again.status_code, again.json()["id"]] == [201, 200, run_id]
    assert first.headers["location"] == f"/api/v1/runs/{run_id}"
    assert mo.told(f"/runs/{run_id}")["status"] == "running"

    path = f"/runs/{run_id}/report"
    special = [{"step": 10, "time_s": 1, "values": {"loss": 10, "grad": "NaN"}}]
    for batch, offset, held in ((rows(0, 5), 0, 5), (rows(0, 5), 0, 5), (rows(3, 7), 3, 10), (special, 10, 11)):
        answer = mo.post(path, {"rows": batch, "offset": offset, "config": {"lr": 0.2}})
        assert (answer.status_code, answer.json()["rows"]) == (200, held), answer.text
    gap = mo.post(path, {"rows": rows(20, 1), "offset": 20})
    assert (gap.status_code, "Send the rows from 11 on" in gap.json()["error"]) == (409, True)
    assert stored(lab, run_id) == [float(n) for n in range(11)]
    other = mo.post(path, {"rows": rows(90, 1), "writer": "rank 1", "dropped": 4})
    assert other.json()["rows"] == 1

    end = {"rows": rows(11, 1), "offset": 11, "end": {"status": "finished", "time_s": 2.5}}
    assert [mo.post(path, end).json()["status"] for _ in range(2)] == ["finished"] * 2
    for body in ({"rows": rows(12, 1), "offset": 12}, {"end": {"status": "failed"}}):
        assert mo.post(path, body).status_code == 409
    assert mo.post("/reported-runs", BEGIN).status_code == 409
    run = mo.told(f"/runs/{run_id}")
    assert run["reported"] and (run["experiment"], run["owner"], run["note"], run["tags"]) == (
        *("net", "mo", "by hand"),
        ["a=1"],
    )
    assert run["config"] == {"lr": 0.2, "net.width": 8, "net.act": "relu"}
    assert (run["status"], run["execution_time_s"], run["environment"]["host"]) == ("finished", 2.5, "laptop")
    assert "4 rows of its program are missing" in run["cause"]
    assert [each["nonfinite"] for each in run["summaries"] if each["metric"] == "grad"] == [1]
    assert [event["kind"] for event in run["events"]] == ["running", "dropped", "finished"]
    with Reader.open(lab.home) as reader:
        assert [each.command for each in reader.audit.entries(who="mo")] == ["report"] * 2 + ["record"] * 2


def test_only_the_runs_person_and_admins_report_to_it_with_a_token_that_may_launch(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = mo.post("/reported-runs", BEGIN).json()["id"]
    with lab.store() as store:
        store.people.add("vic", "member", by="ada")
        viewer = lab.script("vic", "launch")
        store.people.set_role("vic", "viewer", by="ada")
    strangers = [(lab.script("mia", "launch"), 403), (viewer, 403), (Script(), 401)]
    readers = [(lab.script("mo", "read"), 403), (lab.browser("mo"), 403)]
    for script, status in (*strangers, *readers, (lab.script("ada", "launch"), 200)):
        bodies = {"report": {"config": {"lr": 9}}, "marks": {"tags": ["mine"]}}
        answers = [script.post(f"/runs/{run_id}/{path}", body).status_code for path, body in bodies.items()]
        assert answers == [status, status]
    assert [script.post("/reported-runs", {}).status_code for script, _ in (*strangers[1:], *readers)] == [
        *(403, 401, 403, 403)
    ]
    assert lab.script("mia", "launch").post("/reported-runs", BEGIN).json()["id"] != run_id, "keys are a person's own"
    refused = mo.post(f"/runs/{lab.runs['running']}/report", {"rows": rows(0, 1)})
    assert refused.status_code == 403
    assert lab.script("ada", "launch").post(f"/runs/{lab.runs['running']}/report", {}).status_code == 409
    with lab.store() as store, pytest.raises(WrongStatus, match="End the program itself"):
        store.runs.cancel(run_id, by="mo")
    assert stored(lab, run_id) == []


def test_marks_are_changed_all_or_none(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = mo.post("/reported-runs", BEGIN).json()["id"]
    path = f"/runs/{run_id}/marks"
    given = {"name": "second", "note": "n", "tags": ["b"], "untag": ["a=1"], "starred": True, "baseline": True}
    run = mo.post(path, given).json()
    assert (run["name"], run["tags"], run["starred_by"], run["pinned_by"]) == ("second", ["b"], "mo", "mo")
    assert mo.post(path, {"name": "third", "archived": True}).status_code == 409
    assert mo.post(path, {"name": "third", "tags": ["x\u202e"]}).status_code == 422
    assert mo.told(f"/runs/{run_id}")["name"] == "second"


def test_hostile_names_are_cleaned_and_what_exceeds_a_bound_is_refused_whole(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    evil = "hog\u202ewild\n\x00"
    run_id = mo.post("/reported-runs", {"experiment": "hogwild", "name": evil, "config": {evil: evil}}).json()["id"]
    run = mo.told(f"/runs/{run_id}")
    assert (run["experiment"], run["name"], list(run["config"])) == ("hogwild (reported)", "hogwild", ["hogwild"])
    path = f"/runs/{run_id}/report"
    values = {"a\u202eb": 1, "x" * 600: 2}
    assert mo.post(path, {"rows": [{"step": 0, "time_s": 0, "values": values}]}).status_code == 200
    names = [each["metric"] for each in mo.told(f"/runs/{run_id}")["summaries"]]
    assert sorted(map(len, names)) == [2, 500] and "ab" in names
    bad: list[dict[str, Any]] = [
        {"rows": [{"step": 0, "time_s": 0, "values": {"\u202e": 1}}], "offset": 1},
        {"rows": [{"step": 0, "time_s": 0, "values": {f"m{n}": 1 for n in range(MOST_METRICS)}}], "offset": 1},
        {"rows": [{"step": 2**60, "time_s": 0, "values": {}}], "offset": 1},
        {"rows": [{"step": 0, "time_s": -1, "values": {}}], "offset": 1},
        {"rows": [{"step": 0, "time_s": 0, "values": {"a": "fast"}}], "offset": 1},
        {"config": {f"s{n}": 1 for n in range(1_001)}},
        {"config": {"long": "x" * 1_100_000}},
    ]
    assert [mo.post(path, body).status_code for body in bad] == [422] * len(bad)
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"d": deep}
    assert mo.post(path, {"config": {"nan": "NaN", "deep": deep}}).status_code == 200
    headers = {"content-type": "application/json"}
    assert mo.post(path, content=b'{"config": {"inf": -Infinity}}', headers=headers).status_code == 200
    assert mo.told(f"/runs/{run_id}")["config"]["inf"] == "-Infinity"
    assert mo.told("/runs", filter="config.nan == 'NaN'")["runs"][0]["id"] == run_id
    lone = json.dumps({"rows": [{"step": 0, "time_s": 0, "values": {"\ud800": 0}}], "offset": 1})
    assert mo.post(path, content=lone.encode(), headers=headers).status_code == 422
    bare = json.dumps({"rows": [{"step": 0, "time_s": 0, "values": {"a": 0}}]}).replace('"a": 0', '"a": NaN')
    assert mo.post(path, content=bare.encode(), headers=headers).status_code == 422
    assert mo.post(path, content=b"x" * (3 << 20), headers=headers).status_code == 413
    assert len(mo.told(f"/runs/{run_id}")["summaries"]) == 2


def test_quotas_hold_for_runs_at_once_and_for_points_before_the_runner_has_measured_them(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    set_limits(lab.home, Limits(max_reported_per_person=1, max_disk_gb=0.001))
    run_id = mo.post("/reported-runs", BEGIN).json()["id"]
    refused = mo.post("/reported-runs", BEGIN | {"key": "job 8"})
    assert (refused.status_code, "1 of 1 reported runs" in refused.json()["error"]) == (403, True)
    path, answers = f"/runs/{run_id}/report", list[int]()
    while not answers or answers[-1] == 200:
        answers.append(mo.post(path, {"rows": rows(0, 5_000, acc=1), "offset": 5_000 * len(answers)}).status_code)
    assert answers == [200, 200, 403], "1 MB has room for 20,833 points of 48 bytes"
    assert mo.post(path, {"end": {"status": "failed", "cause": "quota"}}).json()["status"] == "failed"
    assert mo.post("/reported-runs", BEGIN | {"key": "job 8"}).status_code == 201


def test_a_silent_run_is_lost_while_a_console_is_there_and_its_next_report_lets_it_go_on(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = mo.post("/reported-runs", BEGIN).json()["id"]
    mo.post(f"/runs/{run_id}/report", {"rows": rows(0, 3)})
    with lab.store() as store:
        store.db.connection.execute("UPDATE runs SET heartbeat_at = '2026-01-01T00:00:00.000Z' WHERE id = ?", [run_id])
        judge = Silence(lab.home, store, silent_s=60.0)

        def status_after_look(alone_s: float) -> str:
            judge._alone_at, judge.looked_at = time.monotonic() - alone_s, float("-inf")
            judge.look()
            return store.read.runs.one(run_id).status

        assert status_after_look(3_600) == "running", "without a console it could not report"
        with console_presence(lab.home):
            assert [status_after_look(each) for each in (0, 3_600)] == ["running", "lost"]
        assert "stopped reporting" in store.read.runs.one(run_id).cause
    assert mo.post("/reported-runs", BEGIN).json() | {"elapsed_s": 0} == {
        "id": run_id,
        "status": "running",
        "elapsed_s": 0,
        "rows": 3,
    }
    assert mo.post(f"/runs/{run_id}/report", {"rows": rows(1, 4), "offset": 1}).json()["rows"] == 5
    run = mo.told(f"/runs/{run_id}")
    assert (run["status"], run["cause"], run["ended_at"], run["execution_time_s"]) == ("running", "", None, None)
    assert stored(lab, run_id) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert mo.post(f"/runs/{run_id}/report", {"end": {"status": "failed"}}).json()["status"] == "failed"


def test_a_restored_lab_takes_what_it_lost_again(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = mo.post("/reported-runs", BEGIN).json()["id"]
    path = f"/runs/{run_id}/report"
    mo.post(path, {"rows": rows(0, 2)})
    with lab.store() as store:
        for run in store.read.queue.alive():
            store.claims.end(run.id, "failed", "of this test")
    made = back_up(lab.home, by="ada")
    mo.post(path, {"rows": rows(2, 3), "offset": 2})
    assert run_id not in restore(lab.home, made.path, by="ada").lost
    mo = lab.script("mo", "launch")  # a restore ends all tokens
    assert mo.told(f"/runs/{run_id}")["status"] == "running"
    assert mo.post(path, {"rows": rows(5, 1), "offset": 5}).status_code == 409
    assert mo.post(path, {}).json()["rows"] == 2
    assert mo.post(path, {"rows": rows(2, 4), "offset": 2}).json()["rows"] == 6
