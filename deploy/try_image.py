"""`make try-image`: build the Dockerfile's stages in folders with debootstrap and chroot, then start the image's
command and check it.

For machines without a Docker engine: runs every RUN, COPY, USER and CMD of the Dockerfile. Needs root, Debian and
debootstrap.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.dockerfile import BuildStage, read
from deploy.install import ROOT
from deploy.root import LENT, Root, mounts_in

BASE_PACKAGES = "python3,python3-venv,ca-certificates"
"""Debian packages of the base image python:3.11-slim."""
START_S = 90.0
PASSWORD = "a password for one try"


def base(where: Path, suite: str, mirror: str) -> Path:
    """Create the stand-in for the base image: a small Debian whose `python` has the base image's path."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", suite, str(where), mirror], check=True
    )
    for name in ("python", "python3"):
        (where / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
    for name in filter(lambda name: Path(name).exists(), LENT):
        copied = where / name.lstrip("/")
        copied.parent.mkdir(parents=True, exist_ok=True)
        if Path(name).is_dir():
            shutil.copytree(name, copied, dirs_exist_ok=True)
        else:
            shutil.copy(name, copied)
    return where


def build(stages: Sequence[BuildStage], folder: Path, arguments: dict[str, str], lent: Sequence[Path]) -> Root:
    """Build all stages; return the root of the last one."""
    made: dict[str, Root] = {}
    root = Root(folder / "base", arguments)
    for number, stage in enumerate(stages):
        path = folder / f"stage-{number}"
        subprocess.run(["cp", "-a", "--reflink=auto", str(folder / "base"), str(path)], check=True)
        root = made[stage.name] = Root(path, arguments)
        with root.mounted(lent):
            root.carry_out(stage, ROOT, made)
    return root


def start(root: Root, stage: BuildStage, port: int) -> subprocess.Popen[str]:
    """Start the image's command."""
    entry, command = stage.last("ENTRYPOINT"), stage.last("CMD")
    assert entry and command, "the image defines ENTRYPOINT and CMD"
    words = root.command([*entry.words, *command.words])
    return subprocess.Popen(words, env=root.variables(PARALLAB_PORT=str(port)), stderr=subprocess.PIPE, text=True)


def answers(port: int) -> bool:
    """Return whether the console in the root responds with a readable store and a live runner."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=4) as answer:
            return bool(
                json.load(answer) | {"version": ""}
                == {"console": "parallab", "version": "", "store": "ok", "runner": "alive"}
            )
    except (OSError, ValueError):
        return False


def try_out(root: Root, stage: BuildStage, port: int) -> None:
    """Check that the image refuses to serve without accounts, serves with one, is healthy, runs an experiment and stops
    on SIGTERM.
    """
    refused = start(root, stage, port)
    _, said = refused.communicate(timeout=START_S)
    _see(
        refused.returncode == 2 and "no sign-in" in said,
        f"without accounts the console must exit with code 2 and the reason; got {refused.returncode}: {said}",
    )
    print(f"ok: without accounts the console exits with code 2: {said.strip()}")
    inside(
        root, ["python", "-m", "engine", "users", "add", "ada", "--role", "admin", "--password-stdin"], given=PASSWORD
    )
    console = start(root, stage, port)
    try:
        _wait(lambda: answers(port), "with an account the console serves and its runner is alive")
        health = stage.last("HEALTHCHECK")
        assert health, "the image defines HEALTHCHECK"
        inside(root, json.loads(health.rest[health.rest.index("[") :]), PARALLAB_PORT=str(port))
        print("ok: health check passes")
        inside(root, ["python", "-m", "engine", "run", "hogwild", "--preset", "quick", "--owner", "ada"])
        print("ok: a run in the image finishes")
    finally:
        console.terminate()
        console.wait(timeout=30)
    print(f"ok: the console stops on SIGTERM with code {console.returncode}")
    subprocess.run(root.command(["python", "-m", "engine", "stop", "--owner", "ada"]), env=root.variables(), check=True)


def inside(root: Root, words: list[str], given: str = "", **variables: str) -> None:
    """Run a command in the root as the image's user; raises CalledProcessError if it fails."""
    subprocess.run(root.command(words), env=root.variables(**variables), input=given, text=True, check=True)


def _wait(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_S
    while not holds():
        _see(time.monotonic() < deadline, what)
        time.sleep(0.2)
    print(f"ok: {what}")


def _see(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"Failed: {what}.")


def main() -> None:
    """Build, check, and delete the folders."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--suite", default="bookworm", help="Debian release of the base image")
    options.add_argument("--mirror", default="", help="Debian mirror; default: debootstrap's")
    options.add_argument(
        "--lend",
        type=Path,
        action="append",
        default=[],
        help="folder of packages that pip is configured to use",
    )
    options.add_argument("--torch-index", default="", help="build argument TORCH_INDEX")
    options.add_argument("--port", type=int, default=8599)
    options.add_argument("--keep", action="store_true", help="keep the folders and print their path")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="parallab-image-"))
    try:
        base(folder / "base", chosen.suite, chosen.mirror)
        stages = read(ROOT / "Dockerfile")
        root = build(stages, folder, {"TORCH_INDEX": chosen.torch_index}, chosen.lend)
        with root.mounted():
            try_out(root, stages[-1], chosen.port)
    finally:
        if chosen.keep or mounts_in(folder):
            print(f"Folders kept in {folder}.")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
