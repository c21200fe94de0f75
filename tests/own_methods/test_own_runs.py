"""Runs of an experiment of the lab's own in their worker: confined, with the version of the code that was launched."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

from engine.analysis.differences import code_difference
from engine.home import ROOT, Home
from engine.launch import launch, resume
from engine.own_methods import template
from engine.registry import definition, experiment
from engine.runtime.command.snapshot import code_of
from engine.store import Launch, Store
from engine.store.records import Run
from engine.system.checkpoint_state import CHECKPOINT
from engine.system.confinement import machine_confinement
from engine.system.processes import identity, session_members
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells processes of a run apart"),
]
SAMPLE = Path(__file__).with_name("samples") / "gossip"


@pytest.fixture
def folder(home: Home) -> Path:
    shutil.copytree(SAMPLE, home.experiments / "gossip", ignore=shutil.ignore_patterns("__pycache__"))
    return home.experiments / "gossip"


def queued(home: Home, **changes: object) -> int:
    config = experiment("gossip").configure("quick", changes).model_dump(mode="json")
    return launch(home, Launch("gossip", config, "ada", preset="quick"))


def started(store: Store, run_id: int) -> "subprocess.Popen[bytes]":
    """Start a run's worker, as the runner does."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "engine.runtime.command", "--home", str(store.db.home.path)],
        cwd=ROOT,
        env=os.environ | {"PARALLAB_SECRETS": "secret"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    process = identity(worker.pid)
    assert process and worker.stdin and store.claims.claim(run_id, process, (), (0,))
    worker.stdin.write(f"{run_id}\n".encode())
    worker.stdin.close()
    return worker


def run(store: Store, run_id: int) -> Run:
    log = store.db.home.run_folder(run_id) / "logs" / "worker.log"
    assert started(store, run_id).wait(PATIENCE_S) == 0, log.read_text()
    return store.read.runs.one(run_id)


def test_a_run_is_recorded_like_one_of_ours_and_sees_nothing_of_the_lab(home: Home, store: Store, folder: Path) -> None:
    found = run(store, queued(home, steps=5))
    assert (found.status, found.cause) == ("finished", "Completed successfully"), found.error
    assert found.execution_time_s is not None and found.progress_done == 10
    ranks = {rank.role: (rank.state, rank.last_step) for rank in store.read.details.ranks(found.id)}
    assert ranks == {"hub": ("done", None), "worker1": ("done", 5), "worker2": ("done", 5)}
    losses = [each for each in store.read.details.summaries(found.id) if each.metric == "train/loss"]
    assert [(each.count, each.last) for each in losses] == [(5, 1 / 32), (5, 1 / 32)]
    assert store.read.details.phases(found.id)[1]["compute"] > 0
    (seen,) = [event.detail for event in store.read.details.events(found.id) if event.kind == "seen"]
    if machine_confinement()[0] == "sandbox":
        assert seen == "runs" and found.environment["confinement"].startswith("sandbox")
    assert set(code_of(home.run_folder(found.id))) == {"config.py", "method.py"}
    assert not (home.run_folder(found.id) / "job").exists()


def test_the_servers_example_of_the_docs_runs(home: Home, store: Store) -> None:
    page = (
        (ROOT / "docs" / "plugins.md")
        .read_text()
        .partition("## Ranks that share, serve and average")[2]
        .split("\n\nRanks that average")[0]
    )
    blocks = [dedent(each) for each in re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)]
    roles, server, asking = (each.strip("\n") for each in blocks)
    config, method = template.CONFIG.replace("NAME", "easgd"), template.METHOD
    work = '    work_fields = ("epochs",)\n'
    assert work in config and 'rank.barrier("trained")' in method
    head, train = method.partition("def run(")[0], "def _train(" + method.partition("def _train(")[2]
    train = train.replace("weights, counters)", "weights, counters, asks, answers)")
    train = train[: train.index('        rank.barrier("trained")')] + indent(asking, " " * 8) + "\n"
    folder = home.experiments / "easgd"
    folder.mkdir(parents=True)
    (folder / "config.py").write_text(config.replace(work, f"{work}{indent(roles, ' ' * 4)}\n"))
    (folder / "method.py").write_text(f"{head}{server}\n\n{train}")
    quick = experiment("easgd").configure("quick", {"epochs": 2}).model_dump(mode="json")
    found = run(store, launch(home, Launch("easgd", quick, "ada", preset="quick")))
    assert (found.status, found.cause) == ("finished", "Completed successfully"), found.error
    assert [rank.role for rank in store.read.details.ranks(found.id)] == ["trainer1", "trainer2", "center"]
    (tests,) = [each for each in store.read.details.summaries(found.id) if each.metric == "test/accuracy"]
    assert tests.count == 4 and (tests.last or 0) > 20
    phases = store.read.details.phases(found.id)
    assert phases[2]["serve"] > 0 and phases[0]["communicate"] > 0


@pytest.mark.long  # three runs
def test_a_cancelled_run_is_resumed_with_its_own_code_though_the_folder_has_changed(
    home: Home, store: Store, folder: Path
) -> None:
    first = queued(home, steps=2000, sleep_s=0.02, checkpoint_every_s=0.1)
    worker = started(store, first)
    members = identity(worker.pid)
    wait_until((home.run_folder(first) / CHECKPOINT).exists, "a checkpoint")
    store.runs.cancel(first, by="ada")
    worker.terminate()
    assert worker.wait(PATIENCE_S) == 0 and members and not session_members(members)
    assert store.read.runs.one(first).status == "cancelled"
    text = (folder / "method.py").read_text()
    (folder / "method.py").write_text(text.replace("config.rate * (", "2 * config.rate * ("))
    second = resume(home, first, owner="ada")
    assert store.read.runs.one(second).config == store.read.runs.one(first).config
    third = queued(home, steps=3)
    assert run(store, third).status == "finished"
    one, other = store.read.runs.one(first), store.read.runs.one(third)
    assert one.config["code"] != other.config["code"]
    assert definition(one).config.model_fields["code"].default == one.config["code"]
    files, text = code_difference(*(code_of(home.run_folder(each)) for each in (first, third)))
    assert files == ["method.py"] and "+            numbers[rank.index - 1] += 2 * config.rate" in text
    worker = started(store, second)
    wait_until(lambda: store.read.runs.one(second).progress_done > one.progress_done + 2, "steps of the resumed run")
    worker.terminate()
    worker.wait(PATIENCE_S)


@pytest.mark.long  # a runner and seven runs
def test_a_newcomers_template_passes_the_check(home: Home) -> None:
    said = {}
    for words in (("new", "mine"), ("check", "mine", "--json")):
        ended = subprocess.run(
            [sys.executable, "-m", "engine", *words], cwd=ROOT, capture_output=True, text=True, timeout=3 * PATIENCE_S
        )
        said[words[0]] = (ended.returncode, ended.stdout, ended.stderr)
    checks = [line for line in said["check"][2].splitlines() if line.startswith("MISSING")]
    slow = [line for line in checks if "within" in line]  # as on a busy machine
    assert said["new"][0] == 0 and checks == slow, said
