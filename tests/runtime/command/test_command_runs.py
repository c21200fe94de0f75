"""A command of a lab's own script in its worker: what runs, what is recorded, why it failed, and how it all ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from engine.runner.placement import LocalLauncher
from engine.runner.runner import Runner
from engine.runtime.command.rest import store_rest
from engine.runtime.command.snapshot import code_of, diff_of
from engine.script.command import read_command
from engine.store import Launch, Reader, Store
from engine.store.records import ENDED, Demand, Run
from engine.system.confinement import machine_confinement
from engine.system.machine import machine
from engine.system.processes import identity
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells processes of a run apart"),
]
PYTHON = sys.executable
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@dataclass
class Lab:
    """One home with runs of commands, each in a worker that this test starts as the runner does."""

    home: Home
    store: Store
    folder: Path
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def add(self, *words: str, folder: Path | None = None, **files: str) -> int:
        """Queue a command in the folder of these scripts."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        command = read_command(list(words), str(folder or self.folder))
        return self.store.runs.add(Launch(command.name, {}, "ada", demand=Demand(1, 0, 1, 1), command=command))

    def start(self, run_id: int) -> int:
        """Start a run's worker."""
        worker = self.workers[run_id] = subprocess.Popen(
            [PYTHON, "-m", "engine.runtime.command", "--home", str(self.home.path)],
            cwd=ROOT,
            env=os.environ | {"PARALLAB_HOME": str(self.home.path), "PARALLAB_SECRETS": "secret"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        process = identity(worker.pid)
        assert process and worker.stdin and self.store.claims.claim(run_id, process, ())
        worker.stdin.write(f"{run_id}\n".encode())
        worker.stdin.close()
        return run_id

    def run(self, *words: str, folder: Path | None = None, **files: str) -> Run:
        """Run a command and return its run once its worker has ended."""
        return self.ended(self.start(self.add(*words, folder=folder, **files)))

    def ended(self, run_id: int) -> Run:
        assert self.workers[run_id].wait(PATIENCE_S) == 0, self.log(run_id, "worker")
        return self.store.read.runs.one(run_id)

    def now(self, run_id: int) -> Run:
        with Reader.open(self.home) as reader:
            return reader.runs.one(run_id)

    def log(self, run_id: int, role: str) -> str:
        return (self.home.run_folder(run_id) / "logs" / f"{role}.log").read_text()

    def prints(self, run_id: int, text: str, role: str = "script") -> None:
        """Wait until a log of a run has a text."""
        path = self.home.run_folder(run_id) / "logs" / f"{role}.log"
        wait_until(lambda: path.exists() and text in path.read_text(), f"{role} printed {text}")


@pytest.fixture
def lab(home: Home, store: Store, tmp_path: Path) -> Iterator[Lab]:
    folder = tmp_path / "Läufe von Ada"
    folder.mkdir()
    made = Lab(home, store, folder)
    yield made
    for worker in made.workers.values():
        worker.kill()
        worker.wait()


def is_there(pid: int) -> bool:
    return identity(pid) is not None


def test_a_script_that_only_prints_has_a_curve_a_log_and_a_copy_of_its_code(lab: Lab) -> None:
    subprocess.run(["git", "init", "-q", str(lab.folder)], check=True)
    (lab.folder / "train.py").write_text("")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]
    subprocess.run(["git", "-C", str(lab.folder), "add", "."], check=True)
    subprocess.run(["git", "-C", str(lab.folder), *commit], check=True)
    script = """
import os, sys
for step in range(5):
    print(f"step {step} loss {1 / (step + 1)}")
print(sorted(name for name in os.environ if name.startswith("PARALLAB")), os.environ["WHERE"], sys.argv)
"""
    run = lab.run("WHERE=hier", PYTHON, "train.py", "--lr", "0.1", "--steps", "4", train=script)
    assert (run.progress_done, run.progress_total, run.progress_unit) == (4, 4, "steps"), "its length is a setting"
    assert (run.status, run.cause) == ("finished", "Completed successfully")
    assert lab.store.read.curves.series(run.id, ["loss"])[0].values == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    names = "['PARALLAB_FILES', 'PARALLAB_RUN_FOLDER', 'PARALLAB_RUN_ID', 'PARALLAB_WORKER']"
    assert f"{names} hier ['train.py', '--lr', '0.1', '--steps', '4']" in lab.log(run.id, "script")
    assert run.environment["command"]["argv"] == [PYTHON, "train.py", "--lr", "0.1", "--steps", "4"]
    assert run.environment["command"]["environment"] == ["WHERE"]
    assert run.environment["interpreter"] == PYTHON
    assert "torch" in run.environment["packages"]
    assert run.environment["code"]["is_changed"]
    assert "+import os, sys" in diff_of(lab.home.run_folder(run.id))
    assert code_of(lab.home.run_folder(run.id)) == {"train.py": script}
    (rank,) = lab.store.read.details.ranks(run.id)
    assert (rank.role, rank.state, rank.exit_code, rank.last_step) == ("script", "done", 0, 4)
    assert run.execution_time_s and run.startup_time_s


def test_the_list_of_processes_has_the_words_of_a_command_and_not_its_variables(lab: Lab) -> None:
    script = """
import os, pathlib
listed = b""
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        listed += path.read_bytes()
    except OSError:
        pass
print("listed:", os.environ["TOKEN"].encode() in listed, os.environ["TOKEN"][::-1].encode() in listed)
"""
    secret = f"variable-{os.getpid()}"
    run = lab.run(f"TOKEN={secret}", PYTHON, "train.py", "--key", secret[::-1], train=script)
    assert "listed: False True" in lab.log(run.id, "script")


def test_a_command_sees_its_run_alone_of_the_lab_and_the_run_says_so(lab: Lab) -> None:
    level, why = machine_confinement()
    script = """
import os
runs = os.path.dirname(os.environ["PARALLAB_RUN_FOLDER"])
print(sorted(os.listdir(os.path.dirname(runs))), sorted(os.listdir(runs)))
"""
    run = lab.run(PYTHON, "train.py", train=script)
    assert run.environment["confinement"].startswith(f"{level}: ")
    if level == "environment":
        pytest.skip(f"this system has no sandbox: {why}")
    assert lab.log(run.id, "script").strip() == f"['runs'] ['{run.id}']"


def test_a_failure_is_named_with_its_cause_and_its_last_lines(lab: Lab) -> None:
    run = lab.run(PYTHON, "train.py", train="print('begins')\nraise ValueError('lr must be positive')\n")
    assert (run.status, run.error.startswith("begins")) == ("failed", True)
    assert run.cause.endswith("exited with code 1. ValueError: lr must be positive.")


RANKS = """
import os, sys, time
rank = int(os.environ["RANK"])
for step in range(3):
    print(f"step {step} loss {rank + step}")
while not os.path.exists("go"):
    time.sleep(0.01)
{more}
if rank == 1:
    raise ValueError("no data on this rank")
time.sleep(3600)
"""
GLOO = """
import torch
torch.distributed.init_process_group("gloo")
total = torch.ones(1)
torch.distributed.all_reduce(total)
assert total == 2
"""


@pytest.mark.parametrize(
    "more",
    ["", pytest.param(GLOO, marks=pytest.mark.long)],  # each rank loads torch: seconds
    ids=["plain", "gloo"],
)
def test_each_rank_of_torchrun_has_its_log_its_points_and_its_exit(lab: Lab, more: str) -> None:
    run_id = lab.start(lab.add(*TORCHRUN, "ddp.py", ddp=RANKS.replace("{more}", more)))
    wait_until(lambda: len(lab.store.read.details.ranks(run_id)) == 2, "both ranks are seen")
    (lab.folder / "go").touch()
    run = lab.ended(run_id)
    assert run.status == "failed"
    assert run.cause.startswith("Rank 1 (pid ")
    assert run.cause.endswith("exited with code 1. ValueError: no data on this rank.")
    assert "no data on this rank" in run.error
    series = lab.store.read.curves.series(run.id, ["loss"])
    assert {each.rank: each.values for each in series} == {0: [0, 1, 2], 1: [1, 2, 3]}
    ranks = lab.store.read.details.ranks(run.id)
    assert [(row.role, row.state, row.exit_code) for row in ranks][1] == ("rank 1", "failed", 1)
    assert (ranks[0].role, ranks[0].state) == ("rank 0", "ended")
    assert "step 2 loss 2" in lab.log(run.id, "rank 0")


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", os.getpid(), flush=True)
        while True: time.sleep(1)
    os._exit(0)
clean = subprocess.Popen(["env", "-i", sys.executable, "-c", "import os, time; os.setsid(); time.sleep(3600)"])
print("clean", clean.pid, "self", os.getpid(), flush=True)
if len(sys.argv) < 2:
    while True: time.sleep(1)
time.sleep(0.3)
"""


def processes_of(lab: Lab, run_id: int) -> list[int]:
    """Return the pids that the script has printed, once it has."""
    lab.prints(run_id, "daemon")
    lab.prints(run_id, "self")
    words = lab.log(run_id, "script").split()
    return [int(words[words.index(name) + 1]) for name in ("daemon", "clean", "self")]


def test_a_cancel_ends_daemons_and_processes_that_ignore_it(lab: Lab) -> None:
    run_id = lab.start(lab.add(PYTHON, "stubborn.py", stubborn=STUBBORN))
    pids = processes_of(lab, run_id)
    lab.store.runs.cancel(run_id, by="ada")
    lab.workers[run_id].send_signal(signal.SIGTERM)
    run = lab.ended(run_id)
    assert (run.status, run.cause) == ("cancelled", "Cancelled by ada.")
    assert not [pid for pid in pids if is_there(pid)]


def test_daemons_are_ended_with_their_command_and_named_in_its_log(lab: Lab) -> None:
    run = lab.run(PYTHON, "stubborn.py", "ends", stubborn=STUBBORN)
    assert run.status == "finished"
    assert not [pid for pid in processes_of(lab, run.id) if is_there(pid)]
    daemon = processes_of(lab, run.id)[0]
    assert f"(pid {daemon})" in next(
        event.detail for event in lab.store.read.details.events(run.id) if event.kind == "processes ended"
    )
    assert f"(pid {daemon})" in lab.log(run.id, "worker")


def test_a_flood_of_output_keeps_both_ends_and_little_disk(lab: Lab) -> None:
    flood = """
print("first line")
line = "x" * 999 + "\\n"
for _ in range(60): print(line * 1000, end="")
print("last line")
"""
    run = lab.run(PYTHON, "flood.py", flood=flood)
    path = lab.home.run_folder(run.id) / "logs" / "script.log"
    text = path.read_text()
    assert text.startswith("first line")
    assert text.endswith("last line\n")
    assert "bytes were dropped here" in text
    assert path.stat().st_size < 25e6


LOGS = """
import os, time
print("self", os.getpid())
for step in range(1_000_000):
    print(f"step {step} loss {step}", flush=True)
    time.sleep(0.002)
    if os.path.exists("stop"): break
print("stopped")
"""


def test_a_killed_worker_loses_no_point_and_leaves_no_process(lab: Lab) -> None:
    run_id = lab.start(lab.add(PYTHON, "logs.py", logs=LOGS))
    runner = Runner(lab.home, lab.store, LocalLauncher(lab.home), machine())
    wait_until(lambda: [each for each in lab.store.read.details.summaries(run_id) if each.metric == "loss"])
    pid = int(lab.log(run_id, "script").split()[1])
    runner.endings.holders()
    lab.workers[run_id].kill()
    lab.workers[run_id].wait()
    wait_until(lambda: not runner.endings.holders() and lab.now(run_id).status in ENDED, "the run has ended")
    run = lab.now(run_id)
    assert run.status == "lost"
    assert "The worker (pid " in run.cause
    assert not is_there(pid)
    steps = [int(line.split()[1]) for line in lab.log(run_id, "script").splitlines() if line.startswith("step")]
    (series,) = lab.store.read.curves.series(run.id, ["loss"])
    assert series.total == len(steps)
    assert series.steps[-1] == steps[-1]


SHELL = """
trap 'echo shell ends; exit 3' TERM
{python} -c "
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit()))
print('self', flush=True)
time.sleep(3600)" &
wait
"""


def test_a_cancel_lets_each_process_of_a_shell_script_save_its_state(lab: Lab) -> None:
    (lab.folder / "run.sh").write_text(SHELL.replace("{python}", PYTHON))
    run_id = lab.start(lab.add("sh", "run.sh"))
    lab.prints(run_id, "self")
    wait_until(lambda: "interpreter" in lab.now(run_id).environment, "the interpreter is found")
    assert lab.now(run_id).environment["interpreter"] == PYTHON
    lab.store.runs.cancel(run_id, by="ada")
    lab.workers[run_id].send_signal(signal.SIGTERM)
    assert lab.ended(run_id).status == "cancelled"
    assert {"shell ends", "saved"} <= set(lab.log(run_id, "script").splitlines())


def test_two_runs_of_a_script_get_a_port_each_and_no_environment_of_ours(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("PATH", f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}")
    script = "import os, sys; print(os.environ['MASTER_PORT'], os.environ.get('VIRTUAL_ENV'), sys.prefix)"
    both = [lab.start(lab.add("python3", "where.py", where=script)) for _ in range(2)]
    assert [lab.ended(run_id).status for run_id in both] == ["finished"] * 2
    first, second = (lab.log(run_id, "script").split() for run_id in both)
    assert first[0] != second[0]
    assert first[1] == "None"
    assert first[2] != sys.prefix


def test_what_a_script_leaves_in_its_folder_of_files_is_kept_at_its_end(lab: Lab) -> None:
    script = """
