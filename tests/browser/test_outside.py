"""What comes from outside, as a signed-in person sees it: a program's run with its files while it reports, the API read
beside it, and a run that an agent launched.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import compress, crc32

import pytest
from playwright.sync_api import Page, expect

from app.api.service import CLIENT
from engine.access.rules import Program
from engine.home import Home
from engine.mcp_server import server
from engine.parallab_client import Parallab
from engine.store import Store
from engine.store.access.sign_ins import Scope
from tests.browser.conftest import Console, sign_in
from tests.browser.places import settle
from tests.labs import small
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]
PASSWORD = "seven brown foxes"
PROGRAM = """
import sys
from parallab_client import Parallab
lab = Parallab()
with lab.record(experiment="net", name=sys.argv[1]) as run:
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "log":
            run.log({"loss": float(rest)})
        elif word == "keep":
            run.keep(rest)
"""
DRAWING = "<svg xmlns='http://www.w3.org/2000/svg' onload='window.hurt=1'><script>window.hurt=1</script></svg>"
ASKED = "path => fetch(path).then((answer) => answer.json())"


def png(width: int, height: int) -> bytes:
    """Return a white picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + crc32(kind + data).to_bytes(4, "big")

    rows = (b"\0" + b"\xff" * width) * height
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")


class Outside(Console):
    """A console of a lab with accounts that starts no runner, and programs that report to it."""

    def __init__(self, home: Home, place: Path) -> None:
        super().__init__(home)
        small.without_a_runner(home)
        self.place = place
        shutil.copy(CLIENT, place)
        with Store.open(home) as store:
            store.people.add("ada", "admin", by=Program("first"))
            store.people.set_password("ada", PASSWORD, by=Program("first"))

    def token(self, scope: Scope) -> str:
        with Store.open(self.home) as store:
            return store.tokens.make("ada", f"of {scope}", scope, by="ada")

    def program(self, name: str) -> "subprocess.Popen[str]":
        """Start a program that reports a run and does what its standard input says."""
        surroundings = os.environ | {"PARALLAB_URL": self.address, "PARALLAB_TOKEN": self.token("launch")}
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name], cwd=self.place, env=surroundings, stdin=subprocess.PIPE, text=True
        )

    def run_of(self, name: str) -> int:
        """Return the run of a program once it has begun."""
        with Store.open(self.home) as store:
            wait_until(lambda: name in {run.name for run in store.read.runs.find()}, "the run began")
            return next(run.id for run in store.read.runs.find() if run.name == name)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    made = Outside(Home(tmp_path_factory.mktemp("outside")).create(), tmp_path_factory.mktemp("programs"))
    made.start()
    yield made
    made.stop()


def say(program: "subprocess.Popen[str]", *lines: str) -> None:
    assert program.stdin
    program.stdin.write("".join(f"{line}\n" for line in lines))
    program.stdin.flush()


