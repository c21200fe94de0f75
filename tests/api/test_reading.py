import io
import json
import math
from typing import Any

import pytest
from pyarrow import parquet

from app.links.compare import names_text
from engine.metrics import METRICS
from engine.recorder import Point
from engine.registry import EXPERIMENTS, experiment
from engine.store import Demand, Launch, Reader, SweepLaunch
from engine.store.schema.config_text import LEFT_OUT, MOST_LISTED
from engine.system.run_files import has_reader
from engine.transfer.tables import COLUMNS, point_rows
from tests.api.conftest import Lab, Script
from tests.labs import basic

HOSTILE = "</script><script>alert(1)</script>\n\"; =cmd|' /C calc'!A0 é"


def strictly(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_pages_by_cursor_and_filters_find_every_run_once(open_lab: Lab, script: Script) -> None:
    seen: list[int] = []
    before: dict[str, int] = {}
    while True:
        page = script.told("/runs", limit=3, **before)
        seen += [run["id"] for run in page["runs"]]
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert seen == sorted(open_lab.runs.values(), reverse=True)
    runs = open_lab.runs

    def found(**asked: Any) -> set[int]:
        return {run["id"] for run in script.told("/runs", **asked)["runs"]}

    assert found(status=["failed", "lost"]) == {runs["failed"], runs["lost"]}
    assert found(filter="test/accuracy.best > 95 and status == 'finished'") == {runs["finished"]}
    assert found(owner="Ada", experiment="hogwild", filter="status != 'queued'") == {
        runs[name] for name in ("failed", "cancelled", "running")
    }
    assert found(owner="nobody") == set()
    assert script.told("/runs", experiment="Hogwild")["notes"] == [
        "Unknown experiment 'Hogwild'. Did you mean hogwild?"
    ]
    with open_lab.store() as store:
        store.annotations.archive([runs["finished"]], by="Ada")
    assert runs["finished"] not in found()
    assert runs["finished"] in found(archived=True) & found(filter="archived")


@pytest.mark.parametrize("sort", ["id", "-id", "-test/accuracy.best", "duration", "name", "-created", "learning_rate"])
def test_pages_of_any_order_have_every_run_once(open_lab: Lab, script: Script, sort: str) -> None:
    whole = [run["id"] for run in script.told("/runs", sort=sort)["runs"]]
    assert sorted(whole) == sorted(open_lab.runs.values())
    paged, before = list[int](), dict[str, int]()
    while True:
        page = script.told("/runs", limit=2, sort=sort, **before)
        paged += [run["id"] for run in page["runs"]]
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert paged == whole
    if sort == "-test/accuracy.best":
        best = [run["best"].get("test/accuracy") for run in script.told("/runs", sort=sort)["runs"]]
        known = [value for value in best if value is not None]
        assert len(known) > 1 and known == sorted(known, reverse=True) == best[: len(known)]


def test_without_an_order_the_highest_number_is_first_and_times_sort_by_the_names_of_the_answer(
    open_lab: Lab, script: Script
) -> None:
    ids = sorted(open_lab.runs.values(), reverse=True)
    with open_lab.store() as store, store.db.change() as connection:  # as an imported run
        connection.execute("UPDATE runs SET created_at = '2020-01-01T00:00:00.000Z' WHERE id = ?", [ids[0]])

    def listed(sort: str = "") -> list[dict[str, Any]]:
        return [*script.told("/runs", sort=sort)["runs"]]

    assert [run["id"] for run in listed()] == ids
    assert listed("created")[0]["id"] == ids[0]
    for name in ("created", "started", "ended"):
        found = listed(f"-{name}_at")
        assert [run["id"] for run in found] == [run["id"] for run in listed(f"-{name}")]
        known = [run[f"{name}_at"] for run in found if run[f"{name}_at"]]
        assert known and known == sorted(known, reverse=True)


WRONG = (
    ("/runs?sort=-time", 400, "sort", "Did you mean created, started or ended?"),
    ("/runs?sort=nothing", 400, "sort", "Unknown field. Fields: id,"),
    ("/runs?sort=-trainers+4", 400, "sort", ""),
    ("/runs?sort=tags", 400, "sort", "Runs can't be sorted by tags"),
    ("/runs?sort=id&before=9999", 404, "", "Run 9999 doesn't exist."),
    ("/runs?stauts=failed", 422, "stauts", "Unknown field 'stauts'"),
    ("/runs?limit=501", 422, "limit", "less than or equal to 500"),
    ("/runs?filter=trainers+>>+4", 400, "filter", ""),
    ("/runs?before=0", 422, "before", "greater than or equal to 1"),
    ("/runs/9999", 404, "", "Run 9999 doesn't exist."),
    ("/runs/9007199254740993", 422, "run_id", "less than or equal to"),
    ("/runs/1/series?max_points=4", 422, "max_points", "greater than or equal to 5"),
    ("/runs/1/series?from=nan", 422, "from", "finite"),
    ("/runs/1/series?metrics=acuracy", 422, "metrics", "Unknown metric 'acuracy'. Did you mean 'test/accuracy'?"),
    ("/runs/1/points?metrics=acuracy", 422, "metrics", "Unknown metric 'acuracy'. Did you mean 'test/accuracy'?"),
    ("/runs/1/logs?source=../../cookie.key", 404, "", "has no log named"),
    ("/sweeps/77", 404, "", "Sweep 77 doesn't exist."),
    ("/experiments/hogwyld", 404, "", "Did you mean 'hogwild'?"),
    ("/runs/4%20", 422, "run_id", "should be a whole number in digits"),
    ("/runs?limit=1_0", 422, "limit", "should be a whole number in digits"),
    ("/runs?archived=yes", 422, "archived", "should be true or false"),
    ("/nothing", 404, "", "doesn't exist. openapi.json"),
    ("/experiments/%0A%2F", 404, "", "doesn't exist. openapi.json"),
)


def test_what_is_asked_wrongly_or_written_by_people_comes_out_as_plain_json(open_lab: Lab, script: Script) -> None:
    for path, status, field, words in WRONG:
        answer = script.get(path)
        said = answer.json()
        assert (answer.status_code, words in said["error"]) == (status, True), said
        assert [problem["field"] for problem in said["problems"]] == ([field] if field else [])
        assert str(open_lab.home.path) not in answer.text
    run_id = open_lab.runs["queued"]
    with open_lab.store() as store:
        store.annotations.rename(run_id, HOSTILE.strip(), by="Ada")
        store.annotations.set_note(run_id, HOSTILE, by="Ada")
        store.annotations.tag([run_id], "=1+1", by="Ada")
    answer = script.get(f"/runs/{run_id}")
    told = strictly(answer.text)
    assert (told["name"], told["note"], told["tags"], told["owner"]) == (
        " ".join(HOSTILE.split()),
        HOSTILE.strip(),
        ["=1+1"],
        told["owner"],
    )
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_run_in_full_has_what_the_store_has(open_lab: Lab, script: Script) -> None:
    run_id = open_lab.runs["finished"]
    told = script.told(f"/runs/{run_id}")
    with Reader.open(open_lab.home) as reader:
        run, summaries, events = (
            reader.runs.one(run_id),
            reader.details.summaries(run_id),
            reader.details.events(run_id),
        )
    assert (told["config"], told["environment"], told["status"]) == (run.config, run.environment, "finished")
    assert [(each["metric"], each["rank"], each["count"], each["nonfinite"]) for each in told["summaries"]] == [
        (each.metric, each.rank, each.count, each.nonfinite) for each in summaries
    ]
    assert [each["kind"] for each in told["events"]] == [event.kind for event in events]
    assert [each["role"] for each in told["ranks"]] == ["trainer1", "trainer2"]
    assert told["logs"] == ["worker"]
    assert told["demand"] == {
        name: getattr(run.demand, name) for name in ("cores", "gpus", "ranks", "threads_per_rank")
    }


def test_a_list_of_runs_is_bounded_whatever_configs_they_have_and_a_run_has_all_of_its_own(
    open_lab: Lab, script: Script
) -> None:
    long = {f"p{number}": "x" * 20_000 for number in range(50)}
    with open_lab.store() as store:
        ids = [store.runs.add(Launch("hogwild", long, "Ada", demand=Demand(1, 0, 1, 1))) for _ in range(5)]
        usual = len(script.get("/runs", limit=5, before=ids[0]).text)
    answer = script.get("/runs", limit=5)
    assert [run["id"] for run in answer.json()["runs"]] == ids[::-1]
    assert len(answer.text) < usual + 5 * MOST_LISTED
    assert all("50 settings" in run["config"][LEFT_OUT] for run in answer.json()["runs"])
    assert script.told(f"/runs/{ids[0]}")["config"] == long


def test_curves_streams_and_logs_say_how_far_they_go(open_lab: Lab, script: Script) -> None:
    run_id = open_lab.runs["running"]
    with open_lab.store() as store:
        basic.record(store, run_id, steps=3_000, first=101)
    (one, two) = script.told(f"/runs/{run_id}/series", metrics="train/loss", max_points=100)["series"]
    assert (one["role"], two["role"], one["total"]) == ("trainer1", "trainer2", 3_100)
    assert len(one["values"]) == len(one["steps"]) == len(one["passes"]) == one["shown"] <= 100
    (part, _) = script.told(f"/runs/{run_id}/series", metrics="train/loss", **{"from": 1_000, "to": 1_010})["series"]
    assert part["steps"] == list(range(999, 1_012))
    names = {curve["metric"] for curve in script.told(f"/runs/{run_id}/series")["series"]}
    assert names == {"train/loss", "test/accuracy"}
    run_id = open_lab.runs["finished"]
    curve = strictly(script.get(f"/runs/{run_id}/series", metrics="train/loss").text)["series"][0]
    assert curve["values"][curve["steps"].index(50)] == "NaN"
    lines = [strictly(line) for line in script.get(f"/runs/{run_id}/points", metrics="train/loss").text.splitlines()]
    assert [line["value"] for line in lines if line["step"] == 50] == ["NaN", "NaN"]
    first = script.told(f"/runs/{run_id}/logs")
    assert (first["text"], first["sources"]) == ("first line\nsecond line\n", ["worker"])
    with (open_lab.home.run_folder(run_id) / "logs" / "worker.log").open("a") as log:
        log.write("third line\n")
    assert script.told(f"/runs/{run_id}/logs", source="worker", offset=first["end"])["text"] == "third line\n"


def test_a_metric_of_any_name_is_asked_for_by_its_name(open_lab: Lab, script: Script) -> None:
    names = ["loss", "val", "loss,val", "top-1, top-5", 'say "x"', "loss / step", "f1@5"]
    run_id = open_lab.runs["running"]
    with open_lab.store() as store:
        store.worker.write(run_id, [], run_points=[Point(name, 0, float(at), 0.0) for at, name in enumerate(names)])

    def found(asked: str) -> tuple[dict[str, list[float]], set[str]]:
        curves = script.told(f"/runs/{run_id}/series", metrics=asked)["series"]
        lines = script.get(f"/runs/{run_id}/points", metrics=asked).text.splitlines()
        return {each["metric"]: each["values"] for each in curves}, {json.loads(line)["metric"] for line in lines}

    for at, name in enumerate(names):
        for asked in {name, names_text([name])}:
            if asked != "loss,val":  # two metrics, which the run has too
                assert found(asked) == ({name: [at]}, {name})
    assert found("loss,val")[1] == found("loss, val")[1] == {"loss", "val"}
    assert found(f"f1@5,{names_text(names[:5])}")[1] == {"f1@5", *names[:5]}
    assert script.told("/runs", filter="loss == 0 and metric['loss,val'] == 2")["runs"][0]["id"] == run_id
    assert set(names) < {each["name"] for each in script.told("/metric-names")["metrics"]}
    for name in names[2:4]:
        answer = script.client.get("/api/series", params={"run": run_id, "metrics": name}).json()
        assert [curve["metric"] for curve in answer["series"]] == [name]


def test_the_streams_hold_every_point_that_export_writes(open_lab: Lab, script: Script) -> None:
    run_id = open_lab.runs["finished"]
    with Reader.open(open_lab.home) as reader:
        wanted = sorted(_comparable(dict(zip(COLUMNS, row, strict=True))) for row in point_rows(reader, run_id))
    answer = script.get(f"/runs/{run_id}/points")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert sorted(_comparable(json.loads(line)) for line in answer.text.splitlines()) == wanted
    table = parquet.read_table(io.BytesIO(script.get(f"/runs/{run_id}/points", format="parquet").content))
    assert sorted(map(_comparable, table.to_pylist())) == wanted
    assert script.get(f"/runs/{open_lab.runs['queued']}/points").text == ""


def _comparable(point: dict[str, Any]) -> tuple[Any, ...]:
    values = [point[name] for name in COLUMNS[:-1]]
    value = float(point["value"])
    return (*(-1 if each is None else each for each in values), "nan" if math.isnan(value) else value)


def test_sweeps_experiments_and_metrics_say_what_they_are(open_lab: Lab, script: Script) -> None:
    with open_lab.store() as store:
        for number in range(3):
            newest = store.sweeps.add(
                SweepLaunch(Launch("hogwild", {}, "Ada"), {"seed": [1, 2]}),
                [
                    Launch("hogwild", {"seed": seed + number}, name=f"seed {seed}", demand=Demand(1, 0, 1, 1))
                    for seed in (1, 2)
                ],
            )
    page = script.told("/sweeps", limit=2)
    assert [sweep["id"] for sweep in page["sweeps"]] == [newest, newest - 1]
    assert [sweep["id"] for sweep in script.told("/sweeps", before=page["next"])["sweeps"]] == [newest - 2]
    for sort, first in (("-seed", 0), ("seed", -1)):
        whole = [sweep["id"] for sweep in script.told("/sweeps", sort=sort)["sweeps"]]
        paged, before = list[int](), dict[str, int]()
        while before.get("before", 0) is not None:
            page = script.told("/sweeps", limit=1, sort=sort, **before)
            paged, before = paged + [sweep["id"] for sweep in page["sweeps"]], {"before": page["next"]}
        assert paged == whole and len(whole) == newest and whole[first] == newest
    sweep = script.told(f"/sweeps/{newest}")
    assert (sweep["grid"], sweep["statuses"]) == ({"seed": [1, 2]}, {"queued": 2})
    assert set(sweep["run_ids"]) == {run["id"] for run in script.told("/runs", sweep=newest)["runs"]}
    assert [each["name"] for each in script.told("/experiments")["experiments"]] == list(EXPERIMENTS)
    for name in EXPERIMENTS:
        told = script.told(f"/experiments/{name}")
        assert set(told["config_schema"]["properties"]) == set(experiment(name).config.model_fields)
        assert list(told["presets"]) == told["preset_names"] == list(experiment(name).presets)
    metrics = {each["name"]: each for each in script.told("/metric-names")["metrics"]}
    assert set(METRICS) <= set(metrics)
    assert (metrics["test/accuracy"]["unit"], metrics["test/accuracy"]["better"]) == ("%", "max")


def test_queue_machine_and_me_say_how_the_lab_stands(open_lab: Lab, script: Script) -> None:
    queue = script.told("/queue")
    assert [(wait["run_id"], bool(wait["reason"])) for wait in queue["runs"]] == [(open_lab.runs["queued"], True)]
    assert queue["queued"] == 1
    machine = script.told("/machine")
    assert {holder["run_id"] for holder in machine["holders"]} == {
        open_lab.runs[name] for name in ("starting", "running", "stopping")
    }
    assert machine["cores"] >= 1
    assert machine["disk_free_bytes"] > 0
    me = script.told("/me")
    assert (me["name"], me["role"], me["accounts"], "launch" in me["may"]) == ("", None, False, True)


@pytest.mark.parametrize("path", ["series", "points"])
def test_reading_the_points_of_an_active_run_is_noted_so_that_new_ones_come_sooner(
    open_lab: Lab, script: Script, path: str
) -> None:
    runs = [open_lab.runs[status] for status in ("running", "finished")]
    for run_id in runs:
        open_lab.home.run_folder(run_id).mkdir(parents=True, exist_ok=True)
        assert script.get(f"/runs/{run_id}/{path}").status_code == 200
    assert [has_reader(open_lab.home.run_folder(run_id)) for run_id in runs] == [True, False]
