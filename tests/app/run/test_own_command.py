"""The page of a run of a lab's own command: what ran, where, with which code, and the metric that ranks its runs."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from app.launch import own_command
from app.run import summary_html
from app.run.own_command import own_metrics
from app.ui import current_user
from engine.access.rules import Program
from engine.home import Home
from engine.metrics import MetricSetting
from engine.recorder import Point
from engine.runtime.command.snapshot import CODE, DIFF
from engine.script.command import read_command
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import RankRow
from tests.app.reading import all_words, give_name, opened
from tests.stand_in import worker

ARGV = ["/opt/venv/bin/python", "train.py", "--lr", "0.5", "--name", "a b"]
VERSION = {"folder": "/data/project", "commit": "0123456789abcdef", "branch": "main", "is_changed": True}
ABOUT = {
    "python": "3.12.3",
    "packages": {"torch": "2.5.1"},
    "interpreter": ARGV[0],
    "command": {"argv": ARGV, "folder": "/data/project", "environment": []},
    "code": VERSION,
}


def finish(home: Home, lr: float, code: str) -> int:
    """Add a finished run of a command with curves, changes since its commit, and a copy of its code; return its id."""
    command = read_command("python train.py --lr 0.1 --name 'a b'", "/data/project", ARGV[0])
    with Store.open(home) as store:
        config = {"lr": lr, "name": "a b"}
        launch = Launch("train.py", config, Program("ada"), demand=Demand(1, 0, 1, 1), command=command)
        run_id = store.runs.add(launch)
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), ABOUT)
        store.worker.add_ranks(run_id, [RankRow(0, "script", 4000, "cpu", "running", 1, None, None)])
        store.worker.mark_running(run_id, 0.1)
        store.worker.write(run_id, [], [Point(name, 1, 0.5, 1.0) for name in ("train/loss", "val/accuracy")])
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=2.0)
    folder: Path = home.run_folder(run_id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DIFF).write_text("-lr = 0.1\n+lr = 0.2\n")
    with ZipFile(folder / CODE, "w") as archive:
        archive.writestr("train.py", code)
        archive.writestr("net.py", "layers = 2\n")
    return run_id


@pytest.fixture
def finished(home: Home) -> int:
    """Return a finished run of a command."""
    return finish(home, 0.5, "steps = 1\n")


def test_the_page_shows_what_ran_where_with_which_interpreter_and_code(home: Home, finished: int) -> None:
    test = opened("run", {"run": str(finished)})
    words = all_words(test)
    assert "/opt/venv/bin/python train.py --lr 0.5 --name 'a b'" in [each.value for each in test.code]
    for said in (
        "In /data/project",
        "Python 3.12.3, torch 2.5.1: /opt/venv/bin/python",
        "commit 01234567 (main), changed",
    ):
        assert said in words
    assert "-lr = 0.1\n+lr = 0.2" in [each.value for each in test.code]
    assert any("Not recorded by this script: phases" in each.label for each in test.expander)
    assert "Clone" in [each.label for each in test.button]
    assert [each.proto.label for each in test.get("page_link") if "sweep=lr" in each.proto.query_string] == ["Sweep lr"]


def test_the_ranking_metric_is_asked_for_once(home: Home, finished: int, monkeypatch: pytest.MonkeyPatch) -> None:
    give_name(monkeypatch, "ada")
    test = opened("run", {"run": str(finished)})
    assert test.selectbox(key=f"rank-metric-{finished}").value == "val/accuracy"
    test.button(key=f"rank-{finished}").click().run()
    with Reader.open(home) as reader:
        entry = reader.runs.entry(finished)
    assert (entry.ranked_by, entry.better) == ("val/accuracy", "max")
    words = all_words(opened("run", {"run": str(finished)}))
    assert "ranked by val/accuracy, higher is better" in words
    assert "Which metric ranks" not in words
    monkeypatch.setattr(current_user, "why_no_commands", lambda: None)
    monkeypatch.setattr(own_command, "machine_confinement", lambda: ("sandbox", ""))
    form = opened("launch", {"command": "python train.py --lr 0.3", "folder": "/data/project"})
    assert form.text_input(key="own.recipe.metric.train.py").value == "val/accuracy", "a recipe takes it over"


def test_metrics_that_usually_rank_runs_come_first(home: Home, finished: int) -> None:
    with Reader.open(home) as reader:
        assert own_metrics(reader.runs.entry(finished)) == ["val/accuracy", "train/loss"]
    usual = [MetricSetting.usual(name).better for name in ("val loss", "val/accuracy", "lr")]
    assert usual == ["min", "max", ""], "a guess by the name"


def test_compare_shows_in_which_lines_the_code_of_runs_differs(home: Home, finished: int) -> None:
    same, other = finish(home, 0.5, "steps = 1\n"), finish(home, 0.5, "steps = 2\n")
    test = opened("compare", {"runs": f"{finished},{same}", "tab": "differences"})
    assert "The recorded code of these runs is the same." in all_words(test)
    test = opened("compare", {"runs": f"{finished},{same},{other}", "tab": "differences"})
    assert "--- train.py\n+++ train.py\n@@ -1 +1 @@\n-steps = 1\n+steps = 2" in [each.value for each in test.code]
    labels = [each.label.replace("\\", "") for each in test.expander]
    assert f"Run {other} against run {finished}: train.py" in labels


def test_a_run_without_progress_says_what_it_waits_for(home: Home) -> None:
    command = read_command("python train.py", "/data/project")
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("train.py", {}, Program("ada"), demand=Demand(1, 0, 1, 1), command=command))
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), ABOUT)
        store.worker.mark_running(run_id, 0.1)
        store.worker.add_log(run_id, "script", "logs/script.log")

        def said() -> str:
            run, entry = store.read.runs.one(run_id), store.read.runs.entry(run_id)
            return str(summary_html.cause(run, entry, store.read).unescape())

        assert said() == "Waiting for the script's first line, time left unknown."
        log = home.run_folder(run_id) / "logs" / "script.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("loading data\n")
        assert said().startswith("No measurements yet: looking for lines such as 'step 10: loss 0.5'")
        store.worker.write(run_id, [], [Point("loss", 1, 0.5, 1.0)])
        assert said() == "The script names no total of steps or epochs, time left unknown."
        store.worker.write(run_id, [], progress=(20, 80, "steps"))
        assert said() == "25% done (20 of 80 steps), time left unknown."
