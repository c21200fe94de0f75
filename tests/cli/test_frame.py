"""Help, exit codes and sentences: what holds for every command."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from engine.__main__ import required_modules
from engine.cli import COMMANDS
from engine.cli.answers import answer
from engine.cli.frame import argument, code_of, command, complete_process, option, together
from engine.errors import (
    ConfigError,
    DataError,
    DeviceError,
    EngineError,
    NoSuchRun,
    Problem,
    RankFailed,
    RunnerError,
    StoreBusy,
    StoreError,
    WrongStatus,
)
from engine.home import ROOT, Home
from engine.store import Reader, Store
from tests.cli.conftest import Parallab

SWEEP = ("sweep", "hogwild", "--preset", "quick", "--no-runner")


@pytest.mark.processes
def test_an_interpreter_without_the_packages_says_which_one_to_use() -> None:
    told = subprocess.run([sys.executable, "-S", "-m", "engine", "list"], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 1 and "lacks the package" in told.stderr and "Traceback" not in told.stderr
    assert told.stderr.endswith("or use .venv/bin/python -m engine.\n")


@pytest.mark.processes
@pytest.mark.parametrize("name", ["engine.cli.lost", "numpy.lost", "lost"])
def test_a_missing_module_of_our_own_or_of_a_broken_package_keeps_its_traceback(name: str, tmp_path: Path) -> None:
    lost = "raise ModuleNotFoundError(f'No module named {NAME!r}', name=NAME)"
    (tmp_path / "click.py").write_text(f"NAME = '{name}'\n{lost}\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-S", "-m", "engine", "list"]
    told = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.returncode == 1 and "Traceback" in told.stderr and "lacks the package" not in told.stderr


def test_each_required_package_is_known_by_the_module_that_it_brings() -> None:
    assert [name for name in required_modules() if find_spec(name) is None] == []


def test_help_lists_every_command_and_the_exit_codes(parallab: Parallab) -> None:
    told = parallab("--help")
    assert told.returncode == 0
    assert [name for name in COMMANDS if f"  {name} " not in told.stdout] == []
    assert "Exit codes" in told.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_offers_json(name: str, parallab: Parallab) -> None:
    told = parallab(name, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "--json" in told.stdout


def test_the_parameters_of_a_command_declare_its_options() -> None:
    def size(width: int = option("Width."), height: int = option("Height.", "--high", default=2)) -> tuple[int, int]:
        return width, height

    @command("paint")
    def paint(
        names: Sequence[str] = argument("[NAME]..."),
        colour: Literal["red", "blue"] | None = option("Colour."),
        dry_run: bool = option("Nothing is painted."),
        of: tuple[int, int] = together(size),
    ) -> int:
        """Paint."""
        answer({"names": names, "colour": colour, "of": of}, f"{dry_run}")
        return 7

    words = ["a", "b", "--colour", "red", "--width", "3"]
    painted = [CliRunner().invoke(paint, [*words, *more]) for more in (["--json"], ["--dry-run", "--high", "4"])]
    assert [(each.exit_code, each.stdout) for each in painted] == [
        (7, '{"names": ["a", "b"], "colour": "red", "of": [3, 2]}\n'),
        (7, "True\n"),
    ]
    for wrong in (["a"], ["--width", "3", "--colour", "green"], ["--width", "wide"]):
        assert CliRunner().invoke(paint, wrong).exit_code == 2, "--width is required, colours and numbers are checked"


def test_a_command_that_does_not_exist_is_bad_input(parallab: Parallab) -> None:
    told = parallab("runn")
    assert (told.returncode, "runn" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "hogwyld"), "Did you mean 'hogwild'?"),
        (("submit", "hogwild", "--preset", "quik"), "Did you mean 'quick'?"),
        (("run", "hogwild", "--set", "trainers=1000"), "trainers must be at most 64 (allowed: 1 to 64), got '1000'."),
        (("run", "hogwild", "--set", "trainer=2"), "Did you mean 'trainers'?"),
        (("run", "hogwild", "--set", "trainers"), "Invalid setting 'trainers'. Write name=value."),
        (("run", "hogwild", "--set", "learning_rate=fast"), "learning_rate must be a number"),
        (("submit", "hogwild", "--epochs", "3"), "Settings are written epochs=3, without --."),
        (("sweep", "--preset", "quick", "hogwild", "--learning-rate=0.1"), "written learning_rate=0.1, without --."),
        (("show", "7"), "Run 7 doesn't exist"),
        (("logs", "7"), "Run 7 doesn't exist"),
        (("cancel", "7", "8"), "Run 7 doesn't exist"),
        (("export", "7", "--format", "csv"), "Run 7 doesn't exist"),
        (("experiments", "hogwyld"), "Did you mean 'hogwild'?"),
        (("move", "1"), "move needs --to front, --to back or --priority."),
        (("hold", "9"), "Run 9 doesn't exist"),
        (("queue", "--max-per-person", "few"), "must be a whole number, or none for no limit; got 'few'."),
        ((*SWEEP, "--over", "trainers=1,99"), "trainers must be at most 64 (allowed: 1 to 64), got '99'."),
        ((*SWEEP, "--over", "trainer=1"), "Did you mean 'trainers'?"),
        ((*SWEEP, "--over", "trainers"), "--over must be KEY=VALUES, such as trainers=1,2,4; got 'trainers'."),
        ((*SWEEP, "--over", "trainers=1", "--over", "trainers=2"), "trainers is in two --over options."),
        (
            (*SWEEP, "--over", "batch_size=32,5000"),
            "With batch_size 5000: batch_size must be at most the 1,437 training samples of digits, got 5000.",
        ),
        ((*SWEEP, "--over", "trainers=1", "--set", "epoch=2"), "Did you mean 'epochs'?"),
        (SWEEP, "A sweep must vary a setting or have more than one seed, got neither."),
        (("list", "--sweep", "7"), "Sweep 7 doesn't exist"),
        (("cancel", "--sweep", "7"), "Sweep 7 doesn't exist"),
        (("cancel",), "cancel needs the ids of runs, or --sweep"),
        (("cancel", "1", "--sweep", "1"), "cancel needs the ids of runs, or --sweep"),
        (("sweep", "pause", "7"), "Sweep 7 doesn't exist"),
        (("sweep", "extend", "7", "--seeds", "1"), "Sweep 7 doesn't exist"),
        ((*SWEEP, "--draw", "2", "--over", "learning_rate=log:1..0.1"), "learning_rate: a range must be ascending"),
        ((*SWEEP, "--draw", "2"), "A random draw must vary 1 to 6 fields, got none."),
        (("figures", "hogwyld"), "Did you mean 'hogwild'?"),
        (("duel", "launch", "hogwild", "sync_sgd", "--budget", "days=3"), "got 'days=3'"),
        (("duel", "show", "9"), "Duel 9 doesn't exist."),
        (("retry", "99", "--no-runner"), "Run 99 doesn't exist"),
        (("resume", "99", "--no-runner"), "Run 99 doesn't exist"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: tuple[str, ...], sentence: str, parallab: Parallab, home: Home
) -> None:
    told = parallab(*words)
    assert told.returncode == 2
    assert sentence in told.stderr
    assert (told.stdout, len(told.stderr.splitlines()), "Traceback" in told.stderr) == ("", 1, False)
    assert not home.runner_lock.exists(), "no runner was started"
    with Reader.open(home) as reader:
        assert (reader.runs.count(), reader.sweeps.count()) == (0, 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("import", "runs.zip", "--max-memory", "nan"),
            "Invalid value for '--max-memory': nan is not in the range 0.05<=x<=1000.",
        ),
        (
            ("import", "runs.zip", "--max-time", "1e9"),
            "Invalid value for '--max-time': 1000000000.0 is not in the range 1<=x<=86400.",
        ),
        (("stop", "--timeout", "nan"), "Invalid value for '--timeout': nan is not in the range x>=0."),
    ],
)
def test_an_option_out_of_its_bounds_is_exit_code_2(words: tuple[str, ...], sentence: str, parallab: Parallab) -> None:
    told = parallab(*words)
    assert (told.returncode, told.stdout, told.stderr.splitlines()[-1]) == (2, "", f"Error: {sentence}")


@pytest.mark.processes
def test_a_home_that_cannot_be_written_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    told = subprocess.run(
        [sys.executable, "-m", "engine", "submit", "hogwild", "--preset", "quick"],
        cwd=ROOT,
        env=os.environ | {"PARALLAB_HOME": str(tmp_path / "file" / "home")},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, "PARALLAB_HOME" in told.stderr, len(told.stderr.splitlines())) == (3, True, 1)


def test_a_store_of_a_newer_version_is_exit_code_3(parallab: Parallab, home: Home) -> None:
    Store.open(home).close()
    with sqlite3.connect(home.database) as database:
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('parallab', "
            "'from_the_future', '2099-01-01')"
        )
    database.close()
    for words in (("list",), ("submit", "hogwild", "--preset", "quick")):
        told = parallab(*words)
        assert (told.returncode, "newer" in told.stderr) == (3, True), told.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([Problem("a", "b")]), 2),
        (DataError(), 2),
        (DeviceError(), 2),
        (NoSuchRun(), 2),
        (WrongStatus(), 2),
        (StoreBusy(), 3),
        (StoreError(), 3),
        (RunnerError(), 4),
        (RankFailed("trainer1", "It left."), 1),
    ],
)
def test_each_error_has_its_exit_code(error: EngineError, code: int) -> None:
    assert code_of(error) == code


@pytest.mark.processes
def test_the_command_line_never_imports_torch(home: Home) -> None:
    program = (
        "import sys\nfrom engine.cli import COMMANDS, main\n"
        "for name in COMMANDS: main.get_command(None, name)\n"
        "main(['list', '--json'], standalone_mode=False)\nprint(sorted({'torch', 'torchvision', 'streamlit'} & "
        "set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.splitlines() == ["[]", "[]"], ended.stderr


@pytest.mark.processes
@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_nowhere_and_their_numbers_are_given_to_no_other_file(home: Home, closed: str) -> None:
    program = (
        "import os, sys; from engine.cli import main\n"
        "main(['submit', 'hogwild', '--preset', 'quick', '--no-runner'], standalone_mode=False)\n"
        "os._exit(0 if all(os.get_inheritable(each) for each in range(3)) and sys.stdin and sys.stderr else 9)"
    )
    shell = f'exec "$@" {closed}'
    ended = subprocess.run(["sh", "-c", shell, "sh", sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    with Reader.open(home) as reader:
        assert reader.runs.count() == 1


@pytest.mark.parametrize("variable", ["PARALLAB_HOME", "PARALLAB_DATA"])
def test_a_home_folder_that_nobody_has_is_a_sentence(
    parallab: Parallab, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "~nobody-of-this-name/lab")
    told = parallab("submit", "hogwild", "--preset", "quick", "--no-runner")
    assert (told.returncode, told.stderr) == (
        2,
        f"{variable} is '~nobody-of-this-name/lab', but that home folder is unknown. Write the path without ~.\n",
    )


def test_a_user_without_a_home_folder_has_that_of_the_lab(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setenv("HOME", "is put back")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    complete_process()
    assert Path.home() == home.path


def test_an_owner_whose_characters_reorder_the_text_after_it_is_refused(parallab: Parallab) -> None:
    told = parallab("submit", "hogwild", "--preset", "quick", "--no-runner", "--owner", "ada\u202e")
    assert (told.returncode, told.stderr) == (
        2,
        "owner has an invisible character, U+202E (right-to-left override), at position 4. Remove it.\n",
    )
