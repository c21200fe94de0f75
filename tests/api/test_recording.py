"""Programs that record a run by the client, as people write them: each a process of its own, against a real console."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from app.api.service import CLIENT
from bench.reporting import lab
from engine.access.rules import Program
from engine.home import ROOT, Home
from engine.store import Reader, Store
from engine.store.records import Run
from tests.api.test_client import TOKEN, Answer, client, server
from tests.browser.conftest import Console, console
from tests.waiting import PATIENCE_S, wait_until

__all__ = ["client", "console"]
pytestmark = pytest.mark.processes
Start = Callable[[str], "subprocess.Popen[str]"]
ENDS = {
    "the end of the script": ("", "finished", "Finished, as its program reported."),
    "an exception": ("raise ValueError('too hot')", "failed", "ValueError: too hot"),
    "an exit code": ("sys.exit(3)", "failed", "Its program ended with exit code 3."),
    "an exit code of 0": ("sys.exit(0)", "finished", "Finished, as its program reported."),
    "a signal": (
        "import signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
        *("failed", "Its program was ended by SIGTERM."),
    ),
    "a fork": (
        "pid = os.fork()\nrun.log({'loss': 2 if pid else 3})\n"
        "if not pid: run.finish(); os._exit(0)\nos.waitpid(pid, 0)",
        *("finished", "Finished, as its program reported."),
    ),
}


@pytest.fixture
def start(console: Console, home: Home, tmp_path: Path) -> Start:
    """Return what starts a script in a folder with the client, with the address and the token of a lab."""
    shutil.copy(CLIENT, tmp_path)
    with Store.open(home) as store:
        store.people.add("ada", "admin", by=Program("first"))
        token = store.tokens.make("ada", "outside", "launch", by="ada")
    surroundings = os.environ | {"PARALLAB_URL": console.address, "PARALLAB_TOKEN": token}

    def started(script: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


@pytest.fixture
def recorder(client: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the client without its hooks on the end of the process, which is that of all tests here."""
    monkeypatch.setattr(client, "_end_with_process", lambda: None)
    return client


def ended(process: "subprocess.Popen[str]") -> str:
    """Return what an ended script said."""
    said = "".join(process.communicate(timeout=PATIENCE_S))
    assert process.returncode in (0, 1, 3, -signal.SIGTERM), said
    return said


def runs_of(home: Home) -> dict[tuple[str, ...], Run]:
    """Return the runs by name and tags."""
    with Reader.open(home) as reader:
        return {(run.name, *run.tags): reader.runs.one(run.id) for run in reader.runs.find()}


def curves_of(home: Home, run_id: int) -> dict[str, list[float]]:
    with Reader.open(home) as reader:
        names = [each.metric for each in reader.details.summaries(run_id)]
        return {
            name: [value for each in reader.curves.series(run_id, [name]) for value in each.values] for name in names
        }


def test_scripts_record_what_the_page_says_and_runs_end_as_their_programs_do(start: Start, home: Home) -> None:
    own, wandb, mlflow = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "api.md").read_text(), re.M | re.S)[2:]
    scripts = [start(each) for each in (own.replace('"http://127.0.0.1:8501", owner="ada"', ""), wandb, mlflow)]
    said = [ended(each) for each in scripts]
    runs = runs_of(home)
    of_own, of_wandb = runs["first try", "thesis"], runs["baseline", "thesis"]
    of_mlflow = runs["baseline", "phase=tuning"]
    assert said[0] == f"{of_own.id} 100 0\n"
    for run, words in zip((of_wandb, of_mlflow), said[1:], strict=True):
        assert re.fullmatch(rf"parallab: run {run.id}: http://\S+/run\?run={run.id}\n", words)
    assert {run.status for run in runs.values()} == {"finished"} and {run.owner for run in runs.values()} == {"ada"}
    assert (of_own.starred_by, of_own.note, of_own.config) == ("ada", "The loss falls.", {"lr": 0.1})
    curves = curves_of(home, of_own.id)
    assert (len(curves["loss"]), curves["val.acc"]) == (100, [float(n) for n in range(100)])
    assert (of_wandb.experiment, of_wandb.config) == ("net", {"lr": 0.1, "batch_size": 64})
    assert curves_of(home, of_wandb.id) == {"train/loss": [1, 1 / 2, 1 / 3], "epoch": [0, 1, 2], "best": [0.5]}
    assert (of_mlflow.config, curves_of(home, of_mlflow.id)) == ({"lr": 0.1, "layers": 2}, {"loss": [0.5]})

    begin = "import os, sys, parallab_client\nrun = parallab_client.Parallab().record(name={!r})\n"
    scripts = [start(f"{begin.format(name)}run.log({{'loss': 1}})\n{script}") for name, (script, *_) in ENDS.items()]
    said = [ended(each) for each in scripts]
    runs = runs_of(home)
    assert {name: (runs[name,].status, runs[name,].cause) for name in ENDS} == {
        name: (status, cause) for name, (_, status, cause) in ENDS.items()
    }
    assert sorted(curves_of(home, runs["a fork",].id)["loss"]) == [1, 2, 3], "a forked process has rows of its own"
    assert "too hot" in runs["an exception",].error and "too hot" in "".join(said)
    assert "not in the lab" not in "".join(said)


