"""What the processes of a command reach: of the lab the run's folder and the data sets, and all else as in a shell.
Each command here is a real process, of root and of an ordinary user.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest

from engine.home import Home
from engine.system import confinement
from engine.system.confinement import Confinement
from engine.system.processes import variable_of
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
NOBODY = 65534
USERS = [0, NOBODY] if os.geteuid() == 0 else [os.geteuid()]
TRIES = """
attempt() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: yes"; else echo "$name: no"; fi; }
attempt 'read the store' cat "$LAB/parallab.db"
attempt 'read a secret' cat "$LAB/command-link.json"
attempt 'read another run' cat "$LAB/runs/2/worker.log"
attempt 'write into the home' touch "$LAB/new"
attempt 'write into another run' sh -c 'mkdir -p "$LAB/runs/2" && touch "$LAB/runs/2/new"'
attempt 'change a data set' touch "$LAB/data/new"
attempt 'take the cover off' umount "$LAB"
attempt 'take it off in a namespace of its own' unshare -rm umount "$LAB"
attempt 'read the environment of the worker' cat "/proc/$WORKER/environ"
attempt 'reach the home through the worker' cat "/proc/$WORKER/root$LAB/parallab.db"
attempt 'reach the home through the old folder' cat "../lab/parallab.db"
echo --
attempt 'read a data set' cat "$LAB/data/digits"
attempt 'write into its run' sh -c 'echo 1 > "$LAB/runs/1/result"'
attempt 'write into its folder' touch made_here
attempt 'write into the temporary folder' sh -c 'rm "$(mktemp)"'
attempt 'write into shared memory' sh -c 'rm "$(mktemp -p /dev/shm)"'
attempt 'make a repository' git init -q repository
attempt 'be asked by the worker' test "$(cat "/proc/$$/environ" | wc -c)" -gt 0
"""


def lab_of(user: int) -> Path:
    """Make a home, and a folder of a script, that belong to a user."""
    top = Path(mkdtemp(prefix="confinement-", dir="/tmp"))
    lab = top / "lab"
    for folder in ("runs/1", "runs/2", "data"):
        (lab / folder).mkdir(parents=True)
    (top / "project").mkdir()
    for name in ("parallab.db", "command-link.json", "runs/2/worker.log", "data/digits"):
        (lab / name).write_text("secret")
    for path in (top, *top.rglob("*")):
        os.chown(path, user, user)
    return top


@pytest.fixture(params=USERS)
def top(request: pytest.FixtureRequest) -> Iterator[Path]:
    made = lab_of(request.param)
    yield made
    shutil.rmtree(made)


def as_owner(top: Path, act: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Let the owner of a lab run `act`, a piece of Python that has `found`, the confinement of run 1, and `top`."""
    program = (
        "import ctypes, os, psutil, subprocess, sys\nfrom engine.system.processes import die_with_parent\n"
        "from pathlib import Path\nfrom engine.home import Home\n"
        "from engine.system.confinement import confinement\n"
        f"top = Path({str(top)!r})\nuser = top.stat().st_uid\n"
        "os.environ.pop('PARALLAB_DATA', None)\n"
        "if os.geteuid() != user:\n"
        "    os.setgroups([]); os.setgid(user); os.setuid(user)\n"
        "    ctypes.CDLL(None).prctl(4, 1)  # as after an exec: dumpable\n"
        "lab = Home(top / 'lab')\n"
        "found = confinement(lab, lab.run_folder(1), top / 'project')\n" + act
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment
    )
    assert ended.returncode == 0, ended.stderr
    return ended


RUN = """
enter = None if WITHOUT else found.enter
environment = {"PATH": os.environ["PATH"], "LAB": str(top / "lab"), "WORKER": str(os.getpid())}
ended = subprocess.run(["/bin/sh", "-c", sys.stdin.read()], cwd=top / "project", env=environment,
                       preexec_fn=enter, text=True, capture_output=True)
print(found.level, found.why)
print(ended.stdout, ended.stderr)
"""


