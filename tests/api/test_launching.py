import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.api import launch_routes
from engine.store import Reader, Store
from tests.api.conftest import Lab, Script
from tests.app.browsing import Client
from tests.labs import clusters

JSON = {"content-type": "application/json"}

QUICK = {
    "experiment": "hogwild",
    "preset": "quick",
    "config": {"trainers": 2, "dataset": "digits"},
    "title": "by script",
}


def test_what_is_wrong_is_told_by_field_and_nothing_is_queued(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    before = lab_size(lab)
    answers: list[tuple[dict[str, Any], str, str]] = [
        (QUICK | {"config": {"trainers": 99}}, "trainers", "trainers must be at most 64"),
        (QUICK | {"config": {"trainrs": 2}}, "trainrs", "Did you mean 'trainers'?"),
        (QUICK | {"config": {"learning_rate": "fast"}}, "learning_rate", "must be a number"),
        (QUICK | {"experiment": "hogwyld"}, "experiment", "Did you mean 'hogwild'?"),
        (QUICK | {"preset": "quik"}, "preset", "Did you mean 'quick'?"),
        (QUICK | {"terms": {"max_retries": 99}}, "terms.max_retries", "less than or equal to 10"),
        (QUICK | {"owner": "mia"}, "owner", "the token's person (mo)"),
        (QUICK | {"path": "/etc/passwd"}, "path", "Unknown field 'path'"),
        (QUICK | {"data_folder": "/etc"}, "data_folder", "Unknown field 'data_folder'"),
        ({}, "experiment", "is required"),
    ]
    for body, field, words in answers:
        answer = mo.post("/runs", body)
        (problem,) = answer.json()["problems"]
        assert (answer.status_code, problem["field"], words in problem["sentence"]) == (422, field, True), answer.text
    assert mo.post("/runs", QUICK | {"terms": {"priority": "high"}}).status_code == 403
    assert lab_size(lab) == before


def test_what_is_no_body_or_no_text_is_refused_and_told_readably(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    long = b'{"experiment": "hogwild", "title": "' + b"x" * 70_000 + b'"}'
    bodies: list[tuple[bytes, int]] = [
        (b"[" * 60_000, 400),
        (b"{", 422),
        (b"", 422),
        (b"[]", 422),
        (b'"hogwild"', 422),
        (long, 413),
    ]
    for content, status in bodies:
        answer = mo.post("/runs", content=content, headers=JSON)
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True), content[:20]

    async def unannounced() -> AsyncIterator[bytes]:
        for start in range(0, len(long), 8_192):
            yield long[start : start + 8_192]

    assert mo.post("/runs", content=unannounced(), headers=JSON).status_code == 413
    for field in ("experiment", "title", "preset"):
        assert mo.post("/runs", content=json.dumps(QUICK | {field: "\ud800"}).encode(), headers=JSON).status_code == 422
    answer = mo.post("/runs", content=json.dumps(QUICK | {"config": {"\ud800": "\udfff"}}).encode(), headers=JSON)
    assert (answer.status_code, "\\ud800" in answer.json()["error"]) == (422, True)


def test_an_interval_longer_than_the_run_is_a_caution_of_the_answer(lab: Lab) -> None:
    mo, config = lab.script("mo", "launch"), QUICK["config"] | {"epochs": 8, "overwrites_every": 0}
    answers = [mo.post("/runs", QUICK | {"config": config | {"evaluate_every": every}}).json() for every in (8, 9)]
    said = "evaluate_every is 9 epochs, but the run has 8: it is tested only at the end."
    assert [answer["cautions"] for answer in answers] == [[], [said]]


def test_a_request_that_comes_twice_with_its_key_launches_once(lab: Lab) -> None:
    mo, key = lab.script("mo", "launch"), {"idempotency-key": "night 7"}
    first, again = mo.post("/runs", QUICK, headers=key), mo.post("/runs", QUICK, headers=key)
    assert [first.status_code, again.status_code] == [201, 200]
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    other = mo.post("/runs", QUICK | {"title": "another"}, headers=key)
    assert (other.status_code, other.json()["problems"][0]["field"]) == (422, "Idempotency-Key")
    assert mo.post("/runs", QUICK, headers={"idempotency-key": "night 8"}).json()["id"] != first.json()["id"]
    assert lab.script("mia", "launch").post("/runs", QUICK, headers=key).json()["owner"] == "mia"
    assert mo.post("/runs", QUICK, headers={"idempotency-key": ""}).status_code == 422


def test_requests_that_come_at_once_with_one_key_launch_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_routes, "TIMEOUT_S", 60.0)
    token, before = lab.token("mo", "launch"), lab_size(lab)

    def submit(_: int) -> int:
        answer = Script(token, client=Client()).post("/runs", QUICK, headers={"idempotency-key": "storm"})
        assert answer.status_code in (200, 201), answer.text
        return int(answer.json()["id"])

    with (
        lab.store(),
        ThreadPoolExecutor(6) as pool,
    ):  # who closes a store as the last one holds up whoever opens it: a console has it open all the time
        assert len(set(pool.map(submit, range(12)))) == 1
    assert lab_size(lab) == before + 1


