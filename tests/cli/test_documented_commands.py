"""Every command line that the documentation or a message tells people to copy is one that the command line takes."""

import ast
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import Store
from tests.app.browsing import Client
from tests.labs import basic, sweeps

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINE = re.compile(r"^ {4,}(?:\S+ )*?python -m engine (.+)$", re.MULTILINE)
INLINE = re.compile(r"`python -m engine ((?:(?![A-Z]{2})[^`])+)`")
"""One within a sentence or a table; one with a placeholder such as NAME is none to copy."""
REST = re.compile(r" (?:< \S+|> \S+|\| .*)$")
"""What the shell does with a line."""


def documented() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for found in [*LINE.findall(page.read_text()), *INLINE.findall(page.read_text())]:
            yield str(page.relative_to(ROOT)), found.partition(" #")[0].strip()


def parse(words: list[str], command: click.Command = main, name: str | None = "engine") -> None:
    """Take a command's words as the command line does, and carry nothing out; raises UsageError."""
    context = command.make_context(name, words)
    rest = [*context._protected_args, *context.args]
    if isinstance(command, click.Group) and rest:
        name, found, words = command.resolve_command(context, rest)
        assert found
        parse(words, found, name)


def complaint(line: str) -> str:
    """Return what the command line has against a line; that a file is missing here is nothing."""
    try:
        parse(shlex.split(REST.sub("", line)))
    except click.UsageError as error:
        return "" if "does not exist" in error.format_message() else error.format_message()
    return ""


LINES = [
    (page, line)
    for page, line in documented()
    if not (
        "..." in line or line.endswith("--help") or isinstance(main.get_command(click.Context(main), line), click.Group)
    )
]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_a_documented_command_is_one_that_the_command_line_takes(page: str, line: str) -> None:
    assert complaint(line) == ""


def test_a_wrong_command_is_told_from_a_right_one() -> None:
    assert complaint("users role mo --role viewer") == complaint("import runs.zip < file") == ""
    assert all(map(complaint, ("users role mo viewer", "no-such-command", "queue --no-such-option")))


MESSAGE = re.compile(r"python -m engine ([a-z](?:\n--|[^`,:;()\n…])*)")
PROSE = re.compile(r" (?:shows|writes|prints) .*|\.(?: .*)?$")
"""What follows a command in its sentence."""
BUILT = ("app/export/rerun_commands.py", "app/duel/header.py", "engine/catalogue.py")
"""They join their commands from parts; tests/cli/test_rerun_commands.py and tests/app look at those."""


NAMED = ("import", "users allow 1 1 --owner ADMIN")
"""One names the command without its file; one has a permission put in, which 1 is none."""


def in_messages() -> Iterator[tuple[str, str]]:
    """Give the commands in the texts of all modules, with 1 for each value that is put in and each number."""
    for path in sorted(path for folder in ("engine", "app", "pages") for path in (ROOT / folder).rglob("*.py")):
        if (name := str(path.relative_to(ROOT))) in BUILT or "python -m engine " not in path.read_text():
            continue
        tree = ast.parse(path.read_text())
        whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {part for node in whole for part in node.values}
        texts = [
            "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
            for node in whole
        ]
        texts += [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in parts]
        for text in texts:
            for found in MESSAGE.findall(text):
                yield name, re.sub(r"\b(?:NUMBER|ID)\b", "1", PROSE.sub("", found))


def test_a_command_in_a_message_is_one_that_the_command_line_takes() -> None:
    found = list(in_messages())
    assert len(found) > 40
    wrong = [(name, line, said) for name, line in found if (said := complaint(line))]
    assert [each for each in wrong if each[1] not in NAMED] == []


_OWN = "tests/runtime/command and tests/cli/test_scripts.py, as it needs a script"
ELSEWHERE = {
    "doctor": "tests/doctor",
    "--help": "nothing to carry out",
    "run hogwild --preset quick": "tests/cli/test_real_runs.py, as its ranks train",
    "run hogwild --on gpu-cluster": "tests/cluster, as it needs a cluster",
    "run --folder ~/project -- torchrun --nproc-per-node 2 train.py --lr 0.1": _OWN,
    "link": "tests/access/test_command_link.py, as it needs a console",
    "import path/to/mlruns": "tests/transfer, as it needs a folder of MLflow",
    "remeasure --sweep 3": "tests/cli/test_remeasure.py, as it needs disturbed runs",
    "notify add team": "tests/cli/test_notify.py, as it needs a channel",
}
"""Commands of the README that other tests carry out."""
README = [line for page, line in documented() if page == "README.md" and line not in ELSEWHERE]


@pytest.mark.parametrize("line", README)
def test_a_command_of_the_readme_does_what_it_says(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("PARALLAB_RUNNER", "separate")  # starts no runner
    monkeypatch.setenv("PARALLAB_OWNER", "ada")
    for _ in range(3):
        for run in sweeps.pipeline(home, {"splits": [1, 2]}, seeds=2)[1]:
            sweeps.drive(home, run)
    done = CliRunner().invoke(main, shlex.split(line), prog_name="python -m engine")
    assert done.exit_code == 0, done.output


CURL = re.compile(r"^    curl (.+?(?:\\\n.+?)*)$", re.MULTILINE)
REQUESTS = [
    (page, found) for page in PAGES for found in CURL.findall(page.read_text()) if "api/v1" in found or "$lab" in found
]


def test_every_documented_request_is_answered(home: Home, store: Store) -> None:
    """In a lab without accounts, where a script gives its name as owner."""
    for _ in range(12):
        run_id = basic.add(store, "Ada")
    basic.drive(store, home, run_id, "running")
    store.worker.write(run_id, [], run_points=[Point("val loss", 0, 1.0, 0.1)])  # imported runs have such names
    assert len(REQUESTS) >= 6
    for page, line in REQUESTS:
        words = iter(shlex.split(line.replace("$lab", "http://127.0.0.1:8501/api/v1")))
        address, body, params, headers = "", None, {}, {}
        for word in words:
            if word in ("-H", "-d", "-o", "--data-urlencode"):
                value = next(words)
                if word == "-H" and not value.startswith("Authorization"):
                    name, _, value = value.partition(": ")
                    headers[name] = value
                elif word == "-d":
                    body = value
                elif word == "--data-urlencode":
                    params.update([value.split("=", 1)])
            elif not word.startswith("-"):
                address = word
        client, path = Client(), address.removeprefix("http://127.0.0.1:8501")
        answer = client.post(path, content=body, headers=headers) if body else client.get(path, params=params or None)
        assert answer.status_code in (200, 201), (page.name, line, answer.text)
