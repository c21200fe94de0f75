"""`exercises`: a teacher lists, checks, opens, closes, exports and ends by the command line."""

import json

from engine.exercises.attempts import predict
from engine.home import Home
from engine.store import Store
from tests.cli.conftest import Parallab
from tests.exercises.labs import SINGLE, own


def test_a_teacher_opens_exports_and_ends(home: Home, store: Store, parallab: Parallab) -> None:
    predict(home, own(home, SINGLE), 50, by="mo")
    (home.exercises / "broken.md").write_text("nothing")
    opened = parallab("exercises", "open", "trainers", "--deadline", "2099-01-01 12:00")
    assert opened.stdout == "Exercise trainers is open.\n"
    rows = {row["name"]: row for row in json.loads(parallab("exercises", "--json").stdout)}
    assert (rows["trainers"]["state"], rows["trainers"]["attempts"]) == ("open", 1)
    assert rows["trainers"]["deadline"] == "2099-01-01T12:00:00.000Z"
    assert (rows["broken"]["state"], "The file must begin" in rows["broken"]["title"]) == ("broken", True)
    assert store.read.exercises.state("trainers").class_first
    for more in (["--not-first"], []):  # what was set stays
        parallab("exercises", "open", "trainers", *more)
        assert not store.read.exercises.state("trainers").class_first
    assert parallab("exercises", "close", "trainers").returncode == 0
    assert "closed" in parallab("exercises").stdout
    csv = home.path / "class.csv"
    assert parallab("exercises", "export", "--out", str(csv)).stdout == f"1 attempt written to {csv}.\n"
    assert "mo,trainers" in csv.read_text()
    no_run = parallab("exercises", "export", "--out", str(home.path / "class.zip"))
    assert (no_run.returncode, "at least one run" in no_run.stderr) == (2, True)
    assert "ends in .csv or .zip" in parallab("exercises", "export", "--out", "class.txt").stderr
    csv.unlink()
    assert parallab("exercises", "end-class", "--out", "class.txt").returncode == 2
    refused = parallab("exercises", "end-class", "--keep-accounts", "--also", "mo")
    assert (refused.returncode, "also must be empty if accounts are kept" in refused.stderr) == (2, True)
    ended = parallab("exercises", "end-class", "--out", str(csv), "--keep-accounts")
    assert "mo,trainers" in csv.read_text()
    assert ended.stdout == "Class ended: 1 attempt, 0 runs archived, 0 accounts disabled.\n"
    assert json.loads(parallab("exercises", "end-class", "--json").stdout)["attempts"] == 0


def test_a_file_is_checked_with_its_launch(home: Home, store: Store, parallab: Parallab) -> None:
    own(home, SINGLE)
    path = home.exercises / "trainers.md"
    assert parallab("exercises", "check", str(path)).stdout == f"{path} is valid: an attempt launches 1 run.\n"
    path.write_text(SINGLE.replace("quick", "quik"))
    refused = parallab("exercises", "check", str(path))
    assert (refused.returncode, "Unknown preset 'quik'. Did you mean" in refused.stderr) == (2, True)
