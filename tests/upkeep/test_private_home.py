"""What lies in a home is its owner's alone: made so whatever the umask, closed at a start where it lay open, refused
where it can't be closed.
"""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.doctor.storage import permissions
from engine.errors import StoreError
from engine.home import ROOT, Home, set_mode
from engine.store import Store
from engine.upkeep.private_home import _OURS, close_home, open_parts


def modes(folder: Path) -> dict[str, int]:
    """Return the modes of a folder and all that lies in it, links left out."""
    found = [folder, *folder.rglob("*")]
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in found if not path.is_symlink()
    }


def test_the_stores_log_and_shared_memory_are_as_private_as_the_store(home: Home) -> None:
    before = os.umask(0o022)
    try:
        with Store.open(home) as store:
            store.people.add("ada", "admin", by="ada")
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.path.glob("parallab.db*")}
    finally:
        os.umask(before)
    assert found == {"parallab.db": 0o600, "parallab.db-wal": 0o600, "parallab.db-shm": 0o600}


@pytest.fixture
def open_lab(home: Home) -> Home:
    """A home whose folder and files others can read, as an older version or a careless copy left it, with links that
    lead out of it.
    """
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada")
    (home.run_folder(1) / "logs").mkdir(parents=True)
    (home.run_folder(1) / "logs" / "worker.log").write_text("hello")
    (home.path / "notes.txt").write_text("not Parallab's")
    outside = home.path.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("somebody's")
    (home.path / "runner.log").symlink_to(outside / "file")
    (home.path / "aside").symlink_to(outside)
    (home.run_folder(1) / "logs" / "learner.log").symlink_to(outside / "file")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(home.run_folder(1) / "s"))
    for path in (home.path, *home.path.rglob("*"), outside, outside / "file"):
        if not path.is_symlink():
            set_mode(path, 0o022)
    return home


@pytest.mark.processes
def test_a_start_closes_what_lies_open_and_follows_no_link(open_lab: Home) -> None:
    assert permissions(open_lab).state == "fail"
    ended = subprocess.run(
        [sys.executable, "-c", "import app.asgi"],
        cwd=ROOT,
        env=os.environ | {"PARALLAB_HOME": str(open_lab.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    found = modes(open_lab.path)
    assert found.pop("notes.txt") == 0o644, "what is not Parallab's is left alone"
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert (found["."], found["parallab.db"], found["runs/1/logs/worker.log"], found["runs/1/s"]) == (
        0o700,
        0o600,
        0o600,
        0o600,
    )
    outside = open_lab.path.parent / "outside"
    assert modes(outside) == {".": 0o755, "file": 0o644}
    left = permissions(open_lab)
    assert (
        left.state == "fail"
        and f"{outside} (mode 0755" in left.sentence
        and f"{outside / 'file'} (mode 0644" in left.sentence
    )
    for path in (outside, outside / "file"):
        set_mode(path, 0o077)
    assert permissions(open_lab).state == "ok"


@pytest.mark.parametrize(
    ("name", "mode", "state"),
    [
        (".", 0o710, "fail"),
        (".", 0o701, "fail"),
        ("parallab.db", 0o640, "warn"),
        ("parallab.db", 0o604, "warn"),
        ("runs/1/logs", 0o720, "warn"),
    ],
)
def test_the_doctor_names_any_right_of_group_or_others_and_fails_where_they_reach_it(
    open_lab: Home, name: str, mode: int, state: str
) -> None:
    close_home(open_lab)
    for link in ("runner.log", "aside"):
        (open_lab.path / link).unlink()
    path = open_lab.path / name
    path.chmod(mode)
    found = permissions(open_lab)
    assert (found.state, f"{path} (mode {mode:04o}, owner " in found.sentence, "chmod -R go=" in found.cure) == (
        state,
        True,
        True,
    )
    close_home(open_lab)
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o700


@pytest.fixture
def shared_lab() -> Iterator[Home]:
    """A home in a place that every user of the machine can reach."""
    folder = Path(tempfile.mkdtemp(prefix="parallab-shared-"))
    folder.chmod(0o755)
    yield Home(folder / "home").create()
    shutil.rmtree(folder)


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_start_refuses_what_it_cannot_close(shared_lab: Home) -> None:
    nobody = 65_534
    for name in ("cookie.key", "data"):
        (shared_lab.path / name).write_text("of another user")
        (shared_lab.path / name).chmod(0o644)
    os.chown(shared_lab.path, nobody, nobody)
    assert "cookie.key (mode 0644, owner root)" in _as_user(nobody, shared_lab)
    (shared_lab.path / "cookie.key").chmod(0o600)
    assert _as_user(nobody, shared_lab) == "", "a data set of another user is no secret"


def _as_user(user: int, home: Home) -> str:
    """Return why a start of that user would be refused."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(user)
        try:
            close_home(home)
        except StoreError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


def test_every_file_that_a_home_names_is_looked_at() -> None:
    home = Home(Path("/lab"))
    named = {getattr(home, name) for name, found in vars(Home).items() if isinstance(found, property)}
    earlier = {"mail"}  # mail.toml of earlier versions holds a password
    assert {re.split(r"[.]", path.name)[0] for path in named} | {"runs"} | earlier == _OURS
    assert open_parts(Home(Path("/nowhere/at/all"))) == []