def test_a_run_is_cancelled_by_its_owner_once(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = mo.post("/runs", QUICK).json()["id"]
    assert lab.script("mia", "launch").post(f"/runs/{run_id}/cancel", {}).status_code == 403
    assert mo.post(f"/runs/{run_id}/cancel", {}).json() == {"id": run_id, "status": "cancelled"}
    assert mo.post(f"/runs/{run_id}/cancel", {}).status_code == 409
    assert mo.post("/runs/9999/cancel", {}).status_code == 404


def test_a_launch_is_queued_under_the_tokens_person_and_can_be_found(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    answer = mo.post("/runs", QUICK | {"terms": {"priority": "low", "max_run_time_s": 60, "end_when_hung": True}})
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert answer.headers["location"] == f"/api/v1/runs/{told['id']}"
    found = mo.told(f"/runs/{told['id']}")
    assert (found["owner"], found["status"], found["name"], found["preset"]) == ("mo", "queued", "by script", "quick")
    assert (found["config"]["trainers"], found["config"]["dataset"]) == (2, "digits")
    assert found["terms"] == {
        "priority": "low",
        "oversubscribe": False,
        "max_run_time_s": 60.0,
        "max_retries": 0,
        "end_when_hung": True,
        "target": "",
        "nodes": 1,
    }
    with Reader.open(lab.home) as reader:
        (entry,) = reader.audit.entries(who="mo", command="launch")
        assert entry.targets == (told["id"],)


def test_a_run_is_launched_on_a_cluster_and_tells_its_job(lab: Lab) -> None:
    clusters.write(lab.home)
    mo = lab.script("mo", "launch")
    for terms, sentence in (
        ({"target": "gone"}, "Unknown cluster 'gone'"),
        ({"target": "lab", "nodes": 3}, "nodes must be from 1 to 2 on cluster lab, got 3."),
        ({"nodes": 2}, "nodes must be 1 on this machine, got 2."),
    ):
        refused = mo.post("/runs", QUICK | {"terms": terms})
        assert refused.status_code == 422 and sentence in refused.text
    asked = {"experiment": "parameter_server", "preset": "quick", "terms": {"target": "lab", "nodes": 2}}
    run_id = mo.post("/runs", asked).json()["id"]
    waits = next(run for run in mo.told("/queue")["runs"] if run["run_id"] == run_id)
    assert (waits["target"], waits["reason"], waits["starts_in_s"]) == ("lab", "to be submitted to lab", None)
    assert mo.told(f"/runs/{run_id}")["job"] is None
    with Store.open(lab.home) as store:
        clusters.submitted(store, run_id)
        told = mo.told(f"/runs/{run_id}")
        job = {"cluster": "lab", "job_id": str(100 + run_id), "state": "PENDING", "reason": "Resources", "nodes": ""}
        assert (told["job"], told["terms"]["target"], told["terms"]["nodes"]) == (job, "lab", 2)
        clusters.started(store, run_id)
        assert mo.told(f"/runs/{run_id}")["job"] == job | {"state": "RUNNING", "reason": "", "nodes": "n1"}
        assert run_id not in [holder["run_id"] for holder in mo.told("/machine")["holders"]]
        store.claims.end(run_id, "finished", "Completed successfully")
        store.cluster_jobs.remove(clusters.job_of(store, run_id))
    assert mo.told(f"/runs/{run_id}")["job"] == job | {"state": "", "reason": "", "nodes": ""}


def test_in_a_lab_without_accounts_a_change_needs_a_name(open_lab: Lab, script: Script) -> None:
    answer = script.post("/runs", QUICK)
    assert (answer.status_code, answer.json()["problems"][0]["field"]) == (422, "owner")
    assert script.post("/runs", QUICK | {"owner": "runner"}).status_code == 422
    run_id = script.post("/runs", QUICK | {"owner": " Ada "}).json()["id"]
    assert script.told(f"/runs/{run_id}")["owner"] == "Ada"
    assert script.post(f"/runs/{run_id}/cancel", {"owner": "Ada"}).json()["status"] == "cancelled"


def lab_size(lab: Lab) -> int:
    with Reader.open(lab.home) as reader:
        return reader.runs.count()
