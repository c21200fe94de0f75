"""Optional programs: one name and one package everywhere, hidden from the tests that don't name them, and no test left
out by both `make test` on a bare machine and `make test-programs`.
"""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.cluster.doctor import COMMANDS
from engine.doctor import machine
from engine.doctor.machine import CHROMIUM, PROGRAMS, program
from engine.home import ROOT
from tests import conftest
from tests.cluster import slurm

BARE = ROOT / ".ci" / "bare"


def test_doctor_skips_and_readme_name_the_same_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(machine, "program", lambda name: None)
    command = machine.installation(PROGRAMS)
    assert f"{', '.join(PROGRAMS)} ({command})" in machine.test_programs().sentence
    assert command in (ROOT / "README.md").read_text()
    others = re.compile(r"apt(?:-get)? install [^\n`'\")]*\b(?:chromium|nginx|caddy)\b[^\n`'\")]*")
    pages = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile", *ROOT.glob(".ci/*"))
    code = (path for top in ("engine", "tests", "bench", "deploy") for path in (ROOT / top).rglob("*.py"))
    named = [found.group() for path in (*pages, *code) for found in others.finditer(path.read_text())]
    assert set(named) == {command}


@pytest.mark.parametrize("name", [*CHROMIUM, "nginx"])
def test_a_program_is_found_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program(CHROMIUM[0] if name in CHROMIUM else name) == str(tmp_path / name)


def test_a_test_finds_no_optional_program_that_its_marks_do_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {*CHROMIUM, *PROGRAMS, *COMMANDS, *slurm.PROGRAMS} <= conftest.OPTIONAL
    assert conftest.visible == frozenset()
    monkeypatch.setattr(conftest, "OPTIONAL", {"ls"})
    assert shutil.which("ls") is None
    for name in ("ls", conftest.LOOK("ls")):
        with pytest.raises(FileNotFoundError):
            subprocess.run([name])
    (tmp_path / "ls").touch(mode=0o755)
    assert shutil.which("ls", path=str(tmp_path)) == str(tmp_path / "ls"), "a test's own stand-in is found"
    monkeypatch.setattr(conftest, "visible", {"ls"})
    assert shutil.which("ls") == conftest.LOOK("ls")


@pytest.mark.parametrize("expected", [None, "required", "hidden"])
def test_a_missing_program_skips_a_test_except_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, expected: str | None
) -> None:
    monkeypatch.setattr(conftest, "visible", frozenset())
    monkeypatch.setattr(conftest, "EXPECTED", expected)
    if expected != "hidden":
        monkeypatch.setattr(conftest, "LOOK", lambda name, mode=0, path=None: None)
    item = SimpleNamespace(
        iter_markers=lambda name: [pytest.mark.needs_program("caddy").mark], get_closest_marker=lambda name: None
    )
    kind = pytest.fail.Exception if expected == "required" else pytest.skip.Exception
    with pytest.raises(kind, match=f"^caddy not found: {machine.installation(['caddy'])}"):
        conftest.pytest_runtest_setup(item)


def test_what_a_bare_machine_skips_is_what_the_second_command_runs(request: pytest.FixtureRequest) -> None:
    """`make test` skips for want of a program only by the mark, and `make test-programs` selects that mark."""
    makefile = (ROOT / "Makefile").read_text()
    commands = {name: re.search(rf"^{name}:.*\n(.*)$", makefile, re.M)[1] for name in ("test", "test-programs")}
    marks = {name: re.search(r'-m "([^"]+)"', command)[1] for name, command in commands.items()}
    assert marks["test-programs"] == f"needs_program and {marks['test']}"
    assert "PARALLAB_TEST_PROGRAMS=required " in commands["test-programs"]
    folders = [ROOT / name for name in re.findall(r"\btests/\S+", commands["test-programs"])]
    assert not re.findall(r"\btests\b", commands["test"]), "it runs every folder"
    marked = [item for item in request.session.items if item.get_closest_marker("needs_program")]
    assert not [item.nodeid for item in marked if not any(item.path.is_relative_to(folder) for folder in folders)]
    steps = [line.partition("  #")[0] for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert [line for line in steps if "make " in line] == ["make check", ".ci/bare make test", "make test-programs"]
    looking = {
        str(path.relative_to(ROOT / "tests"))
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "which"
    }
    assert looking == {"conftest.py", "test_programs.py", "cluster/slurm.py", "cluster/namespaces.py"}


@pytest.mark.processes
@pytest.mark.parametrize("may_mount", [True, False])
def test_a_command_finds_no_optional_program_on_a_bare_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_mount: bool
) -> None:
    """Elsewhere than in its mount namespace nothing changes; without the right to mount it says so."""
    monkeypatch.delenv("PARALLAB_TEST_PROGRAMS", raising=False)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path}")
    (tmp_path / "optional").write_text("#!/bin/sh\n")
    (tmp_path / "optional").chmod(0o755)
    text = (
        BARE.read_text().replace("hidden=(", "hidden=(optional", 1).replace("folder in ", f"folder in {tmp_path} ", 1)
    )
    (tmp_path / "bare").write_text(text if may_mount else text.replace("separate=(unshare", "separate=(false", 1))
    words = ["bash", tmp_path / "bare", "sh", "-c", "env optional; echo $? $PARALLAB_TEST_PROGRAMS"]
    ended = subprocess.run(words, capture_output=True, text=True)
    if may_mount and "no right to mount" not in ended.stderr:
        assert ended.stdout == "126\n"
    else:
        assert ended.stdout == "0 hidden\n"
        assert "no right to mount here" in ended.stderr
    assert subprocess.run(["optional"]).returncode == 0


def test_a_whole_run_is_held_against_its_budget() -> None:
    budget = "Budget of 9 minutes on two idle cores"
    assert conftest.against_budget(500.0, 100.0) == f"{budget}: 40 s left; the cores were busy for 90 % of the time."
    assert conftest.against_budget(561.7, 0.0) == f"{budget}: 22 s too many; the cores were busy for 100 % of the time."
    assert f'-m "{conftest.WHOLE}" --numprocesses' in (ROOT / "Makefile").read_text()
