"""`fields`: the form of a command, as text and as JSON."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import main

SCRIPT = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1, help="step size")
p.add_argument("--json", action="store_true")
p.add_argument("--mode", choices=["a", "b"], default="a")
p.parse_args()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.py").write_text(SCRIPT)
    return tmp_path


def fields(*words: str) -> str:
    ended = CliRunner().invoke(main, ["fields", *words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_json_has_the_level_and_a_row_per_field(folder: Path) -> None:
    found = json.loads(fields("--json", "--folder", str(folder), "--", "python", "t.py", "--lr", "1", "--json"))
    assert (found["level"], found["why_not"], found["script"]) == ("source", "", "t.py")
    rows = [{name: each[name] for name in ("name", "type", "default", "help", "choices")} for each in found["fields"]]
    assert rows == [
        {"name": "lr", "type": "float", "default": 1.0, "help": "step size", "choices": []},
        {"name": "json", "type": "bool", "default": True, "help": "", "choices": []},
        {"name": "mode", "type": "str", "default": "a", "help": "", "choices": ["a", "b"]},
    ]
    assert found["command"] == ["python", "t.py", "--lr", "1", "--json"]


def test_text_says_how_the_form_was_read(folder: Path) -> None:
    assert fields("--folder", str(folder), "python", "t.py", "--lr", "1").startswith("Read from the script's source.")
    found = fields("--folder", str(folder), "--", "python", "u.py", "--lr", "-1e-3")
    assert f"Read from the command alone. u.py isn't a file in {folder}." in found
    assert "-0.001" in found


def test_a_command_without_words_is_refused() -> None:
    ended = CliRunner().invoke(main, ["fields", "--"])
    assert (ended.exit_code, "The command is empty" in ended.stderr) == (2, True)
