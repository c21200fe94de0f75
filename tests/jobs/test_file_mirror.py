"""Files of a job's folder arrive in the run's folder, complete or not at all."""

import os
import shutil
from pathlib import Path

import pytest

from engine.jobs import file_mirror
from engine.jobs.file_mirror import mirror


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source" / "logs").mkdir(parents=True)
    return tmp_path / "source"


def test_a_log_is_copied_as_it_grows_and_whole_once_it_was_shortened(source: Path, tmp_path: Path) -> None:
    log, copy = source / "logs" / "trainer1.log", tmp_path / "copy" / "logs" / "trainer1.log"
    log.write_text("")
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == ""
    log.write_text("first\n" * 1000)
    mirror(source, tmp_path / "copy")
    with log.open("a") as file:
        file.write("second\n")
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == log.read_text()
    log.write_text("third\n" * 2000)
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == log.read_text()


def test_a_file_that_is_replaced_meanwhile_is_left_for_the_next_time_and_others_are_not(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copyfile = tmp_path / "copy", shutil.copyfile

    def save(text: str) -> None:
        (source / "new").write_text(text)
        (source / "new").replace(source / "checkpoint.pt")

    save("old")
    mirror(source, target)
    save("new1")
    (source / "picture").write_text("seen")

    def replaced_meanwhile(*given: object, **more: object) -> None:
        copyfile(*given, **more)  # type: ignore[call-overload]
        save("newer")

    monkeypatch.setattr(file_mirror.shutil, "copyfile", replaced_meanwhile)
    mirror(source, target)
    assert ((target / "checkpoint.pt").read_text(), (target / "picture").read_text()) == ("old", "seen")
    monkeypatch.setattr(file_mirror.shutil, "copyfile", copyfile)
    mirror(source, target)
    assert (target / "checkpoint.pt").read_text() == "newer"
    assert not list(target.glob("*.part"))


def test_links_and_pipes_are_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (source / "link.pt").symlink_to(tmp_path / "secret")
    (source / "logs" / "link.log").symlink_to(tmp_path / "secret")
    os.mkfifo(source / "pipe")
    (source / "a.lock").write_text("")
    mirror(source, tmp_path / "copy")
    assert [path for path in (tmp_path / "copy").rglob("*") if path.is_file()] == []
