"""What a Prometheus server reads: the store's own numbers, no names, and little work for it."""

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.web import prometheus
from app.web.request_metrics import RequestCounter, Requests
from engine.commands.accounts import sign_in
from engine.errors import SignInRefused
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store
from engine.store.runs.counters import StoreCounts
from tests.api.conftest import Lab, Script
from tests.app.browsing import Client
from tests.inputs import drawn

Numbers = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def numbers(script: Script) -> Numbers:
    answer = script.client.get("/metrics", headers=script._headers())
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def one(found: Numbers, name: str, **labels: str) -> float:
    return found[f"parallab_{name}", frozenset(labels.items())]


def test_the_numbers_are_those_of_the_store(open_lab: Lab, script: Script) -> None:
    found = numbers(script)
    assert {one(found, "runs", status=status, experiment="hogwild") for status in open_lab.runs} == {1.0}
    with Reader.open(open_lab.home) as reader:
        points = sum(
            summary.count + summary.nonfinite
            for run_id in open_lab.runs.values()
            for summary in reader.details.summaries(run_id)
        )
        held = sum(
            reader.runs.one(run_id).demand.cores
            for name, run_id in open_lab.runs.items()
            if name in ("starting", "running", "stopping")
        )
    assert (one(found, "points_total"), one(found, "slots_held", kind="core")) == (points, held)
    assert (
        one(found, "store_up"),
        one(found, "runner_up"),
        one(found, "queue_runs", state="ready"),
        one(found, "queue_runs", state="held"),
    ) == (1, 0, 1, 0)
    assert one(found, "queue_oldest_wait_seconds") >= 0
    assert one(found, "store_bytes") > 0
    assert one(found, "commands_total", command="launch", outcome="done") == len(open_lab.runs)
    assert found["process_resident_memory_bytes", frozenset()] > 1e6
    with open_lab.store() as store:
        store.queue.hold(open_lab.runs["queued"], by="Ada")
        store.worker.write(open_lab.runs["running"], [RankBatch(0, [Point("train/loss", 101, 0.5, 9.0)])])
    later = numbers(script)
    assert (
        one(later, "points_total"),
        one(later, "queue_runs", state="held"),
        one(later, "queue_oldest_wait_seconds"),
    ) == (points + 1, 1, 0)


def test_a_store_that_can_t_be_read_is_a_number_and_no_label_is_what_people_wrote(
    open_lab: Lab, script: Script
) -> None:
    with open_lab.store() as store:
        for name in ('x"} 1\nevil 1', "tensorboard", "</script>"):
            store.runs.add(Launch(name, {}, "Ada", name=name, demand=Demand(1, 0, 1, 1)))
    text = script.client.get("/metrics").text
    assert 'parallab_runs{experiment="other",status="queued"} 3.0' in text
    assert not [word for word in ("evil", "tensorboard", "script>", "Ada", str(open_lab.home.path)) if word in text]
    open_lab.home.database.write_bytes(b"no database at all, and long enough to be looked at " * 40)
    Path(f"{open_lab.home.database}-wal").unlink(missing_ok=True)
    text = generate_latest(prometheus.registry).decode()
    assert "parallab_store_up 0.0" in text
    assert "process_resident_memory_bytes" in text


def test_it_takes_a_token_where_the_lab_has_accounts(lab: Lab) -> None:
    assert Script().client.get("/metrics").status_code == 401
    assert one(numbers(lab.script("vera", "read")), "store_up") == 1
    assert one(numbers(lab.browser("vera")), "store_up") == 1


def test_failed_sign_ins_and_open_ones_are_counted(lab: Lab) -> None:
    reads = lab.script("ada", "read")
    before = numbers(reads)
    lab.browser("vera")
    for name in ("vera", "nobody", 'x"} 1\nevil 1'):
        with pytest.raises(SignInRefused):
            sign_in(lab.home, name, "wrong and long")
    after = numbers(reads)
    assert (one(before, "sign_ins_failed_total"), one(after, "sign_ins_failed_total")) == (0, 3)
    assert (one(before, "signed_in_browsers"), one(after, "signed_in_browsers")) == (0, 1)
    assert one(after, "commands_total", command="sign in", outcome="refused") == 3


