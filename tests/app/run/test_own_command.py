"""The page of a run of a lab's own command: what ran, where, with which code, and the metric that ranks its runs."""

from pathlib import Path

import pytest

from app.run.own_command import own_metrics, usually_low
from engine.access.rules import Program
from engine.home import Home
from engine.recorder import Point
from engine.runtime.command.snapshot import DIFF
from engine.script.command import read_command
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import RankRow
from tests.app.reading import all_words, give_name, opened
from tests.stand_in import worker

ARGV = ["/opt/venv/bin/python", "train.py", "--lr", "0.5", "--name", "a b"]
CODE = {"folder": "/data/project", "commit": "0123456789abcdef", "branch": "main", "is_changed": True}
ABOUT = {
    "python": "3.12.3",
    "packages": {"torch": "2.5.1"},
    "interpreter": ARGV[0],
    "command": {"argv": ARGV, "folder": "/data/project", "environment": []},
    "code": CODE,
}


@pytest.fixture
def finished(home: Home) -> int:
    """Return a finished run of a command with curves and changed code."""
    command = read_command("python train.py --lr 0.1 --name 'a b'", "/data/project", ARGV[0])
    with Store.open(home) as store:
        launch = Launch(
            "train.py", {"lr": 0.5, "name": "a b"}, Program("ada"), demand=Demand(1, 0, 1, 1), command=command
        )
        run_id = store.runs.add(launch)
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), ABOUT)
        store.worker.add_ranks(run_id, [RankRow(0, "script", 4000, "cpu", "running", 1, None, None)])
        store.worker.mark_running(run_id, 0.1)
        store.worker.write(run_id, [], [Point(name, 0.5, 1, 1.0) for name in ("train/loss", "val/accuracy")])
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=2.0)
    folder: Path = home.run_folder(run_id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DIFF).write_text("-lr = 0.1\n+lr = 0.2\n")
    return run_id


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


def test_metrics_that_usually_rank_runs_come_first(home: Home, finished: int) -> None:
    with Reader.open(home) as reader:
        assert own_metrics(reader.runs.entry(finished)) == ["val/accuracy", "train/loss"]
    assert usually_low("val loss")
    assert not usually_low("val/accuracy")
