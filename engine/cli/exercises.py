"""`exercises`: what a teacher of a class does on the page Exercises, and the check of an own exercise."""

from collections.abc import Sequence
from pathlib import Path

import click

from engine.cli.answers import answer, table
from engine.cli.frame import OUTPUT_FILE, OWNER, argument, command, option
from engine.cli.recipes import RecipeWords
from engine.errors import ConfigError, counted
from engine.exercises.attempts import close_exercise, end_class, open_exercise, rehearse_exercise, require_teacher
from engine.exercises.catalogue import ExerciseCatalogue
from engine.exercises.export import class_bundle, class_csv
from engine.exercises.files import read
from engine.home import Home, given
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from engine.transfer.tables import complete_file

NAME = argument("NAME")
FORMATS = ".csv with a row per person and exercise, or .zip with the runs"
FILE = argument("FILE", type=click.Path(dir_okay=False, exists=True, path_type=Path))


@click.group("exercises", cls=RecipeWords)
def exercises_command() -> None:
    """List, check, open and close the exercises of a class, export it, and end it.

    Students work on the page Exercises. All these commands accept --json.
    """


@command("list", within=exercises_command)
def list_command() -> None:
    """List the exercises with their attempts in the present class; broken files with their errors."""
    home = Home.find()
    with Reader.open(home) as reader:
        states, attempts = reader.exercises.states(), reader.exercises.attempts()
    rows = []
    for name, found in ExerciseCatalogue(home).listed.items():
        state, own = states.get(name), [each for each in attempts if each.exercise == name]
        words = "broken" if found.problems else "" if state is None else "open" if state.is_open else "closed"
        handed_in, title = sum(bool(each.handed_in_at) for each in own), " ".join([found.title, *found.problems])
        rows.append((name, words, state and state.deadline, len(own), handed_in, title))
    names = ("name", "state", "deadline", "attempts", "handed_in", "title")
    shown = table([name.upper().replace("_", " ") for name in names], rows)
    answer([dict(zip(names, row, strict=True)) for row in rows], shown)


@command("check", within=exercises_command)
def check_command(file: Path = FILE, owner: str = OWNER) -> None:
    """Check the FILE of an exercise, and whether this machine can run what it launches."""
    exercise = read(file.read_bytes(), file.stem)
    runs = rehearse_exercise(Home.find(), exercise, by=owner)
    answer({"name": exercise.name, "runs": runs}, f"{file} is valid: an attempt launches {counted(runs, 'run')}.")


@command("open", within=exercises_command)
def open_command(
    name: str = NAME,
    deadline: str = option("Such as '2026-05-04 16:00', in UTC unless it names its zone.", default=""),
    not_first: bool = option(
        "Queue the runs of the class behind those that wait; otherwise they go first, or as it was set before."
    ),
    owner: str = OWNER,
) -> None:
    """Open an exercise for a class, again after it was closed, or with another deadline.

    Runs that the class launches from then on come before other queued runs of their priority.
    """
    open_exercise(Home.find(), name, by=owner, deadline=deadline, class_first=False if not_first else None)
    answer({"open": name}, f"Exercise {name} is open.")


@command("close", within=exercises_command)
def close_command(name: str = NAME, owner: str = OWNER) -> None:
    """Close an exercise: attempts, launches and hand-ins are refused."""
    close_exercise(Home.find(), name, by=owner)
    answer({"closed": name}, f"Exercise {name} is closed.")


@command("export", within=exercises_command)
def export_command(
    output: Path = option(f"File to write: {FORMATS}.", "--out", type=OUTPUT_FILE),
    earlier: bool = option("Also the attempts of classes that have ended."),
    owner: str = OWNER,
) -> None:
    """Export the class: predictions, results, distances, answers and settings, or its runs as a bundle."""
    with Reader.open(Home.find()) as reader:
        attempts = reader.exercises.attempts(earlier_classes=earlier)
        _write(reader, attempts, output, owner)
    said = f"{counted(len(attempts), 'attempt')} written to {output}."
    answer({"path": str(output), "attempts": len(attempts)}, said)


@command("end-class", within=exercises_command)
def end_class_command(
    output: Path | None = option(f"Export the class to this file first: {FORMATS}.", "--out", type=OUTPUT_FILE),
    also: Sequence[str] = option("Name of another account of the class to disable; may be repeated."),
    keep_accounts: bool = option("Disable no accounts, such as before the next lesson."),
    owner: str = OWNER,
) -> None:
    """End the class: close its exercises, cancel and archive its runs, disable the accounts of its members."""
    if output:
        with Reader.open(Home.find()) as reader:
            _write(reader, reader.exercises.attempts(), output, owner)
    ended = end_class(Home.find(), by=owner, also=also, keep_accounts=keep_accounts)
    attempts, runs = counted(len(ended.attempts), "attempt"), counted(ended.archived, "run")
    said = f"Class ended: {attempts}, {runs} archived, {counted(len(ended.disabled), 'account')} disabled."
    done = {"archived": ended.archived, "cancelled": ended.cancelled, "disabled": ended.disabled}
    answer({"attempts": len(ended.attempts), **done}, said)


def _write(reader: Reader, attempts: Sequence[ExerciseAttempt], output: Path, owner: str) -> None:
    require_teacher(reader, owner)
    with given():
        if output.suffix.lower() == ".zip":
            class_bundle(reader, attempts, output, by=owner)
        elif output.suffix.lower() == ".csv":
            content = class_csv(reader, attempts)
            with complete_file(output) as file:
                file.write(content)
        else:
            raise ConfigError.of("out", f"--out must name a file that ends in .csv or .zip, got '{output}'.")