def test_a_program_shows_live_on_its_page_and_in_runs_with_its_files(
    outside: Outside, page: Page, complaints: list[str]
) -> None:
    for name, content in (
        ("loss.png", png(64, 48)),
        ("t.csv", b"step,<b>loss</b>\n1,0.5\n"),
        ("a.svg", DRAWING.encode()),
    ):
        (outside.place / name).write_bytes(content)
    program = outside.program("first try")
    run = outside.run_of("first try")
    say(program, "log 4", "log 3")
    sign_in(page, outside.address, "ada", PASSWORD, to=f"/run?run={run}&section=Overview")
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    page.locator("[data-drawn*='loss']").wait_for(state="attached")
    plot = page.locator("[data-metric='loss']")
    count = "plot => plot.data.filter((trace) => trace.showlegend !== false)[0].y.length"
    wait_until(lambda: plot.evaluate(count) == 2, "both points are drawn")
    say(program, "log 2")
    wait_until(lambda: plot.evaluate(count) == 3, "the third point is drawn without a reload")

    say(program, "keep loss.png", "keep t.csv", "keep a.svg")
    page.get_by_test_id("stButtonGroup").get_by_text("Files", exact=True).click()
    picture = page.get_by_alt_text(f"loss.png of run {run}")
    expect(picture).to_be_visible()
    wait_until(lambda: picture.evaluate("img => img.naturalWidth") == 64, "the browser has decoded the picture")
    expect(page.locator(".pl-file", has_text="t.csv").get_by_role("columnheader", name="<b>loss</b>")).to_be_visible()
    expect(page.locator(".pl-file pre")).to_contain_text("onload='window.hurt=1'")
    with page.expect_download() as saved:
        page.get_by_role("link", name="a.svg").click()
    assert saved.value.suggested_filename == "a.svg" and page.evaluate("window.hurt") is None
    page.goto(f"{outside.address}/compare?runs={run}&tab=files")
    expect(page.get_by_alt_text(f"loss.png of run {run}")).to_be_visible()

    page.goto(f"{outside.address}/runs")
    row = page.get_by_role("row", name="first try")
    expect(row).to_contain_text("running")
    say(program, "log 1")
    assert program.stdin
    program.stdin.close()
    assert program.wait(PATIENCE_S) == 0
    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("ada")
    assert complaints == []


def test_the_api_sorts_and_pages_and_a_point_is_readable_while_its_run_is_read(outside: Outside, page: Page) -> None:
    programs = {name: outside.program(name) for name in ("three", "one", "two")}
    runs = {name: outside.run_of(name) for name in programs}
    for name, program in programs.items():
        say(program, f"log {['one', 'two', 'three'].index(name) + 1}")
    sign_in(page, outside.address, "ada", PASSWORD)
    page.get_by_role("heading").first.wait_for()

    def ask(path: str) -> Any:
        return page.evaluate(ASKED, f"/api/v1{path}")

    by_loss = "/runs?sort=-loss.last&limit=2&filter=loss.last+%3E+0+and+name+%21%3D+%22first+try%22"
    wait_until(lambda: len(ask(f"{by_loss}&limit=3".replace("limit=2&", ""))["runs"]) == 3, "all have a value")
    first = ask(by_loss)
    second = ask(f"{by_loss}&before={first['next']}")
    assert [run["name"] for run in (*first["runs"], *second["runs"])] == ["three", "two", "one"]
    assert second["next"] is None
    series = f"/runs/{runs['one']}/series?metrics=loss"
    assert ask(series)["series"][0]["values"] == [1]
    say(programs["one"], "log 0.5")
    wait_until(lambda: ask(series)["series"][0]["values"] == [1, 0.5], "the new point is readable")
    assert ask(f"/runs/{runs['one']}")["status"] == "running"
    for program in programs.values():
        assert program.stdin
        program.stdin.close()
        assert program.wait(PATIENCE_S) == 0


def test_a_run_that_an_agent_launched_says_so(outside: Outside, page: Page) -> None:
    token = outside.token("agent")

    async def launched() -> str:
        from mcp import Client

        async with Client(server(lambda: Parallab(outside.address, token), "0")) as client:
            found = await client.call_tool("launch", {"experiment": "hogwild", "preset": "quick", "dry_run": False})
            return str(found.content[0].text)

    with ThreadPoolExecutor() as beside:  # Playwright's loop runs in this thread
        assert '"launched_run"' in beside.submit(asyncio.run, launched()).result(PATIENCE_S)
    sign_in(page, outside.address, "ada", PASSWORD, to="/people?view=Audit+log")
    entry = page.get_by_role("row").filter(has_text="launch").filter(has_text="via agent")
    expect(entry).to_contain_text("via agent of agent")
    expect(entry).to_contain_text("ada")
    page.goto(f"{outside.address}/runs")
    row = page.get_by_role("row", name="Hogwild!")
    expect(row).to_contain_text("queued")
    row.get_by_role("link").first.click()
    page.get_by_test_id("stButtonGroup").get_by_text("Events", exact=True).click()
    settle(page)
    expect(page.get_by_role("table")).to_contain_text("via agent of agent")
