"""Each exhibit of a hang: the hang doctor names rank and cause of the wrong version; the right version completes."""

from pathlib import Path
from typing import Any, get_args

import pytest

from engine.errors import RankFailed
from engine.experiments.hang_museum.config import HangName
from engine.museum.hang_catalogue import HANGS, HangExhibit
from engine.registry import experiment, method
from engine.runtime.rank import fork_server
from engine.runtime.worker.ranks import Ranks
from engine.runtime.worker.sink import MemorySink

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_HANG_S", "1")


def run(exhibit: HangExhibit, version: str, folder: Path, sink: MemorySink) -> Ranks:
    config: Any = experiment("hang_museum").configure(exhibit.name, {"version": version})
    ranks = Ranks(config.roles, ("cpu",) * 3, 1, 0, folder, sink)
    method("hang_museum")(config, ranks)
    return ranks


def test_each_exhibit_can_be_chosen() -> None:
    assert tuple(each.name for each in HANGS) == get_args(HangName)


@pytest.mark.parametrize("exhibit", HANGS, ids=lambda exhibit: exhibit.name)
def test_the_fault_is_named_and_ends_the_run(exhibit: HangExhibit, tmp_path: Path) -> None:
    sink = MemorySink()
    with pytest.raises(RankFailed) as caught:
        run(exhibit, "wrong", tmp_path, sink)
    assert caught.value.role == f"trainer{exhibit.guilty + 1}"
    verdict = sink.healths[-1].verdict
    assert exhibit.verdict in (verdict.cause if verdict.state == "HUNG" else str(caught.value))
    if exhibit.name == "try_a_wrong_port":
        assert "in connect(), hangs.py:" in str(caught.value) and "(connect to 127.0.0.1:" in str(caught.value)


@pytest.mark.parametrize("exhibit", HANGS, ids=lambda exhibit: exhibit.name)
def test_without_the_fault_the_run_completes(exhibit: HangExhibit, tmp_path: Path) -> None:
    sink = MemorySink()
    assert run(exhibit, "right", tmp_path, sink).execution_time_s is not None
    assert all(row.state == "done" for row in sink.rows.values())
