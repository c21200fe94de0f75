"""The client as a person uses it: one file, copied away, against a real console that really carries a run out; and a
server that misbehaves.
"""

import ast
import importlib.util
import json
import math
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.api.service import CLIENT
from app.links.compare import read_names
from engine.access.rules import Program
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import Store
from tests.browser.conftest import Console, console
from tests.waiting import PATIENCE_S

__all__ = ["console"]
TOKEN = "plab_a_secret_of_this_test"
Answer = tuple[int, dict[str, str], dict[str, Any]]


@pytest.fixture
def client(tmp_path: Path) -> ModuleType:
    """Copy the file to where nothing else of ours is, and import it from there."""
    copied = tmp_path / "elsewhere" / "parallab_client.py"
    copied.parent.mkdir()
    shutil.copy(CLIENT, copied)
    spec = importlib.util.spec_from_file_location("parallab_client", copied)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def server(*answers: Answer) -> Iterator[tuple[str, list[tuple[str, str, dict[str, str], bytes]]]]:
    """Serve answers on loopback, one a request and the last one for all that follow; give the address and what was
    asked.
    """
    asked: list[tuple[str, str, dict[str, str], bytes]] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, headers, said = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        do_GET = do_POST = answer  # noqa: N815 -- the library's names

        def log_message(self, format: str, *args: object) -> None:
            pass

    serving = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{serving.server_port}", asked
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


