"""The Machine page: slots and holders, the last hour, the runner and its log, room, what is left over."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from app.core.formatting import now, size
from app.machine.panels import OtherPrograms, hour, kinds
from engine.home import Home
from engine.runner.runner import Usage
from engine.store import Demand, Launch, MachineSample, ProcessIdentity, Reader, Store, SweepLaunch
from engine.store.records import Status
from engine.system.machine import Gpu, Machine
from engine.system.processes import identity, me
from engine.upkeep.backups import back_up
from tests.app.browsing import Client
from tests.app.reading import html, opened, said
from tests.waiting import PATIENCE_S

MACHINE = Machine(8, (Gpu(0, "H200", 150_000), Gpu(1, "H200 <b>", 150_000)), "cpu", 62.0)


def samples(minutes: float = 0.0, end: datetime | None = None) -> list[MachineSample]:
    at = ((end or now()) - timedelta(minutes=minutes)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    host = [("cpu_percent", 83.0), ("memory_mb", 4_000.0), ("memory_percent", 6.6)]
    gpus = [
        ("gpu0", "gpu_percent", 97.0),
        ("gpu0", "memory_mb", 2_000.0),
        ("gpu1", "gpu_percent", 0.0),
        ("gpu1", "memory_mb", 4_000.0),
    ]
    return [
        *(MachineSample(at, "host", name, value) for name, value in host),
        *(MachineSample(at, *gpu) for gpu in gpus),
    ]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.system.machine.machine", lambda: MACHINE)


def test_each_slot_names_who_holds_it_and_how_busy_it_is(home: Home, machine: None, store: Store) -> None:
    store.runs.add(Launch("hogwild", {}, "Ada <i>", demand=Demand(3, 1, 3, 1)))
    store.claims.claim(1, me(), [0])
    store.runs.add(Launch("hogwild", {}, "Grace", demand=Demand(1, 0, 1, 1)))
    store.machine.add(samples())
    test = opened("machine")
    assert not test.exception
    shown = html(test)
    for words in (
        "<td>8 CPU cores</td><td>3 of 8 allocated</td>",
        '<a href="/run?run=1">run 1</a> of Ada &lt;i&gt;, 3 cores</td><td>CPU 83 %, memory 4.0 of 62.0 GB</td>',
        (
            '<td>GPU 0, H200</td><td>allocated</td><td><a href="/run?run=1">run 1</a> of Ada &lt;i&gt;</td><td>97 %, '
            "memory 2.0 of 150.0 GB</td>"
        ),
        "<td>GPU 1, H200 &lt;b&gt;</td><td>used by another program</td><td>–</td>",
    ):
        assert words in shown
    assert 'Queue: <a href="/runs?filter=status+%3D%3D+%22queued%22">1 queued</a>.' in html(test)


def test_a_run_that_has_the_machine_to_itself_says_so(home: Home, machine: None, store: Store) -> None:
    store.sweeps.add(
        SweepLaunch(Launch("pipeline", {}, "Ada"), {"splits": [1]}, exclusive=True),
        [Launch("hogwild", {"splits": 1}, demand=Demand(1, 0, 1, 1))],
    )
    store.claims.claim(1, me(), [])
    assert "1 core, exclusive" in html(opened("machine"))


def test_the_runner_is_told_with_its_health_and_its_log_is_served_and_no_other_file(
    home: Home, lab: dict[Status, int], reader: Reader, store: Store
) -> None:
    store.runner.register(me(), cores=2, gpus=0)
    shown = html(opened("machine"))
    assert f"<small>Process</small><span>{me().pid}</span>" in shown
    assert "<small>State</small><span>running</span>" in shown
    assert "<small>Capacity</small><span>2 cores, 0 GPUs</span>" in shown
    assert str(home.path) in shown
    assert "GB of" in shown
    assert Client().get("/api/log?source=runner").json()["text"] == ""
    home.runner_log.write_text("runner 7 serves\n")
    assert Client().get("/api/log?source=runner").json()["text"] == "runner 7 serves\n"
    told = Client().get("/api/log?source=runner&download=1")
    assert (told.text, "runner.log" in told.headers["content-disposition"]) == ("runner 7 serves\n", True)
    (home.path / "cookie.key").write_text("secret")
    for source in ("cookie.key", "../home/runner.log", "worker", ""):
        answer = Client().get("/api/log", params={"source": source})
        assert (answer.status_code, "secret" in answer.text) == (404, False)
        assert "Available: runner, spare" in answer.json()["error"]
    assert [size(count) for count in (0, 999, 2_048, 200_000, 5 * 10**6, 3 * 10**9)] == [
        "0 B",
        "999 B",
        "2 kB",
        "200 kB",
        "5.0 MB",
        "3.0 GB",
    ]
    assert reader.machine.samples() == []


def test_the_last_hour_has_a_line_for_each_gpu_that_breaks_where_nobody_looked() -> None:
    end = now()
    found = [sample for minutes in (40.0, 39.9, 10.0, 9.9) for sample in samples(minutes, end)]
    assert kinds(found) == ["cpu_percent", "host memory_mb", "gpu_percent", "gpu memory_mb"]
    picture = hour(found, "gpu memory_mb", end)
    assert [
        (trace.name, len(trace.x), [value for value in trace.y if value is not None]) for trace in picture.data
    ] == [
        ("gpu0", 5, [2.0] * 4),
        ("gpu1", 5, [4.0] * 4),
    ]
    assert {trace.line.dash for trace in picture.data} == {"solid"}
    assert [place for place, x in enumerate(picture.data[0].x) if x is None] == [2]
    assert -40.1 < picture.data[0].x[0] < -39.9
    assert hour(found, "cpu_percent", end, 100.0).layout.yaxis.range == (0, 100)


def test_the_token_changes_with_a_sample_with_a_run_and_when_the_runner_falls_silent(
    home: Home, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def token() -> int:
        found: int = Client().get("/api/token?machine=1").json()["token"]
        return found

    with Store.open(home) as store:
        store.runner.register(me(), cores=2, gpus=0)
        seen = [token()]
        store.machine.add(samples())
        seen.append(token())
        store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
        seen.append(token())
    monkeypatch.setattr("app.core.caches.SILENT_S", -1.0)
    seen.append(token())
    assert len(set(seen)) == 4
    assert token() == seen[-1]


HOUR_AGO = time.time() - 3600


@pytest.fixture
def lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """Give the home a lost run whose worker is still there, a live one with a worker too, and a folder
    without a run.
    """
    for name, seconds in {"GRACE_S": 0.0, "TERMINATE_S": PATIENCE_S, "KILL_S": PATIENCE_S}.items():
        monkeypatch.setattr(f"engine.upkeep.leftovers.{name}", seconds)
    monkeypatch.setattr(
        "engine.upkeep.leftovers.left_segments", lambda *_: iter(())
    )  # other tests have theirs in the same shared memory
    processes = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
    with Store.open(home) as store:
        for process in processes:
            run_id = store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
            worker = identity(process.pid)
            assert isinstance(worker, ProcessIdentity)
            store.claims.claim(run_id, worker, ())
        store.claims.end(1, "lost", "The worker is gone.")
    home.run_folder(77).mkdir(parents=True)
    os.utime(home.run_folder(77), (HOUR_AGO, HOUR_AGO))
    yield processes[0]
    assert processes[1].poll() is None, "the live run's worker is not touched"
    for process in processes:
        process.kill()
        process.wait()


def asked() -> AppTest:
    """Open the dialog with what is left over now, above the section: a click in it reruns the whole script here, not
    only the dialog as in a browser.
    """

    def script() -> None:
        import streamlit as st

        from app.machine.leftovers import ask_clean, section
        from engine.home import Home
        from engine.store import Reader
        from engine.upkeep.leftovers import leftovers

        with Reader.open(Home.find()) as reader:
            found = leftovers(Home.find(), reader)
        if "listed" not in st.session_state:
            st.session_state["listed"] = found
        if not st.session_state.get("machine.cleaned"):
            ask_clean(st.session_state["listed"])
        section(found)

    test = AppTest.from_function(script, default_timeout=PATIENCE_S)
    test.session_state["person"] = "Ada"
    return test.run()


def clean_now(test: AppTest) -> AppTest:
    test.button(key="clean-up-now").click().run()
    assert not test.exception
    return test


@pytest.mark.processes
def test_what_is_left_over_is_listed_cleaned_up_when_asked_and_said(
    home: Home, lost: "subprocess.Popen[bytes]", reader: Reader
) -> None:
    shown = html(opened("machine"))
    assert f">{lost.pid}</div>" in shown
    assert 'Belongs to <a href="/run?run=1">run 1</a>, which has ended: sleep 600' in shown
    assert f">{home.run_folder(77)}</div>" in shown
    assert "No run of this store uses this folder." in shown
    test = opened("machine").button(key="clean-up").click().run()
    assert re.search(r"1 process \(.* [KM]B\) will be terminated\.", said(test))
    assert f"1 folder will be moved to {home.aside}." in said(test)
    assert lost.poll() is None
    test = clean_now(asked())
    assert lost.wait(timeout=PATIENCE_S) == -15
    assert not home.run_folder(77).exists()
    (done,) = (str(box.value).replace("\\", "") for box in test.success)
    assert done.startswith(f"Cleaned up: process {lost.pid} of run 1, folder {home.run_folder(77)}.")
    assert "No leftovers" in said(opened("machine"))
    assert not [button for button in opened("machine").button if button.label == "Clean up"]
    assert [(event.kind, event.who) for event in reader.details.events(1)][-1] == ("cleaned up", "Ada")
    assert "Ada cleaned up: process" in home.runner_log.read_text()


@pytest.mark.processes
def test_what_went_by_itself_meanwhile_is_said_to_be_gone(home: Home, lost: "subprocess.Popen[bytes]") -> None:
    home.run_folder(77).rmdir()
    test = asked()
    lost.kill()
    lost.wait()
    test = clean_now(test)
    assert "Nothing left to clean up" in said(test)


def test_what_may_be_another_programs_is_shown_and_has_no_button(home: Home) -> None:
    with Store.open(home):
        folder = home.path / "runs" / "notes"
        folder.mkdir(parents=True)
        os.utime(folder, (HOUR_AGO, HOUR_AGO))
    test = opened("machine")
    assert "It may belong to another program." in html(test)
    assert "are only listed" in said(test)
    assert not [button for button in test.button if button.label == "Clean up"]


def test_many_of_a_kind_are_counted(home: Home) -> None:
    with Store.open(home):
        for number in range(100, 130):
            home.run_folder(number).mkdir(parents=True)
            os.utime(home.run_folder(number), (HOUR_AGO, HOUR_AGO))
    assert "10 more folders" in html(opened("machine"))


def test_the_busiest_programs_outside_of_runs_are_named(
    home: Home, machine: None, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks one used 3 s of 2, one 1 s and one too little; one has just begun."""
    looks = [
        {1: ("make <b>", 10.0), 2: ("make <b>", 0.0), 3: ("chromium", 4.0), 4: ("cron", 1.0)},
        {1: ("make <b>", 12.0), 2: ("make <b>", 1.0), 3: ("chromium", 5.0), 4: ("cron", 1.1), 5: ("new", 90.0)},
    ]
    at = iter((100.0, 100.0, 102.0, 102.0, 103.0))
    made = OtherPrograms()
    with monkeypatch.context() as patch:
        patch.setattr("app.machine.panels.cpu_use.programs", lambda but: looks.pop(0))
        patch.setattr("app.machine.panels.time.monotonic", lambda: next(at))
        assert not made.busiest([], None), "the first look only counts"
        assert made.busiest([], None) == [("make <b>", 1.5), ("chromium", 0.5)]
        assert made.busiest([], None) == [("make <b>", 1.5), ("chromium", 0.5)], (
            "within 2 s all viewers get the same answer"
        )
    monkeypatch.setattr("app.machine.panels.others", Busy())
    test = opened("machine")
    assert "Busiest programs outside of runs, in cores: make <b> 1.5, chromium 1.0." in said(test)


