"""Commands of one's own scripts through the API: launched, swept and shown, by people who may run commands alone."""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine.parallab_client import Parallab
from tests.api.conftest import Lab, Script

TEXT = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n"


@pytest.fixture
def body(tmp_path: Path) -> dict[str, Any]:
    """A launch of a script in a folder of its own."""
    (tmp_path / "train.py").write_text(f"{TEXT}parser.parse_args()\n")
    return {"command": "python train.py --lr 0.1", "folder": str(tmp_path), "python": sys.executable}


@pytest.fixture
def mo(lab: Lab) -> Script:
    with lab.store() as store:
        store.people.allow("mo", "run commands", by="ada")
    return lab.script("mo", "launch")


def test_a_command_is_launched_as_text_or_words_and_shown_with_its_settings(mo: Script, body: dict[str, Any]) -> None:
    answer = mo.post("/runs", {**body, "config": {"lr": 0.5}, "rank_by": "val/acc"})
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["experiment"], told["config"]) == ("train.py", {"lr": 0.5})
    assert told["command"] == ["python", "train.py", "--lr", "0.5"] and told["cautions"] == []
    run = mo.told(f"/runs/{told['id']}")
    assert run["command"] == told["command"] and (run["ranked_by"], run["better"]) == ("val/acc", "max")
    assert run["script"]["folder"] == body["folder"] and run["script"]["level"] == "source"
    words = mo.post("/runs", {**body, "command": ["python", "train.py", "--lr", "0.2"]}).json()
    assert words["command"] == ["python", "train.py", "--lr", "0.2"]
    assert mo.told("/runs", limit=1)["runs"][0]["command_id"] != run["command_id"]


def test_a_person_without_the_permission_is_refused_before_anything_is_read(lab: Lab, body: dict[str, Any]) -> None:
    mia = lab.script("mia", "launch")
    for asked in (body, {**body, "folder": "/nowhere"}, {**body, "command": "'"}):
        for path, more in (("/runs", {}), ("/sweeps", {"over": {"lr": [1]}})):
            answer = mia.post(path, asked | more)
            assert answer.status_code == 403 and "can grant it to mia" in answer.json()["error"]
    with lab.store() as store:
        entry = store.read.audit.entries(who="mia", limit=1)[0]
    assert entry.refused and "command='" in entry.detail
    assert lab.script("ada", "read").post("/runs", body).status_code == 403


def test_what_is_wrong_of_a_command_is_told_by_field(mo: Script, body: dict[str, Any]) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**body, "folder": "here"}, "folder"),
        ({**body, "python": "/nothing"}, "python"),
        ({**body, "command": "python train.py | tee log"}, "command"),
        ({**body, "config": {"lr": "high"}}, "lr"),
        ({**body, "config": {"width": 3}}, "width"),
        ({**body, "experiment": "hogwild"}, "experiment"),
        ({**body, "preset": "quick"}, "preset"),
    ]
    for asked, field in wrong:
        answer = mo.post("/runs", asked)
        assert (answer.status_code, answer.json()["problems"][0]["field"]) == (422, field), answer.text


def test_a_sweep_of_a_command_or_an_experiment_is_launched_once(mo: Script, body: dict[str, Any]) -> None:
    asked, key = {**body, "over": {"lr": "0.1, 0.01"}, "seeds": 2}, {"idempotency-key": "night"}
    first, again = (mo.post("/sweeps", asked, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    assert first.json()["grid"] == {"lr": [0.1, 0.01], "seed": [0, 1]}
    assert first.json()["command"] == ["python", "train.py", "--lr", "0.1"]
    run = mo.told(f"/runs/{first.json()['run_ids'][-1]}")
    assert run["command"] == ["python", "train.py", "--lr", "0.01"] and run["sweep_id"] == first.json()["id"]
    config = {"preset": "quick", "config": {"dataset": "digits"}, "over": {"trainers": [1, 2]}}
    ours = mo.post("/sweeps", {"experiment": "hogwild", **config})
    assert ours.status_code == 201 and ours.json()["command"] is None
    assert mo.post("/sweeps", {"experiment": "hogwild", **config, "over": {"trainers": [0]}}).status_code == 422
    assert mo.post("/sweeps", {"experiment": "hogwild", **config, "over": {}}).status_code == 422
    repeats = mo.post("/sweeps", {**body, "seeds": 3})
    assert repeats.status_code == 201 and repeats.json()["grid"] == {"seed": [0, 1, 2]}


def test_a_recipe_is_launched_by_its_name_by_those_who_may(lab: Lab, mo: Script, body: dict[str, Any]) -> None:
    from engine.script.command import read_command

    with lab.store() as store:
        store.recipes.save("mine", read_command("python train.py --lr 0.1", body["folder"]), by="ada")
    told = mo.post("/runs", {"experiment": "mine", "config": {"lr": 0.3}}).json()
    assert (told["experiment"], told["command"]) == ("mine", ["python", "train.py", "--lr", "0.3"])
    assert lab.script("mia", "launch").post("/runs", {"experiment": "mine"}).status_code == 403


def test_the_client_sends_what_the_api_takes(
    lab: Lab, mo: Script, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, sent = Parallab("http://127.0.0.1:8501", mo.token), list[tuple[str, dict[str, Any]]]()

    def post(path: str, asked: dict[str, Any], headers: Any = None) -> dict[str, Any]:
        sent.append((path, asked))
        answer = mo.post(path, asked, headers=headers)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    monkeypatch.setattr(client, "_post", post)
    monkeypatch.chdir(body["folder"])
    run_id = client.submit(command=["python", "train.py"], settings={"lr": 0.7}, title="mine")
    assert mo.told(f"/runs/{run_id}")["command"] == ["python", "train.py", "--lr", "0.7"]
    assert sent[0][1]["folder"] == body["folder"]
    sweep_id = client.sweep_over({"lr": [1, 2]}, command="python train.py", folder=body["folder"], seeds=2)
    assert len(mo.told(f"/sweeps/{sweep_id}")["run_ids"]) == 4
    assert client.submit("hogwild", preset="quick", dataset="digits", trainers=2)