import os, sys
from pathlib import Path
files = Path(os.environ["PARALLAB_FILES"])
(files / "loss.csv").write_text("step,loss\\n1,0.5\\n")
(files / "inner").mkdir()
(files / "inner" / "deep").write_text("x")
(files / "link").symlink_to("/etc/hostname")
(files / "a\\u202eb").write_text("x")
os.mkfifo(files / "pipe")
sys.exit(1)
"""
    run = lab.run(PYTHON, "train.py", train=script)
    assert run.status == "failed"
    (kept,) = lab.store.read.files.of([run.id])
    assert (kept.name, kept.who, kept.bytes) == ("loss.csv", "worker", 16)
    left = lab.home.run_folder(run.id) / "files"
    assert sorted(each.name for each in left.iterdir()) == ["a\u202eb", "inner", "link", "pipe"]
    (said,) = [each.detail for each in lab.store.read.details.events(run.id) if each.kind == "files not kept"]
    assert (
        said.startswith("4 files stayed in the run's folder: 'a\\u202eb' (The name of a file must") and "1 more" in said
    )


def test_what_a_killed_script_left_is_kept_with_the_rest(lab: Lab) -> None:
    run_id = lab.add(PYTHON, "-c", "pass")
    left = lab.home.run_folder(run_id) / "files"
    left.mkdir(parents=True)
    (left / "net.pt").write_bytes(b"weights")
    for _ in range(2):
        store_rest(lab.store, lab.now(run_id), lab.home.run_folder(run_id))
    assert [each.name for each in lab.store.read.files.of([run_id])] == ["net.pt"] and not left.exists()