def test_slots_and_leftovers_are_explained(home: Home, store: Store) -> None:
    helps = {header.value: header.help for header in opened("machine").header}
    assert "A run starts when" in helps["Slots"]
    assert "remain after a run has ended" in helps["Leftovers"]


@pytest.mark.processes
def test_what_the_runner_and_the_console_started_is_not_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell stands for the runner: its child is the lab's; a process in neither tree is another program."""
    excluded: list[Collection[int]] = []
    monkeypatch.setattr("app.machine.panels.cpu_use.programs", lambda but: excluded.append(but) or {})
    command = ["sh", "-c", "sleep 100 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        assert shell.stdout
        child = int(shell.stdout.readline())
        runner = identity(shell.pid)
        OtherPrograms().busiest([], runner)
        os.killpg(shell.pid, signal.SIGKILL)
    OtherPrograms().busiest([], runner)
    assert {os.getpid(), shell.pid, child} <= set(excluded[0])
    assert os.getppid() not in excluded[0]
    assert os.getpid() in excluded[1]
    assert shell.pid not in excluded[1], "a runner that ended"


class Busy:
    """Stands for two busy programs."""

    def busiest(self, holders: object, runner: object) -> list[tuple[str, float]]:
        return [("make <b>", 1.5), ("chromium", 1.0)]


def test_storage_has_the_sizes_of_folders_that_grow(home: Home, store: Store, machine: None) -> None:
    run_id = store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    home.run_folder(run_id).mkdir(parents=True)
    (home.run_folder(run_id) / "checkpoint.pt").write_bytes(bytes(2_500_000))
    assert Usage().look(store) == 1
    made = back_up(home, by="Ada")
    home.aside.mkdir()
    (home.aside / "old.db").write_bytes(b"x" * 1_300_000)
    drawn = html(opened("machine"))
    assert "/docs?page=operations#backup-and-restore" in drawn
    shown = " ".join(re.sub("<[^>]+>", " ", drawn).split())
    for label, words in (
        ("Run folders (without points)", "2.5 MB"),
        ("Backups", f"{size(made.size)}, newest "),
        ("Set aside", "1.3 MB"),
    ):
        assert f"{label} {words}" in shown
