"""The image and its compose file, as far as they can be looked at without an engine; `make try-image` carries the
Dockerfile out.
"""

import subprocess
import sys

import pytest
import yaml

from app.web.server_config import ConsoleAddress
from deploy.dockerfile import pairs, read
from deploy.root import sent
from engine.home import ROOT, Home
from engine.notices.delivery import Delivering
from engine.store import Store
from engine.system.processes import me
from tests.notices.receivers import Receiver
from tests.notices.test_delivering import tell


def test_the_image_is_an_ordinary_user_s_with_an_init_a_health_check_and_volumes() -> None:
    build, final = read(ROOT / "Dockerfile")
    assert (build.name, final.name) == ("build", "")
    last = {word: final.last(word) for word in ("USER", "ENTRYPOINT", "CMD", "HEALTHCHECK", "VOLUME")}
    assert all(last.values())
    said = {
        word: each.words if each and word not in ("HEALTHCHECK", "USER") else each.rest if each else ""
        for word, each in last.items()
    }
    assert (said["USER"], said["ENTRYPOINT"], said["CMD"], said["VOLUME"]) == (
        "1000",
        ["tini", "--"],
        ["python", "-m", "app"],
        ["/lab", "/data"],
    )
    after = [each.word for each in final.instructions[[each.word for each in final.instructions].index("USER") :]]
    assert "RUN" not in after and "COPY" not in after, "nothing of the image can be written by its user"


def test_all_that_the_image_copies_is_sent_to_its_build_and_nothing_of_a_lab() -> None:
    for stage in read(ROOT / "Dockerfile"):
        for each in stage.instructions:
            if each.word == "COPY" and "--from" not in each.rest:
                *what, _ = each.words
                for name in what:
                    files = [path.relative_to(ROOT).as_posix() for path in sent(ROOT, name)]
                    assert files
                    assert not [
                        file
                        for file in files
                        if "__pycache__" in file or file.startswith((".git/", ".venv", ".parallab", "tests"))
                    ]


@pytest.mark.parametrize("url", ["", "https://lab.example.org/lab"])
def test_in_the_image_s_environment_the_console_listens_and_messages_are_sent(
    home: Home, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    set_there = {
        name: value
        for each in read(ROOT / "Dockerfile")[-1].instructions
        if each.word == "ENV"
        for name, value in pairs(each.rest).items()
    }
    for name, value in (set_there | {"PARALLAB_HOME": str(home.path), "PARALLAB_PUBLIC_URL": url}).items():
        if name.startswith("PARALLAB_"):
            monkeypatch.setenv(name, value)
    assert ConsoleAddress.of().address == "0.0.0.0"
    with Receiver(200).serving() as receiver, Store.open(home) as store:
        run_id = tell(store, receiver)
        assert Delivering(home, me()).deliver(store) == 1
    assert receiver.bodies[0]["link"] == (f"{url}/run?run={run_id}" if url else None)


def test_compose_and_image_agree() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    volumes = read(ROOT / "Dockerfile")[-1].last("VOLUME")
    assert volumes
    for name in ("console", "console-gpu"):
        service = compose["services"][name]
        assert [each.partition(":")[2] for each in service["volumes"]] == volumes.words
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
