"""Checks of the software: Python, packages, torch and torchvision, GPUs, start methods."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from engine.doctor.machine import Finding
from engine.home import ROOT
from engine.runner.placement import room_for_sockets

PROBE_TIMEOUT_S = 180
INSTALL = "Install the requirements: make install (or python -m pip install -r requirements.txt)."

TORCH_PROBE = """
import json
answer = {}
try:
    import torch
    answer |= {"torch": torch.__version__, "built_for": torch.version.cuda, "gpus": torch.cuda.device_count()}
    import torchvision
    answer["torchvision"] = torchvision.__version__
    torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""

START_PROBE = """
import multiprocessing, sys
process = multiprocessing.get_context(sys.argv[1]).Process(target=sys.exit, args=(7,))
process.start()
process.join(60)
print(process.exitcode)
"""


def python() -> Finding:
    """Report the interpreter; a too old one would already have failed."""
    return Finding("python", "ok", f"Python {sys.version.split()[0]} at {sys.executable}.")


def packages() -> Finding:
    """Compare the installed packages with requirements.txt."""
    wanted = re.findall(r"^([\w-]+)>=([\d.]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    wrong = [
        f"{name} {found or 'is missing'} (needs {least} or newer)"
        for name, least in wanted
        if _numbers(found := _version(name)) < _numbers(least)
    ]
    if wrong:
        return Finding("packages", "fail", f"Not as required by requirements.txt: {'; '.join(wrong)}.", INSTALL)
    return Finding("packages", "ok", f"All {len(wanted)} packages of requirements.txt are installed.")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0]))


class TorchProbe:
    """Imports torch in another process, started early and read later, as a broken torch can crash its importer."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TORCH_PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._answer: Mapping[str, Any] | None = None

    def answer(self) -> Mapping[str, Any]:
        """Return torch, torchvision, gpus and built_for; `error` after a failure."""
        if self._answer is None:
            self._answer = self._read()
        return self._answer

    def _read(self) -> Mapping[str, Any]:
        try:
            out, complaint = self._process.communicate(timeout=PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return {"error": f"importing torch took more than {PROBE_TIMEOUT_S} s"}
        if self._process.returncode or not out.strip():
            last = (complaint.strip().splitlines() or ["no message"])[-1]
            return {"error": f"importing torch ended with code {self._process.returncode}: {last}"}
        found: Mapping[str, Any] = json.loads(out.strip().splitlines()[-1])
        return found


def torch(seen: Mapping[str, Any]) -> Finding:
    """Check torch and torchvision, whose versions must match."""
    error = str(seen.get("error", "")).rstrip(".")
    if not error:
        return Finding("torch", "ok", f"torch {seen['torch']} with torchvision {seen['torchvision']}.")
    if "torch" not in seen:
        return Finding("torch", "fail", f"torch can't be imported: {error}.", INSTALL)
    pair = f"torch {seen['torch']}, torchvision {_version('torchvision') or 'missing'}"
    return Finding(
        "torch",
        "fail",
        f"torchvision fails at import ({pair}): {error}.",
        (
            "Install both together so that their versions match: python -m pip install --upgrade torch "
            "torchvision (2.15 "
            "goes with 0.29, 2.11 with 0.26)."
        ),
    )


def gpus(seen: Mapping[str, Any], names: Sequence[str]) -> Finding:
    """Compare the GPUs of the driver with those that torch can use."""
    usable = int(seen.get("gpus", 0))
    masked = (
        f" (CUDA_VISIBLE_DEVICES is '{os.environ['CUDA_VISIBLE_DEVICES']}')"
        if "CUDA_VISIBLE_DEVICES" in os.environ
        else ""
    )
    if not names and not usable:
        return Finding("GPUs", "ok", f"No NVIDIA GPU: runs compute on the CPU{masked}.")
    if usable >= len(names) > 0:
        return Finding("GPUs", "ok", f"{len(names)} usable by torch: {', '.join(names)}{masked}.")
    if not seen.get("built_for"):
        cure = (
            "This torch was built without CUDA. Install the default build for Linux: python -m pip install "
            "torch torchvision."
        )
    else:
        cure = f"Update the driver to one for CUDA {seen['built_for']}, or unset CUDA_VISIBLE_DEVICES if it hides GPUs."
    return Finding(
        "GPUs",
        "warn",
        f"The driver shows {len(names)} ({', '.join(names) or 'none'}), but torch can use {usable}{masked}.",
        cure,
    )


def driver_gpus() -> tuple[str, ...]:
    """Return the names of the driver's GPUs."""
    from engine.system.machine import machine

    return tuple(gpu.name for gpu in machine().gpus)


def start_methods() -> Finding:
    """Start a process with each start method of ranks."""
    failed = [method for method in ("forkserver", "spawn") if not _starts(method)]
    if not failed:
        return Finding("start methods", "ok", "forkserver and spawn work.")
    cure = "Check the limit on processes (ulimit -u) and whether the temporary folder is writable (TMPDIR)."
    if failed == ["forkserver"]:
        return Finding(
            "start methods",
            "warn",
            "forkserver does not work; spawn does, but is slower.",
            f"{cure} Until then, launch with start_method spawn.",
        )
    return Finding("start methods", "fail", f"Does not work: {' and '.join(failed)}.", cure)


def _starts(method: str) -> bool:
    try:
        ended = subprocess.run(
            [sys.executable, "-c", START_PROBE, method],
            env=os.environ | room_for_sockets(),
            capture_output=True,
            text=True,
            timeout=90,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.stdout.strip() == "7"
