"""The image and its compose file, as far as they can be checked without a container engine."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from app.core.console_address import ConsoleAddress
from engine.home import ROOT, Home
from engine.notices.delivery import deliver
from engine.store import Store
from tests.notices.receivers import Receiver
from tests.notices.test_delivering import tell

INSTRUCTIONS = [
    (word, rest.strip())
    for word, _, rest in (
        line.partition(" ")
        for line in re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text())).splitlines()
        if line
    )
]
"""The Dockerfile's instructions: keyword and rest of the line."""
FINAL = INSTRUCTIONS[max(at for at, (word, _) in enumerate(INSTRUCTIONS) if word == "FROM") :]
"""Those of the last stage, the image."""


def value(word: str) -> str:
    """Return the value of an instruction that the image has once."""
    (only,) = [rest for each, rest in FINAL if each == word]
    return only


def sent(name: str) -> list[str]:
    """Return the files of a COPY source that .dockerignore includes."""
    rules = (ROOT / ".dockerignore").read_text().split()
    start = ROOT / name
    files = [start] if start.is_file() else [path for path in start.rglob("*") if path.is_file()]
    return [path for path in (file.relative_to(ROOT).as_posix() for file in files) if is_included(rules, path)]


def is_included(rules: Sequence[str], path: str) -> bool:
    """Return whether .dockerignore includes a file: the last rule that matches it or a folder above it decides."""
    included = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        above = [path, *(parent.as_posix() for parent in Path(path).parents if parent != Path())]
        if any(
            fnmatch(each, pattern) or (pattern.startswith("**/") and fnmatch(Path(each).name, pattern[3:]))
            for each in above
        ):
            included = rule.startswith("!")
    return included


def test_the_image_is_an_ordinary_user_s_with_an_init_a_health_check_and_volumes() -> None:
    assert value("USER") == "1000"
    words = {word: json.loads(value(word)) for word in ("ENTRYPOINT", "CMD", "VOLUME")}
    assert words == {"ENTRYPOINT": ["tini", "--"], "CMD": ["python", "-m", "app"], "VOLUME": ["/lab", "/data"]}
    assert "app.web.port_check" in value("HEALTHCHECK")
    after = [word for word, _ in FINAL][[word for word, _ in FINAL].index("USER") :]
    assert "RUN" not in after and "COPY" not in after, "nothing of the image can be written by its user"


def test_all_that_the_image_copies_is_sent_to_its_build_and_nothing_of_a_lab() -> None:
    copies = [rest.split()[:-1] for word, rest in INSTRUCTIONS if word == "COPY" and "--from" not in rest]
    assert len(copies) >= 5
    for name in (name for names in copies for name in names):
        files = sent(name)
        assert files
        private = (".git/", ".venv", ".parallab", "tests")
        assert not [file for file in files if "__pycache__" in file or file.startswith(private)]


@pytest.mark.parametrize("url", ["", "https://lab.example.org/lab"])
def test_in_the_image_s_environment_the_console_listens_and_messages_are_sent(
    home: Home, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    set_there = dict(word.split("=", 1) for word in shlex.split(value("ENV")))
    for name, setting in (set_there | {"PARALLAB_HOME": str(home.path), "PARALLAB_PUBLIC_URL": url}).items():
        if name.startswith("PARALLAB_"):
            monkeypatch.setenv(name, setting)
    assert ConsoleAddress.of().address == "0.0.0.0"
    with Receiver(200).serving() as receiver, Store.open(home) as store:
        run_id = tell(store, receiver)
        assert deliver(store) == 1
    assert receiver.bodies[0]["link"] == (f"{url}/run?run={run_id}" if url else "")


def test_compose_and_image_agree() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    volumes = json.loads(value("VOLUME"))
    for name in ("console", "console-gpu"):
        service = compose["services"][name]
        assert [each.partition(":")[2] for each in service["volumes"]] == volumes
        assert service["ports"] == ["127.0.0.1:${PARALLAB_PUBLISHED_PORT:-8501}:8501"], (
            "published to the machine alone; the proxy is the way in"
        )
    assert compose["services"]["console-gpu"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == [
        "gpu"
    ]
    assert set(compose["volumes"]) == {"home", "data", "certificates"}


@pytest.mark.processes
def test_compose_keeps_to_the_schema_of_the_compose_specification() -> None:
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
