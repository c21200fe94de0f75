"""Files of a job's folder arrive in the run's folder, complete or not at all."""

import os
import shutil
from pathlib import Path
from typing import IO

import pytest

from engine.cluster import job_results
from engine.cluster.job_results import mirror
from engine.runtime.worker.records import read_records
from engine.system.run_files import is_scrap


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source" / "logs").mkdir(parents=True)
    return tmp_path / "source"


@pytest.mark.parametrize("path", ["logs/trainer1.log", "events.out.tfevents.1.n1.7.0", "logs/metrics.jsonl"])
def test_a_file_is_copied_as_it_grows_and_whole_once_it_was_shortened(source: Path, tmp_path: Path, path: str) -> None:
    log, copy = source / path, tmp_path / "copy" / path
    log.write_text("")
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == ""
    log.write_text("first\n" * 1000)
    mirror(source, tmp_path / "copy")
    with log.open("a") as file:
        file.write("second\n")
    before = copy.stat().st_ino
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == log.read_text()
    assert copy.stat().st_ino == before
    log.write_text("third\n" * 2000)
    mirror(source, tmp_path / "copy")
    assert copy.read_text() == log.read_text()


def test_a_file_that_is_replaced_meanwhile_is_left_for_the_next_time_and_others_are_not(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copyfileobj = tmp_path / "copy", shutil.copyfileobj

    def save(text: str) -> None:
        (source / "new").write_text(text)
        (source / "new").replace(source / "checkpoint.pt")

    save("old")
    mirror(source, target)
    save("new1")
    (source / "picture").write_text("seen")

    def replaced_meanwhile(original: IO[bytes], copy: IO[bytes]) -> None:
        copyfileobj(original, copy)
        save("newer")

    monkeypatch.setattr(shutil, "copyfileobj", replaced_meanwhile)
    mirror(source, target)
    assert ((target / "checkpoint.pt").read_text(), (target / "picture").read_text()) == ("old", "seen")
    monkeypatch.setattr(shutil, "copyfileobj", copyfileobj)
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


def test_no_folder_that_is_a_link_is_followed_and_nothing_is_copied_of_what_becomes_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` as a link brought any file that the runner's user can read into the home, and so onto a run's page."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "key.log").write_text("secret")
    (secrets / "key.pt").write_text("secret")
    (tmp_path / "run").symlink_to(secrets)
    mirror(tmp_path / "run", tmp_path / "copy")
    (source / "pictures").symlink_to(secrets)
    (source / "logs" / "key.log").write_text("ours")
    (source / "key.pt").write_text("ours")
    swapped: list[str] = []

    def swap(path: Path) -> bool:
        """Put links in the places of files once they are listed."""
        if path.name.startswith("key"):
            swapped.append(path.name)
            (source / path).unlink()
            (source / path).symlink_to(secrets / path.name)
        return is_scrap(path)

    monkeypatch.setattr(job_results, "is_scrap", swap)
    mirror(source, tmp_path / "copy")
    assert sorted(swapped) == ["key.log", "key.pt"]
    assert [path for path in (tmp_path / "copy").rglob("*") if not path.is_dir()] == []


def test_records_that_are_a_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "records").symlink_to(tmp_path / "secret")
    assert read_records(tmp_path / "records", 0, 1000) == b""
