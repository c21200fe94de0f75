"""What a command is started with, what keeps it from starting, and how its failure is explained."""

import os
import sys
from pathlib import Path

import pytest

from engine.errors import RunFailed
from engine.runtime.command.cause import RankExit, cause_of, rank_exits
from engine.runtime.command.start import Start, prepared
from engine.script.command import read_command


def started(folder: Path, *words: str, python: str = "") -> Start:
    return prepared(read_command(list(words), str(folder), python), {}, 7, folder / "run", (0, 2))


@pytest.mark.parametrize(
    ("words", "inside", "cause"),
    [
        (["no-such-program", "x"], "", "The program 'no-such-program' is not in the PATH of the runner"),
        (["/no/python", "train.py"], "", "The program /no/python doesn't exist."),
        (["./plain.sh"], "", "The program ./plain.sh is not executable. Run `chmod +x"),
        ([sys.executable, "train.py"], "gone", "gone doesn't exist on this machine."),
        ([sys.executable, "train.py"], "plain.sh", "plain.sh is not a folder."),
        (["sh", "missing.sh"], "", "missing.sh isn't a file in "),
        ([sys.executable, "missing.py"], "", "missing.py isn't a file in "),
    ],
)
def test_what_can_not_start_says_why(tmp_path: Path, words: list[str], inside: str, cause: str) -> None:
    (tmp_path / "plain.sh").touch()
    with pytest.raises(RunFailed) as refused:
        started(tmp_path / inside, *words)
    assert cause in str(refused.value)


def test_a_command_gets_its_gpus_and_none_of_our_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_SECRETS", "x")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("PATH", f"{Path(sys.prefix) / 'bin'}{os.pathsep}/usr/bin:/bin")
    start = started(tmp_path, "LR=0.1", "sh", "-c", "true")
    ours = {name for name in start.environment if name.startswith("PARALLAB_")}
    assert ours == {"PARALLAB_RUN_ID", "PARALLAB_RUN_FOLDER", "PARALLAB_FILES", "PARALLAB_WORKER"}
    assert (start.environment["LR"], start.environment["CUDA_VISIBLE_DEVICES"]) == ("0.1", "0,2")
    assert start.environment["PATH"] == "/usr/bin:/bin"
    assert "VIRTUAL_ENV" not in start.environment


def test_a_named_interpreter_comes_with_its_environment(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    python = tmp_path / "venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "train.py").touch()
    start = started(tmp_path, "python", "train.py", python=str(python))
    assert (start.argv[0], start.program, start.interpreter) == (str(python),) * 3
    assert start.environment["VIRTUAL_ENV"] == str(tmp_path / "venv")
    assert start.environment["PATH"].startswith(f"{tmp_path / 'venv' / 'bin'}{os.pathsep}")


def test_each_run_has_a_port_of_its_own_whatever_was_pasted(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    pasted = ["--master-port", "29500", "--rdzv_endpoint=localhost:29400", "train.py", "--master-port", "1"]
    one, two = (started(tmp_path, *run, *pasted) for _ in range(2))
    port = one.environment["MASTER_PORT"]
    assert [*one.argv] == [*run, "--master-port", port, f"--rdzv_endpoint=localhost:{port}", *pasted[-3:]]
    assert one.environment["PET_MASTER_PORT"] == port
    assert port != two.environment["MASTER_PORT"]
    (tmp_path / "accelerate").touch(0o755)
    accelerate = started(tmp_path, "./accelerate", "launch", "--num_processes", "2", "train.py")
    assert accelerate.argv[2:4] == ["--main_process_port", accelerate.environment["MASTER_PORT"]]
    several = ["--nnodes=2", "--master-port", "29500", "train.py"]
    assert [*started(tmp_path, *run, *several).argv] == [*run, *several], "the nodes have to agree on it"


RAISED = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n'


@pytest.mark.parametrize(
    ("text", "code", "cause"),
    [
        (f"{RAISED}ValueError: lr must be positive\n", 1, " ValueError: lr must be positive."),
        (
            f"[rank1]: {RAISED}".replace("\n ", "\n[rank1]:  ") + "[rank1]: KeyError: 'x'\n[W1] bye\n",
            1,
            " KeyError: 'x'.",
        ),
        (
            f"{RAISED}ModuleNotFoundError: No module named 'tyro.cli'",
            1,
            " ModuleNotFoundError: No module named 'tyro.cli'. Install 'tyro' for /env/python, or use an "
            "interpreter that has it: clone the run and choose it under Interpreter, or name it with --python.",
        ),
        (f"{RAISED}OSError: [Errno 28] No space left on device", 1, " It could not write: the disk is full."),
        (f"{RAISED}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 1, " It ran out of memory"),
        (f"{RAISED}MemoryError", 1, " Out of memory."),
        (
            f"{RAISED}RuntimeError: SaveConfigCallback expected logs/version_0/config.yaml to NOT exist. Aborting.",
            1,
            " RuntimeError: SaveConfigCallback expected logs/version_0/config.yaml to NOT exist. Aborting. If another "
            "run of the script wrote there at the same time, repeat this one, or run them one at a time: --exclusive.",
        ),
        (f"{RAISED}RuntimeError: [c10d] The server socket ... EADDRINUSE: address already in use", 1, " It could not"),
        ("run.sh: line 3: tqm: command not found", 127, " It did not find the program 'tqm'."),
        ("all is well", 3, ""),
    ],
)
def test_the_last_lines_say_why(text: str, code: int, cause: str) -> None:
    found = cause_of(text, code, Start((), {}, Path(), "", "/env/python"), None)
    assert found.startswith(cause)
    assert bool(found) == bool(cause)


def test_the_ranks_that_torchrun_lists_begin_with_the_root_cause() -> None:
    block = "[0]:\n  rank      : {0} (local_rank: {0})\n  exitcode  : {1} (pid: {2})\n"
    root = f"Root Cause (first observed failure):\n{block.format(1, 1, 41)}"
    text = f"Failures:\n{block.format(0, -15, 40)}{root}"
    assert rank_exits(text) == [RankExit(1, 1, 41), RankExit(0, -15, 40)]
    assert rank_exits("no failure") == []
