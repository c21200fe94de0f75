"""The doctor on machines where something is wrong: real limits, real broken packages, real processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.access.quotas import size
from engine.doctor import examine
from engine.doctor.machine import judge_shared_memory, shared_memory
from engine.doctor.software import TorchProbe, gpus, torch
from engine.doctor.storage import Mount, data_sets, file_system, judge_file_system, mount_of, store, writable_home
from engine.home import ROOT, Home
from engine.store.maintenance.integrity import probe

GB = 10**9


TORCH = """
__version__ = "2.11.0"
class version: cuda = None
class cuda: device_count = staticmethod(lambda: 0)
"""


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put modules of a test's own before those of the same name that are installed, for the doctor's child
    processes.
    """

    def put(**sources: str) -> None:
        for name, source in sources.items():
            (tmp_path / "instead" / name).mkdir(parents=True)
            (tmp_path / "instead" / name / "__init__.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "instead"))

    return put


@pytest.mark.processes
def test_a_sound_machine_passes(home: Home) -> None:
    findings = {finding.name: finding for finding in examine(home)}
    for name in ("python", "packages", "torch", "start methods", "open files", "home", "clock", "store", "runner"):
        assert findings[name].state == "ok", findings[name]
    assert not [finding for finding in findings.values() if finding.state != "ok" and not finding.cure]
    assert not list(home.path.glob(".*")), "the doctor leaves nothing behind"


@pytest.mark.processes
def test_all_that_is_wrong_is_named_at_once_each_with_its_cure(tmp_path: Path, instead: Callable[..., None]) -> None:
    """A torchvision of another torch, a low limit on open files, and a home that can't be made."""
    instead(torch=TORCH, torchvision="raise RuntimeError('operator torchvision::nms does not exist')")
    (tmp_path / "file").write_text("not a folder")
    ended = subprocess.run(
        ["bash", "-c", f'ulimit -n 100\n"{sys.executable}" -m engine doctor --json'],
        cwd=ROOT,
        env=os.environ | {"PARALLAB_HOME": str(tmp_path / "file" / "home")},
        capture_output=True,
        text=True,
    )
    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["healthy"]) == (1, False)
    findings = {finding["name"]: finding for finding in answer["findings"]}
    for name, words, cure in (
        ("torch", "torchvision::nms does not exist", "torch torchvision"),
        ("open files", "100", "ulimit -n"),
        ("home", "is not writable", "PARALLAB_HOME"),
    ):
        assert findings[name]["state"] == "fail"
        assert words in findings[name]["sentence"]
        assert cure in findings[name]["cure"]
    assert {"store", "data sets", "test programs"} <= findings.keys(), "everything else is still looked at"


@pytest.mark.processes
def test_a_torch_that_crashes_its_process_is_reported(instead: Callable[..., None]) -> None:
    instead(torch="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    found = torch(TorchProbe().answer())
    assert (found.state, "ended with code -9" in found.sentence) == ("fail", True)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "lustre", "vboxsf"])
def test_a_network_file_system_is_refused(kind: str, home: Home) -> None:
    found = judge_file_system(Mount("/lab", kind), home.path)
    assert (found.state, kind in found.sentence, "local disk" in found.cure) == ("fail", True, True)


@pytest.mark.parametrize(
    ("kind", "state"),
    [("ext4", "ok"), ("xfs", "ok"), ("overlay", "ok"), ("tmpfs", "warn"), ("9p", "warn"), ("fuse.unheard", "warn")],
)
def test_other_file_systems_are_told_apart(kind: str, state: str, home: Home) -> None:
    assert judge_file_system(Mount("/", kind), home.path).state == state


def test_the_mount_of_a_path_is_the_last_of_the_longest_above_it(tmp_path: Path) -> None:
    inner = tmp_path / "lab"
    mounts = [
        Mount("/", "ext4"),
        Mount(str(inner), "autofs"),
        Mount(str(inner), "nfs4"),
        Mount(str(tmp_path / "la"), "xfs"),
    ]
    assert mount_of(inner / "home", mounts).kind == "nfs4"
    assert mount_of(tmp_path / "other", mounts).kind == "ext4"


@pytest.mark.processes
def test_a_write_ahead_log_is_tried_for_real_and_leaves_nothing(home: Home) -> None:
    assert probe(home.path) == ""
    assert file_system(home).state in ("ok", "warn")
    assert not list(home.path.iterdir())


def test_a_folder_that_is_missing_can_hold_no_store(tmp_path: Path) -> None:
    assert "No such file" in probe(tmp_path / "missing")


def test_a_store_that_is_no_database_is_a_failure(home: Home) -> None:
    home.database.write_bytes(b"this is a letter, not a database" * 100)
    assert store(home).state == "fail"


def test_free_space_is_in_the_unit_of_the_machine_page(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home.path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=77_400_000_000))
    assert size(77_400_000_000) == "77.4 GB"
    assert "; 77.4 GB free." in writable_home(home).sentence
    assert judge_shared_memory(2_000_000_000, 4_000_000_000, Path("/dev/shm")).sentence.startswith("2.0 GB of 4.0 GB")


@pytest.mark.parametrize(("free", "state"), [(64 * 2**20, "fail"), (GB // 2, "warn"), (2 * GB, "ok")])
def test_shared_memory_is_judged_by_what_a_run_takes(free: int, state: str) -> None:
    assert judge_shared_memory(free, 4 * GB, Path("/dev/shm")).state == state


def test_shared_memory_that_is_not_mounted_is_a_failure_on_linux(tmp_path: Path) -> None:
    assert shared_memory(tmp_path / "shm").state == ("fail" if sys.platform == "linux" else "ok")


def test_a_missing_mnist_is_a_warning_and_a_damaged_one_a_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_DATA", str(home.path / "data"))
    assert data_sets(home).state == "warn"
    assert "MNIST and Fashion-MNIST" in data_sets(home).sentence
    raw = home.data / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(b"short")
    assert "damaged" in data_sets(home).sentence


def test_the_real_mnist_is_found(home: Home, mnist: Path) -> None:
    assert data_sets(home).state == "ok"


def test_a_gpu_that_torch_cannot_use_is_named_with_the_reason() -> None:
    assert "without CUDA" in gpus({"gpus": 0, "built_for": None}, ["NVIDIA A"]).cure
    assert "CUDA 13.2" in gpus({"gpus": 0, "built_for": "13.2"}, ["NVIDIA A"]).cure
    assert gpus({"gpus": 1, "built_for": "13.2"}, ["NVIDIA A"]).state == "ok"
    assert gpus({"gpus": 0, "built_for": "13.2"}, []).state == "ok"


def test_a_torch_that_is_missing_says_how_to_install_it() -> None:
    found = torch({"error": "ModuleNotFoundError: No module named 'torch'"})
    assert (found.state, "make install" in found.cure) == ("fail", True)