@drawn(
    20,
    500,
    steps=st.lists(st.sampled_from(["add", "cancel", "write", "delete oldest", "delete newest", "look"]), max_size=12),
)
def test_counts_that_go_on_are_those_of_a_look_at_everything(home: Home, steps: list[str]) -> None:
    with Store.open(home) as store, Reader.open(home) as reader:
        store.db.connection.execute("DELETE FROM runs")
        known: StoreCounts | None = None
        points = 0
        for step in [*steps, "look"]:
            ids = [row["id"] for row in store.db.rows("SELECT id FROM runs ORDER BY id")]
            if step == "add":
                store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
            elif step == "cancel" and ids:
                store.db.connection.execute(
                    "UPDATE runs SET status = 'cancelled', ended_at = created_at WHERE id = ? AND status = 'queued'",
                    [ids[-1]],
                )
                store.db.touch(ids[-1])
            elif step == "write" and ids:
                store.worker.write(ids[0], [RankBatch(0, [Point("train/loss", 1, 0.5, 0.1)])])
                points += 1
            elif step.startswith("delete") and len(ids) > 1:
                known = reader.counters.tally(known)
                goes, stays = (ids[0], ids[-1]) if step == "delete oldest" else (ids[-1], ids[0])
                store.db.touch(stays)  # as retention does it: no change token ever comes back
                store.db.connection.execute("DELETE FROM runs WHERE id = ?", [goes])
            elif step == "look":
                known = reader.counters.tally(known)
                fresh = reader.counters.tally()
                assert (known.by_status, known.commands, known.held) == (fresh.by_status, fresh.commands, fresh.held)
        assert known
        assert known.points <= points


def test_requests_are_counted_by_our_routes_and_never_by_what_was_asked() -> None:
    async def answer(request: Request) -> PlainTextResponse:
        if "boom" in request.url.path:
            raise RuntimeError("boom")
        return PlainTextResponse("well")

    registry = CollectorRegistry()
    app = Starlette(
        routes=[Route("/things/{name}", answer), Route("/healthz", answer)],
        middleware=[Middleware(RequestCounter, requests=Requests(registry))],
    )
    client = Client()
    client._app = app
    for path in ("/healthz", "/things/one", "/things/two", "/things/%22%7D%201%0Aevil", "/nothing/here"):
        client.get(path)
    with pytest.raises(RuntimeError):
        client.get("/things/boom")
    text = generate_latest(registry).decode()
    assert 'requests_total{method="GET",route="/healthz",status="200"} 1.0' in text
    assert 'requests_total{method="GET",route="page",status="200"} 3.0' in text
    assert 'requests_total{method="GET",route="none",status="404"} 1.0' in text
    assert 'status="500"} 1.0' in text
    assert "evil" not in text


@pytest.mark.long
def test_ten_thousand_runs_are_told_in_20_ms_of_a_core(home: Home, script: Script) -> None:
    with Store.open(home) as store, store.db.change():
        for number in range(10_000):
            run_id = store.runs.add(
                Launch("hogwild", {f"setting_{n}": n for n in range(25)}, "Ada", demand=Demand(1, 0, 2, 1))
            )
            if number % 100:
                store.db.connection.execute(
                    "UPDATE runs SET status = 'finished', last_point_id = 1000, environment = ? WHERE id = ?",
                    ["{" + " " * 900 + "}", run_id],
                )
    numbers(script)
    seconds = []
    for _ in range(30):
        began = time.process_time()
        generate_latest(prometheus.registry)
        seconds.append(time.process_time() - began)
    assert statistics.median(seconds) < 0.02
