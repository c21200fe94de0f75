"""Optional programs: one name and one package everywhere."""

import re
from pathlib import Path

import pytest

from engine.doctor import machine
from engine.doctor.machine import CHROMIUM, PROGRAMS, program
from engine.home import ROOT


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
