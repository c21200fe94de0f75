"""A folder that stands in for an image: runs a Dockerfile's instructions by chroot, as root on Debian.

It is not a container: it shares network, processes and clock with the machine. It shows whether each step works.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from deploy.dockerfile import BuildStage, Instruction, filled, pairs, sources

LENT = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pip.conf",
    "/etc/apt/apt.conf.d",
    "/etc/apt/sources.list.d",
)
"""Files and variables of this machine that give a root access to the package registries."""
MOUNTED = ("proc", "dev", "dev/shm", "sys")
PASSED_ON = (
    "PIP_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
)


class Root:
    """One root, and the state set by its instructions."""

    def __init__(self, path: Path, arguments: Mapping[str, str]) -> None:
        self.path = path
        self.arguments = arguments
        self.environment: dict[str, str] = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.folder = "/"
        self.user = "root"

    def carry_out(self, stage: BuildStage, checkout: Path, others: Mapping[str, "Root"]) -> None:
        """Run the instructions of a stage in order; raises CalledProcessError for a failed one."""
        for each in stage.instructions:
            print(f"{each.word} {each.rest[:160]}", flush=True)
            if each.word == "RUN":
                subprocess.run(self.command(["/bin/sh", "-c", each.rest]), env=self.variables(), check=True)
            elif each.word == "COPY":
                self._copy(each, checkout, others)
            else:
                self._set(each)

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command line that starts a program in the root, with its folder and user."""
        enter = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.folder, *words]
        return ["chroot", f"--userspec={self.user}:{self.user}", str(self.path), *enter]

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment of a program in the root: the image's, plus access to the registries."""
        lent = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        return {**lent, **self.arguments, **self.environment, "HOME": self._home(), **more}

    @contextmanager
    def mounted(self, lent_folders: Sequence[Path] = ()) -> Iterator[None]:
        """Mount the machine's devices and processes, and package folders, into the root for a block."""
        done: list[Path] = []
        try:
            for name in (*MOUNTED, *(str(folder).lstrip("/") for folder in lent_folders)):
                target = self.path / name
                target.mkdir(parents=True, exist_ok=True)
                subprocess.run(["mount", "--bind", f"/{name}", str(target)], check=True)
                done.append(target)
            yield
        finally:
            for target in reversed(done):
                subprocess.run(["umount", "--lazy", str(target)], check=False)

    def _set(self, each: Instruction) -> None:
        if each.word == "ENV":
            self.environment |= {name: filled(value, self.environment) for name, value in pairs(each.rest).items()}
        elif each.word == "ARG":
            name, _, default = each.rest.partition("=")
            self.environment[name] = self.arguments.get(name, default.strip('"'))
        elif each.word == "WORKDIR":
            self.folder = str(Path(self.folder) / each.rest)
            self.inside(self.folder).mkdir(parents=True, exist_ok=True)
        elif each.word == "USER":
            self.user = each.rest

    def _copy(self, each: Instruction, checkout: Path, others: Mapping[str, "Root"]) -> None:
        origin, what, where = sources(each)
        target = self.inside(str(Path(self.folder) / where))
        ends_in_folder = where.endswith("/") or len(what) > 1
        for name in what:
            if origin:
                source = others[origin].inside(name)
                shutil.copytree(source, target, symlinks=True)
                continue
            for file in sent(checkout, name):
                aside = (
                    file.relative_to(checkout / name)
                    if (checkout / name).is_dir()
                    else Path(name if ends_in_folder else "")
                )
                (target / aside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target / aside)

    def _home(self) -> str:
        """Return the home folder of the current user, by name or number."""
        entries = [line.split(":") for line in self.inside("/etc/passwd").read_text().splitlines()]
        return next((entry[5] for entry in entries if self.user in (entry[0], entry[2])), "/")

    def inside(self, path: str) -> Path:
        """Return the path on this machine of a path in the root."""
        return self.path / path.lstrip("/")


def mounts_in(folder: Path) -> list[str]:
    """Return the mounts below a folder. Never delete the folder while there are any: that would delete this machine's
    files.
    """
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in places if Path(place).is_relative_to(folder)]


def sent(checkout: Path, name: str) -> list[Path]:
    """Return the files of a COPY source that .dockerignore includes; raises FileNotFoundError for none."""
    rules = [line for line in (checkout / ".dockerignore").read_text().split() if line]
    start = checkout / name
    files = [start] if start.is_file() else [path for path in start.rglob("*") if path.is_file()]
    found = [path for path in files if lets_through(rules, path.relative_to(checkout).as_posix())]
    if not found:
        raise FileNotFoundError(f"COPY {name}: .dockerignore excludes all of its files.")
    return found


def lets_through(rules: Sequence[str], path: str) -> bool:
    """Return whether .dockerignore includes a file: the last rule that matches it or a folder above it decides."""
    through = True
    for rule in rules:
        pattern = rule.removeprefix("!").strip("/")
        ways = [path, *(parent.as_posix() for parent in Path(path).parents if parent != Path())]
        if any(
            fnmatch(way, pattern) or (pattern.startswith("**/") and fnmatch(Path(way).name, pattern[3:]))
            for way in ways
        ):
            through = rule.startswith("!")
    return through