def test_a_command_reaches_its_run_and_its_folder_and_nothing_else_of_the_lab(top: Path) -> None:
    act = RUN.replace("sys.stdin.read()", repr(TRIES))
    level, _, rest = as_owner(top, act.replace("WITHOUT", "False")).stdout.partition("\n")
    if not level.startswith("sandbox"):
        pytest.skip(f"this system has no sandbox: {level}")
    denied, _, allowed = rest.partition("--")
    assert {line.rpartition(": ")[2] for line in denied.strip().splitlines()} == {"no"}, denied
    assert {line.rpartition(": ")[2] for line in allowed.strip().splitlines()} == {"yes"}, allowed
    without = as_owner(top, act.replace("WITHOUT", "True")).stdout.partition("\n")[2]
    assert [line for line in without.splitlines() if line.endswith(": no")] == [
        "take the cover off: no",
        "take it off in a namespace of its own: no",
    ], "nothing else of this fails by itself"
    assert (top / "lab" / "runs" / "1" / "result").read_text() == "1\n"
    assert (top / "lab" / "parallab.db").read_text() == "secret"
    assert (top / "project" / "made_here").stat().st_uid == top.stat().st_uid


def test_the_worker_still_reads_and_ends_the_processes_of_a_command(top: Path) -> None:
    act = """
parent = os.getpid()
def enter():
    found.enter(); die_with_parent(parent)
sleeping = subprocess.Popen(["/bin/sleep", "600"], cwd=top / "project", env={"MARK": "ours"}, preexec_fn=enter,
                            stdout=subprocess.DEVNULL)
process = psutil.Process(sleeping.pid)
print(found.level, process.environ(), process.memory_full_info().uss > 0, process.io_counters().read_count >= 0)
if os.fork() == 0:  # whose parent is gone at once: the signal of its end must have outlived the namespaces
    parent = os.getpid()
    words, gone = ["/bin/sleep", "600"], {"MARK": "gone"}
    subprocess.Popen(words, cwd=top / "project", env=gone, preexec_fn=enter, stdout=subprocess.DEVNULL)
    os._exit(0)
os.wait()
sleeping.kill(); sleeping.wait()
"""
    said = as_owner(top, act).stdout
    if not said.startswith("sandbox"):
        pytest.skip(f"this system has no sandbox: {said}")
    assert said.strip() == "sandbox {'MARK': 'ours'} True True"

    def left() -> list[int]:
        return [each.pid for each in psutil.process_iter() if variable_of(each.pid, "MARK") == "gone"]

    wait_until(lambda: not left(), "no process outlives its parent")


def test_without_a_sandbox_the_level_says_why_and_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "lab").create()
    run = home.run_folder(1)
    run.mkdir(parents=True)
    assert confinement.confinement(home, run, home.path).why.endswith("belongs to the lab's home")

    def refused(name: str, *arguments: object) -> None:
        raise OSError(1, f"{name}: Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(confinement, "libc_call", refused)
        found = confinement.confinement(home, run, tmp_path)
    assert (found.level, "unshare: Operation not permitted" in found.why) == ("environment", True)
    assert subprocess.run(["true"], preexec_fn=found.enter).returncode == 0
    monkeypatch.setenv("PARALLAB_CONFINEMENT", "off")
    assert confinement.confinement(home, run, tmp_path) == Confinement("environment", "PARALLAB_CONFINEMENT is off")


def test_a_folder_of_scripts_in_the_home_and_runs_on_another_disk_are_told_apart(top: Path) -> None:
    act = """
(top / "disk").mkdir(); (top / "lab" / "runs").rename(top / "disk" / "runs")
(top / "lab" / "runs").symlink_to(top / "disk" / "runs")
scripts = top / "lab" / "scripts"; scripts.mkdir(); (scripts / "train.py").write_text("pass")
found = confinement(lab, lab.run_folder(1), scripts)
def seen(words):
    return subprocess.run(words, cwd=scripts, preexec_fn=found.enter, text=True, capture_output=True).stdout.split()
print(found.level, seen(["ls", "."]), seen(["ls", str(top / "lab")]), seen(["ls", str(top / "disk" / "runs")]))
"""
    said = as_owner(top, act).stdout
    if not said.startswith("sandbox"):
        pytest.skip(f"this system has no sandbox: {said}")
    assert said.strip() == "sandbox ['train.py'] ['data', 'scripts'] ['1']"
