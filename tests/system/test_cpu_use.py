"""CPU time as the kernel counts it, here and from files that are made."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.system import cpu_use
from engine.system.machine import machine


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_time_of_a_process_counts_for_it_and_for_its_cores() -> None:
    own, cores = cpu_use.process_use([os.getpid()]), cpu_use.core_use(machine().core_ids)
    spin(0.5)
    after, all_after = cpu_use.process_use([os.getpid()]), cpu_use.core_use(machine().core_ids)
    assert own and cores and after and all_after
    assert after.cpu_s - own.cpu_s >= 0.4
    assert all_after.used_s - cores.used_s >= 0.4
    assert cpu_use.process_use([2**30]) == cpu_use.ProcessUse(0.0, 0), "a process that is gone counts nothing"


@pytest.mark.processes
def test_the_time_of_an_ended_child_stays_with_its_parent() -> None:
    before = cpu_use.process_use([os.getpid()])
    code = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = cpu_use.process_use([os.getpid()])
    assert before and after and after.cpu_s - before.cpu_s >= 0.4


@pytest.mark.processes
def test_programs_are_named_by_module_or_script_and_never_by_an_argument(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; sys.stdin.read()")
    commands = {
        "train.py": [sys.executable, str(script), "--token", "hush"],
        "-m http.server": [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"],
        "": [sys.executable, "-c", "import sys; sys.stdin.read()", "hush"],
    }
    for ending, words in commands.items():
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            name, seconds = cpu_use.programs([os.getpid()])[process.pid]
        finally:
            process.kill()
            process.communicate()
        assert name.startswith("python") and name.partition(" ")[2] == ending
        assert seconds >= 0 and "hush" not in name
    assert os.getpid() not in cpu_use.programs([os.getpid()])


def test_what_a_container_hides_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROC", "CGROUP", "CPU"):
        monkeypatch.setattr(cpu_use, name, tmp_path)
    assert (cpu_use.throttled_s(), cpu_use.memory_pressure_s(), cpu_use.thermal_events([0])) == (None, None, None)
    assert cpu_use.process_use([os.getpid()]) is None
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text("lxcfs /proc/stat fuse.lxcfs rw 0 0\n")
    assert cpu_use.core_use([0]) is None


def test_counters_of_cgroups_pressure_and_heat_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROC", "CGROUP", "CPU"):
        monkeypatch.setattr(cpu_use, name, tmp_path)
    (tmp_path / "cpu.stat").write_text("usage_usec 9\nnr_throttled 2\nthrottled_usec 2500000\n")
    (tmp_path / "pressure").mkdir()
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=700000\n"
    (tmp_path / "pressure" / "memory").write_text(text)
    for core, count in ((0, 3), (1, 4)):
        folder = tmp_path / f"cpu{core}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(f"{count}\n")
    assert (cpu_use.throttled_s(), cpu_use.memory_pressure_s(), cpu_use.thermal_events([0, 1])) == (2.5, 1.5, 7)