def test_what_is_not_carried_is_named_and_recording_goes_on(recorder: ModuleType) -> None:
    begun: Answer = (201, {}, {"id": 7, "status": "running", "rows": 0, "elapsed_s": 1.5})
    with server(begun, (200, {}, {"id": 7, "status": "running", "rows": 1, "elapsed_s": 2})) as (url, asked):
        run = recorder.Parallab(url, TOKEN).record(config={"lr": math.inf, "path": Path("/x")})
        for value, kind in (("text", "a str"), (None, "a NoneType"), ([1], "a list")):
            with pytest.raises(recorder.NotCarried, match=f"'val.x' is {kind}"):
                run.log({"val": {"x": value}})
        for call in ("Image", "Table", "watch", "define_metric", "autolog"):
            with pytest.raises(recorder.NotCarried, match=f"'{call}' is not carried"):
                getattr(recorder, call)
        with pytest.raises(recorder.NotCarried, match=r"init.mode='offline'. is not carried"):
            recorder.init(mode="offline")
        assert not hasattr(recorder, "Artifact") and recorder.run is run and recorder.config is run.config
        run.log({"loss": math.nan, "on": True}, step=5)
        run.finish()
        assert recorder.run is None
    bodies = [json.loads(body) for _, _, _, body in asked]
    assert bodies[0]["config"] == {"lr": "Infinity", "path": "/x"}
    (row,) = [row for body in bodies[1:] for row in body["rows"]]
    assert (row["step"], row["values"], row["time_s"] >= 1.5) == (5, {"loss": "NaN", "on": 1.0}, True)
    assert [body["end"]["status"] for body in bodies[1:] if "end" in body] == ["finished"]


def test_while_the_lab_does_not_answer_rows_wait_and_beyond_the_bound_are_dropped_and_counted(
    recorder: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorder, "CAPACITY", 10)
    monkeypatch.setattr(recorder, "LONGEST_WAIT_S", 0.1)
    begun: Answer = (201, {}, {"id": 7, "status": "running", "rows": 0, "elapsed_s": 0})
    busy: Answer = (503, {}, {"error": "busy"})
    gone: Answer = (502, {}, {"detail": "a proxy"})
    with server(begun, *[busy] * 6, *[gone] * 3, (200, {}, {"status": "running", "rows": 0})) as (url, asked):
        run = recorder.Parallab(url, TOKEN).record()
        run.log({"loss": 0})
        wait_until(lambda: len(asked) > 2, "the lab is asked again")
        for value in range(1, 51):
            run.log({"loss": value})
        assert run.dropped == 40
        run.finish()
    sent = [[row["values"]["loss"] for row in json.loads(body)["rows"]] for _, _, _, body in asked[1:]]
    assert sent == [[0]] * 10 + [[*range(1, 11)]]
    said = capfd.readouterr().err
    assert all(words in said for words in ("Rows wait in memory", "rows are dropped", "rows are not in the lab"))


