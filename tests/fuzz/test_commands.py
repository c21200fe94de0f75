"""Whatever stands on the command line, every command ends with a documented code and a sentence, never with a
traceback.
"""

import click
import pytest
from click.testing import CliRunner
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as some

from engine.cli import COMMANDS, main
from engine.home import Home
from engine.store import Reader
from tests.fuzz.hostile import WORDS
from tests.inputs import counts, inputs
from tests.labs import basic

LEFT_OUT = {
    "run": "waits for its run; submit takes the same words",
    "serve": "would serve",
    "stop": "waits for a runner",
    "doctor": "imports torch in a process of its own, and takes few words",
}
CODES = {0, 1, 2, 3, 4}
Words = list[str]


def leaves(command: click.Command, path: Words) -> list[tuple[Words, click.Command]]:
    """Return every command that does something, with the words that lead to it."""
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    names = [name for name in command.list_commands(context) if path or name not in LEFT_OUT]
    found = [] if not path else [(path, command)]
    return found + [
        each for name in names if (inner := command.get_command(context, name)) for each in leaves(inner, [*path, name])
    ]


ALL = leaves(main, [])
NEAR = some.sampled_from(
    [
        "1",
        "2",
        "3",
        "99",
        "hogwild",
        "digits",
        "quick",
        "ada",
        "train/loss",
        "seed=1,2",
        "trainers=1,2",
        "dataset=digits",
        "none",
        "first",
    ]
)


def words_of(draw: some.DrawFn, command: click.Command, folder: str) -> Words:
    """Draw options and arguments of a command; paths are of a folder alone, since a command that is asked to writes
    there.
    """
    given: Words = []
    paths = some.sampled_from(
        [f"{folder}/{name}" for name in ("there.json", "nothing", "a\nb", "é.csv", "x.zip", "deep/y.parquet")]
        + [folder]
    )
    for each in command.params:
        is_path = isinstance(each.type, click.Path) or any(
            word in (each.name or "") for word in ("path", "file", "output", "folder")
        )
        value = paths if is_path else some.one_of(NEAR, WORDS)
        if isinstance(each, click.Argument):
            given += [
                draw(value)
                for _ in range(draw(some.integers(0 if each.nargs == -1 else 1, 2 if each.nargs == -1 else 1)))
            ]
        elif (
            isinstance(each, click.Option)
            and each.name not in ("no_runner", "follow", "password_stdin")
            and draw(some.booleans())
        ):
            given += [draw(some.sampled_from(each.opts))] + ([] if each.is_flag else [draw(value)])
    stray = (
        draw(some.lists(WORDS.filter(lambda text: "/" not in text and "~" not in text), max_size=1))
        if draw(some.integers(0, 9)) == 0
        else []
    )
    return [*given, *stray]


def test_every_command_is_tried() -> None:
    assert {path[0] for path, _ in ALL} == set(COMMANDS) - set(LEFT_OUT)


@pytest.mark.processes
@counts()
def test_no_words_get_a_traceback_out_of_a_command(home: Home, count: int) -> None:
    basic.fill(home)
    folder = home.path.parent / "given"
    folder.mkdir()
    (folder / "there.json").write_text("{}")

    @some.composite
    def lines(draw: some.DrawFn) -> Words:
        path, command = draw(some.sampled_from(ALL))
        quiet = [
            option
            for option in ("--no-runner", "--password-stdin")
            if any(option in each.opts for each in command.params)
        ]
        return [*path, *quiet, *words_of(draw, command, str(folder))]

    @inputs(count)
    @given(words=lines())
    def holds(words: Words) -> None:
        told = CliRunner().invoke(main, words, prog_name="python -m engine", env={"PARALLAB_OWNER": "ada"}, input="")
        if told.exception and not isinstance(told.exception, SystemExit):
            raise told.exception
        assert told.exit_code in CODES, told.output
        assert "Traceback (most recent" not in told.output
        assert told.exit_code in (0, 1) or told.stderr.strip(), "it failed without a word"

    with FileLock(home.runner_lock):  # as if a runner served this home, so that none is started
        holds()
    with Reader.open(home) as reader:
        assert not [row for row in reader.db.rows("PRAGMA integrity_check") if row[0] != "ok"]