@pytest.mark.processes
def test_a_script_launches_waits_and_reads_what_came_of_it(
    console: Console, home: Home, client: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The documented script in a lab without accounts, then one in a lab with accounts, to the end of real runs."""
    page = (ROOT / "docs" / "api.md").read_text()
    script, of_one_metric, *_ = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    sys.modules["parallab_client"] = client
    shorter = script.replace("http://127.0.0.1:8501", console.address).replace("trainers=2,", "trainers=2, epochs=5,")
    names: dict[str, object] = {}
    exec(shorter, names)
    first, *curves = capsys.readouterr().out.splitlines()
    assert first.startswith("finished ") and len(curves) == 2
    with Store.open(home) as store:
        store.worker.write(1, [], run_points=[Point("val loss", 5, 0.25, 1.0)])
    exec(of_one_metric.replace("12,", "1,"), names)
    assert capsys.readouterr().out == "5 0.25\n"
    query = re.findall(r"runs/12/points\" --data-urlencode '(.+?)'", page)
    found = httpx.get(f"{console.address}/api/v1/runs/1/points", params=dict([query[0].split("=")]), timeout=PATIENCE_S)
    assert "0.25" in found.text

    with Store.open(home) as store:
        store.people.add("ada", "admin", by=Program("first"))
        token = store.tokens.make("ada", "nightly", "launch", by="ada")
    with pytest.raises(client.Refused, match="send a token"):
        client.Parallab(console.address).me()
    lab = client.Parallab(console.address, token)
    assert (lab.me()["name"], lab.me()["scope"]) == ("ada", "launch")
    with pytest.raises(client.Refused, match="trainers must be at most 64") as refused:
        lab.submit("hogwild", trainers=99)
    assert (refused.value.status, list(refused.value.problems)) == (422, ["trainers"])

    settings = {"dataset": "digits", "trainers": 2, "epochs": 1, "overwrites_every": 0}
    run_id = lab.submit("hogwild", preset="quick", title="by a script", key="one", **settings)
    assert lab.submit("hogwild", preset="quick", title="by a script", key="one", **settings) == run_id
    waiting = lab.submit("hogwild", preset="quick", **settings | {"epochs": 1000})  # longer than anything here may take
    with pytest.raises(client.TimedOut, match=f"Run {waiting} is still"):
        lab.wait(waiting, timeout_s=0.0)
    assert lab.cancel(waiting) in ("cancelled", "stopping")
    run = lab.wait(run_id, timeout_s=PATIENCE_S, poll_s=0.1)
    assert (run["status"], run["owner"], run["name"]) == ("finished", "ada", "by a script"), run["cause"]

    losses = lab.series(run_id, ["train/loss"], max_points=50)
    assert {curve["role"] for curve in losses} == {"trainer1", "trainer2"}
    assert all(5 <= len(curve["values"]) == curve["shown"] <= 50 for curve in losses)
    points = list(lab.points(run_id, "train/loss"))
    assert len(points) == sum(curve["total"] for curve in losses)
    assert all(math.isfinite(point["value"]) for point in points)
    assert [found["id"] for found in lab.runs("test/accuracy.last > 10", owner="ada", status="finished")] == [run_id, 1]
    assert [found["id"] for found in lab.runs(page=1)] == [waiting, run_id, 1]
    assert lab.log(run_id)["sources"]
    assert lab.experiment("hogwild")["config_schema"]["properties"]["trainers"]
    shown = {"authorization": f"Bearer {token}"}
    assert (
        httpx.get(f"{console.address}/api/v1/client.py", headers=shown, timeout=PATIENCE_S).content
        == CLIENT.read_bytes()
    )

    numbers = httpx.get(f"{console.address}/metrics", headers=shown, timeout=PATIENCE_S).text
    assert 'parallab_runs{experiment="hogwild",status="finished"} 2.0' in numbers
    assert 'parallab_http_requests_total{method="POST",route="/api/v1/runs",status="201"} 3.0' in numbers
    for path in ("/_stcore/health", "/static/nothing.js", "/runs", "/no/such/place"):
        httpx.get(f"{console.address}{path}", headers={"cookie": ""}, timeout=PATIENCE_S)
    assert token not in numbers + (home.path / "console.log").read_text()


def test_names_of_metrics_are_quoted(client: ModuleType) -> None:
    names = ["a,b", 'c "d"', "train/loss"]
    curves: Answer = (200, {}, {"series": []})
    with server(curves, curves, (200, {}, {"value": 1})) as (url, asked):
        client.Parallab(url, TOKEN).series(1, names)
        client.Parallab(url, TOKEN).series(1, "train/loss,test/loss")
        list(client.Parallab(url, TOKEN).points(1, names[:1]))
    (quoted,), (plain,), (one,) = (parse_qs(urlsplit(path).query)["metrics"] for _, path, _, _ in asked)
    assert (read_names(quoted), plain, one) == (names, "train/loss,test/loss", '"a,b"')


def test_the_cautions_of_a_launch_are_warnings_of_the_script(client: ModuleType) -> None:
    caution = "evaluate_every is 9 epochs, but the run has 8"
    with (
        server((201, {}, {"id": 7, "cautions": [caution]})) as (url, _),
        pytest.warns(UserWarning, match=caution) as told,
    ):
        assert client.Parallab(url, TOKEN).submit("hogwild", epochs=8) == 7
    assert told[0].filename == __file__


def test_a_busy_lab_is_asked_again_and_then_given_up(client: ModuleType) -> None:
    busy: Answer = (503, {"Retry-After": "0"}, {"error": "The store was held by another program."})
    with server(busy, busy, (200, {}, {"id": 7})) as (url, asked):
        assert client.Parallab(url, TOKEN).submit("hogwild", trainers=2) == 7
        assert [method for method, *_ in asked] == ["POST"] * 3
        assert len({headers["idempotency-key"] for _, _, headers, _ in asked}) == 1
        assert json.loads(asked[0][3]) == {"experiment": "hogwild", "config": {"trainers": 2}, "title": "", "terms": {}}
    with server(busy) as (url, asked), pytest.raises(client.Refused, match="held by another program") as refused:
        client.Parallab(url, TOKEN, tries=2).me()
    assert (refused.value.status, len(asked)) == (503, 2)
    with pytest.raises(client.Unreachable, match="does not respond"):
        client.Parallab(url, TOKEN, tries=2).me()


def test_the_token_is_shown_to_the_lab_alone(client: ModuleType) -> None:
    with (
        server((200, {}, {"name": "Eve"})) as (elsewhere, stolen),
        server((302, {"Location": f"{elsewhere}/api/v1/me"}, {})) as (url, asked),
    ):
        lab = client.Parallab(url, TOKEN)
        with pytest.raises(client.Refused) as refused:
            lab.me()
    assert (asked[0][2]["authorization"], stolen) == (f"Bearer {TOKEN}", [])
    assert TOKEN not in f"{lab!r} {refused.value!r} {refused.value}"
    for address in ("http://lab.example:8501", "http://10.0.0.7"):
        with pytest.raises(ValueError, match="would be sent unencrypted"):
            client.Parallab(address, TOKEN)
        client.Parallab(address, TOKEN, insecure=True)
    for address in ("lab.example", "ftp://lab.example", "http://ada:pw@lab.example"):
        with pytest.raises(ValueError, match="url must look like"):
            client.Parallab(address)


def test_the_file_needs_the_standard_library_and_what_is_no_lab_is_said(client: ModuleType) -> None:
    with (
        server((404, {}, {"detail": "nope"})) as (url, _),
        pytest.raises(client.Refused, match="The server is not a Parallab lab"),
    ):
        client.Parallab(url).me()
    tree = ast.parse(CLIENT.read_text(), feature_version=(3, 9))
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {str(name).partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


def test_address_token_and_name_come_from_the_environment(client: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_OWNER", "Ada")
    with server((200, {}, {"id": 3, "status": "stopping"})) as (url, asked):
        monkeypatch.setenv("PARALLAB_URL", url)
        assert client.Parallab().cancel(3) == "stopping"
        assert json.loads(asked[0][3]) == {"force": False, "owner": "Ada"}
        monkeypatch.setenv("PARALLAB_TOKEN", TOKEN)
        client.Parallab().cancel(3)
    assert (asked[1][2]["authorization"], json.loads(asked[1][3])) == (f"Bearer {TOKEN}", {"force": False})
