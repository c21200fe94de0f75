"""The Machine page: slots and holders, the last hour, the runner and its log, room, what is left over."""

from datetime import datetime, timedelta

import pytest

from app.durations import now
from app.machine import size
from app.machine_figures import hour, kinds
from engine.home import Home
from engine.runtime.machine import Gpu, Machine
from engine.runtime.processes import me
from engine.store import Demand, MachineSample, NewRun, Reader, Store
from engine.store.records import Status
from tests.app.browsing import Client
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html

MACHINE = Machine(8, (Gpu(0, "H200", 143_360), Gpu(1, "H200 <b>", 143_360)), "cpu", 62.0)


def samples(minutes: float = 0.0, end: datetime | None = None) -> list[MachineSample]:
    at = ((end or now()) - timedelta(minutes=minutes)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    host = [("cpu_percent", 83.0), ("memory_mb", 4096.0), ("memory_percent", 6.6)]
    gpus = [("gpu0", "gpu_percent", 97.0), ("gpu0", "memory_mb", 2048.0), ("gpu1", "gpu_percent", 0.0), ("gpu1", "memory_mb", 4096.0)]
    return [*(MachineSample(at, "host", name, value) for name, value in host), *(MachineSample(at, *gpu) for gpu in gpus)]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.machine.machine", lambda: MACHINE)


def test_each_slot_names_who_holds_it_and_how_busy_it_is(home: Home, machine: None) -> None:
    with Store.open(home) as store:
        store.add_run("hogwild", {}, owner="Ada <i>", demand=Demand(3, 1, 3, 1))
        store.claim(1, me(), [0])
        store.add_run("hogwild", {}, owner="Grace", demand=Demand(1, 0, 1, 1))
        store.add_machine_samples(samples())
    test = opened("machine")
    assert not test.exception
    shown = html(test)
    for words in (
        "<td>8 CPU cores</td><td>3 of 8 held</td>",
        '<a href="/run?run=1">run 1</a> of Ada &lt;i&gt;, 3 cores</td><td>CPU 83 %, memory 4.0 of 62.0 GB</td>',
        '<td>GPU 0, H200</td><td>held</td><td><a href="/run?run=1">run 1</a> of Ada &lt;i&gt;</td><td>97 %, memory 2.0 of 140.0 GB</td>',
        "<td>GPU 1, H200 &lt;b&gt;</td><td>no run holds it, but something else uses it</td><td>–</td>",
    ):
        assert words in shown
    assert "In the queue 1 run waits." in said(test).replace("\\", "")


def test_a_run_that_has_the_machine_to_itself_says_so(home: Home, machine: None) -> None:
    with Store.open(home) as store:
        store.add_sweep("pipeline", {"splits": [1]}, [NewRun({"splits": 1}, Demand(1, 0, 1, 1), "")], owner="Ada", exclusive=True)
        store.claim(1, me(), [])
    assert "1 core, nothing may run beside it" in html(opened("machine"))


def test_the_runner_is_told_with_its_health_and_the_home_with_its_room(home: Home, lab: dict[Status, int]) -> None:
    with Store.open(home) as store:
        store.register_runner(me(), cores=2, gpus=0)
    shown = html(opened("machine"))
    assert f"<small>Process</small><span>{me().pid}</span>" in shown
    assert "<small>State</small><span>serves</span>" in shown
    assert "<small>Gives out</small><span>2 cores, 0 GPUs</span>" in shown
    assert str(home.path) in shown
    assert "GB of" in shown


def test_the_last_hour_has_a_line_for_each_gpu_that_breaks_where_nobody_looked() -> None:
    end = now()
    found = [sample for minutes in (40.0, 39.9, 10.0, 9.9) for sample in samples(minutes, end)]
    assert kinds(found) == ["cpu_percent", "host memory_mb", "gpu_percent", "gpu memory_mb"]
    picture = hour(found, "gpu memory_mb", end)
    assert [(trace.name, len(trace.x), [value for value in trace.y if value is not None]) for trace in picture.data] == [
        ("gpu0", 5, [2.0] * 4),
        ("gpu1", 5, [4.0] * 4),
    ]
    assert len({trace.line.dash for trace in picture.data}) == 2
    assert [place for place, x in enumerate(picture.data[0].x) if x is None] == [2]
    assert -40.1 < picture.data[0].x[0] < -39.9
    assert hour(found, "cpu_percent", end, 100.0).layout.yaxis.range == (0, 100)


def test_the_token_changes_with_a_sample_with_a_run_and_when_the_runner_falls_silent(home: Home, still: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def token() -> int:
        found: int = Client().get("/api/token?machine=1").json()["token"]
        return found

    with Store.open(home) as store:
        store.register_runner(me(), cores=2, gpus=0)
        seen = [token()]
        store.add_machine_samples(samples())
        seen.append(token())
        store.add_run("hogwild", {}, owner="Ada", demand=Demand(1, 0, 1, 1))
        seen.append(token())
    monkeypatch.setattr("app.machine_token.SILENT_S", -1.0)
    seen.append(token())
    assert len(set(seen)) == 4
    assert token() == seen[-1]


def test_the_runners_log_is_served_and_no_other_file_of_the_home(home: Home) -> None:
    assert Client().get("/api/log?source=runner").json()["text"] == ""
    home.runner_log.write_text("runner 7 serves\n")
    assert Client().get("/api/log?source=runner").json()["text"] == "runner 7 serves\n"
    told = Client().get("/api/log?source=runner&download=1")
    assert (told.text, "runner.log" in told.headers["content-disposition"]) == ("runner 7 serves\n", True)
    (home.path / "cookie.key").write_text("secret")
    for source in ("cookie.key", "../home/runner.log", "worker", ""):
        answer = Client().get("/api/log", params={"source": source})
        assert (answer.status_code, "secret" in answer.text) == (404, False)
        assert "Known: runner, spare" in answer.json()["error"]


def test_sizes_are_said_in_their_unit(home: Home) -> None:
    assert [size(count) for count in (0, 2_048, 200_000, 5 * 2**20, 3 * 2**30)] == ["0 KB", "2 KB", "0.2 MB", "5.0 MB", "3.0 GB"]
    with Reader.open(home) as reader:
        assert reader.machine_samples() == []
