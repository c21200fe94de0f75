"""Each system over each transport, as the runner carries it out: nothing that its ranks listen on can be reached, and
its config says whether they listen.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader, Run, Store
from engine.system.runner_process import ensure_running
from tests import isolation_functions as functions
from tests.conftest import end_processes_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="Only root can act as another user.")]
SERVER: dict[str, Any] = {"dataset": "digits", "trainers": 2, "epochs": 1000}
ROUNDS = SERVER | {"batch_update_size": 2}
SYNC: dict[str, Any] = {"dataset": "digits", "trainers": 2, "rounds": 100_000}
PIPELINE: dict[str, Any] = {"model": "small_resnet", "stages": 2, "batches": 100_000}
REINFORCE: dict[str, Any] = {"observers": 2, "episodes": 100_000}
TUTORIAL = {"variant": "tutorial", "start_method": "spawn", "device": "cpu"}
LISTENING = (
    ("parameter_server", ROUNDS | {"transport": "rpc"}),
    ("parameter_server", ROUNDS | TUTORIAL),
    ("async_sgd", SERVER | {"transport": "rpc", "start_method": "spawn"}),
    ("async_sgd", SERVER | TUTORIAL),
    *(("sync_sgd", SYNC | {"transport": transport}) for transport in ("rpc", "gloo")),
    ("sync_sgd", SYNC | {"sync": "ddp"}),
    ("batched_reinforce", REINFORCE | {"transport": "rpc"}),
    ("batched_reinforce", REINFORCE | TUTORIAL),
    *(("pipeline", PIPELINE | {"mode": mode}) for mode in ("rpc", "torch_pipelining")),
    ("pipeline", PIPELINE | {"transport": "rpc"}),
)
SILENT = (
    ("parameter_server", ROUNDS | {"transport": "shared_memory"}),
    ("sync_sgd", SYNC | {"transport": "shared_memory"}),
    ("batched_reinforce", REINFORCE | {"transport": "shared_memory"}),
    ("pipeline", PIPELINE),
    ("hogwild", {"dataset": "digits", "trainers": 2, "epochs": 1000}),
    ("dppo", {}),
    ("reference", {"dataset": "digits", "epochs": 1000}),
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose runner serves all tests of this file."""
    made = Home(tmp_path_factory.mktemp("lab") / "home").create()
    yield made
    end_processes_of(made)


def running(home: Home, name: str, settings: dict[str, Any]) -> Run:
    """Launch a run and return it once all its ranks are ready."""
    run_id = launch(home, Launch(name, experiment(name).config.check(settings).model_dump(mode="json"), "ada"))
    ensure_running(home)

    def read() -> Run:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id)

    wait_until(lambda: read().status not in ("queued", "starting"), "the run has started")
    assert read().status == "running", read().cause
    return read()


@pytest.mark.parametrize(("name", "settings"), [*LISTENING, *SILENT])
def test_no_other_user_reaches_a_running_system(lab: Home, name: str, settings: dict[str, Any]) -> None:
    run = running(lab, name, settings)
    try:
        with Reader.open(lab) as reader:
            pids = [rank.pid for rank in reader.details.ranks(run.id)]
            assert reader.runs.one(run.id).environment["network"] == "namespace"
        found = [functions.listeners(pid) for pid in pids]
        ports, names = [port for ports, _ in found for port in ports], [name for _, names in found for name in names]
        assert bool(ports) == experiment(name).config.check(settings).listens(gpus=0) == ((name, settings) in LISTENING)
        assert functions.as_nobody(functions.reached, ports, names) == "reached nothing"
    finally:
        with Store.open(lab) as store:
            store.runs.cancel(run.id, by="ada", force=True)


def test_a_config_that_listens_is_known_for_every_exhibit() -> None:
    museum = experiment("fault_museum").config
    assert museum.check({"exhibit": "optimizer_trains_nothing"}).listens(gpus=0)
    assert not museum.check({"exhibit": "aliased_weights"}).listens(gpus=0)