def test_what_the_lab_refuses_is_dropped_and_what_it_lost_is_said(
    recorder: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(rows: int, status: str = "running") -> Answer:
        return 200, {}, {"status": status, "rows": rows}

    begun: Answer = (201, {}, {"id": 7, "status": "running", "rows": 0, "elapsed_s": 0})
    refused: Answer = (422, {}, {"error": "Too many metrics."})
    gap: Answer = (409, {}, {"error": "Send the rows from 1 on."})
    monkeypatch.setattr(recorder, "BEAT_S", math.inf)
    with server(begun, refused, told(3), gap, told(1), told(2), told(2, "finished")) as (url, asked):
        run = recorder.Parallab(url, TOKEN).record()
        steps = ((1, lambda: run.dropped == 1), (2, lambda: run.acknowledged == 3), (3, lambda: run.acknowledged == 2))
        for value, is_there in steps:
            run.log({"loss": value})
            wait_until(is_there, f"row {value} is answered")
        run.finish()
    bodies = [json.loads(body) for _, _, _, body in asked[1:]]
    found = [(body.get("offset"), [row["values"]["loss"] for row in body.get("rows", [])]) for body in bodies]
    assert found == [(0, [1]), (0, [2]), (3, [3]), (None, []), (1, [3]), (2, [])]
    said = capfd.readouterr().err
    assert "the lab refused them: Too many metrics" in said and "the lab lost 2 rows" in said


@pytest.mark.long  # a console is started five times
def test_kills_of_clients_and_of_the_console_lose_and_double_nothing() -> None:
    with lab(seed=1, clients=3) as seen:
        for victim in ("console", "client", "console", "client"):
            seen.kill(victim)
        seen.end()
    assert seen.wrong == [] and seen.rows > 0


KEEPING = """
import json, sys
from pathlib import Path
import parallab_client as shim
lab = shim.Parallab()
with lab.record(name="maker") as maker:
    Path("net.pt").write_bytes(b"weights" * 300_000)
    assert maker.keep("net.pt") and maker.keep(b"a,b\\n1,2\\n", "table.csv") and maker.keep("net.pt")
    assert not maker.keep(b"x", "../evil")
with shim.init(name="user") as run:
    path = run.use(maker.run_id, "net.pt", to="copy.pt")
    assert path.read_bytes() == Path("net.pt").read_bytes()
    run.log_artifact("net.pt", name="last", type="model")
    Path("plots").mkdir()
    Path("plots", "a.txt").write_text("a")
    shim.save("plots/*.txt")
    shim.log_artifact("plots/a.txt", "inner/plots")
    shim.log_text("b", "notes/b.txt")
    shim.log_dict({"a": 1}, "c.json")
    class Figure:
        def savefig(self, file, format):
            file.write(format.encode())
    shim.set_tracking_uri("http://elsewhere:5000")
    shim.log_figure(Figure(), "plots/loss.png")
    shim.log_table({"step": [1]}, "t.json")
    for call in (lambda: shim.log_image([[0]], "i.png"), lambda: shim.log_model(1), lambda: shim.autolog()):
        try:
            call()
        except shim.NotCarried as error:
            print(error)
    for wrong in ({"local_path": [1]}, {"local_path": "net.pt", "aliases": ["best"]}):
        try:
            shim.log_artifact(**wrong)
        except shim.NotCarried as error:
            print(error)
print(json.dumps([lab.files(maker.run_id), lab.files(run.run_id)]))
"""


def test_a_program_keeps_files_and_uses_those_of_another_run(start: Start, home: Home) -> None:
    image, model, auto, first, second, last, *said = ended(start(KEEPING)).splitlines()
    made, used = json.loads(last)
    assert [(each["name"], each["kind"], each["used_by"]) for each in made["files"]] == [
        *(("net.pt", "text", [used["run_id"]]), ("table.csv", "table", []))
    ]
    assert [(each["name"], each["kept_by"]) for each in used["used"]] == [("net.pt", [made["run_id"]])]
    names = [each["name"] for each in used["files"]]
    assert names == [*("a.txt", "c.json", "inner-plots-a.txt", "last", "notes-b.txt", "plots-loss.png", "t.json")]
    assert image == (
        "log_image of a list is not carried by Parallab, which takes PIL's images with an artifact_file. Write a "
        "file, and keep it by log_artifact."
    )
    assert "keep that by log_artifact" in model and "Remove the call" in auto
    evil, begun, elsewhere = said
    assert evil == (
        "parallab: run 1: the file ../evil is not in the lab: The name of a file must not have / or \\; got '../evil'."
    )
    assert begun.startswith(f"parallab: run {used['run_id']}: http") and begun.endswith(f"/run?run={used['run_id']}")
    assert elsewhere.startswith("parallab: set_tracking_uri('http://elsewhere:5000') is ignored: runs go to http")
    assert [first, second] == [
        "A list is not carried by Parallab, which keeps files. Give the path of one.",
        "Aliases are not carried by Parallab, which keeps one file under a name. Leave them out.",
    ]
    assert len(list(home.files.glob("*/*"))) == 7, "equal content is there once"
