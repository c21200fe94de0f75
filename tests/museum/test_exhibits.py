"""Every exhibit shows its fault, and the invariant that our own code is held to catches it."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

import pytest
import torch

from engine.errors import UnknownName
from engine.experiments.fault_museum.config import ExhibitName
from engine.home import ROOT
from engine.metrics import metric
from engine.museum.events import BROKEN, ERROR, HELD, heard
from engine.museum.outcome import WAYS, Broken, ExhibitOutcome
from engine.museum.source import code_of
from engine.registry import EXPERIMENTS, experiment, method
from engine.runtime.worker.ranks import LocalRanks
from engine.signs.catalogue import SIGNS, sign
from engine.signs.sign import Sign
from engine.store.records import Event
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.filterwarnings("ignore:`TorchScript` support for functional optimizers:DeprecationWarning")
NAMES = [found.name for found in SIGNS]
PROCESSES = ("queue_holds_process", "unguarded_counter")
"""Exhibits that need more than one."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread, as a rank of the museum does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shown(found: Sign, way: str, seed: int = 0) -> ExhibitOutcome:
    outcome = getattr(import_module(found.module), way)(seed)
    assert isinstance(outcome, ExhibitOutcome)
    assert set(outcome.numbers) == {number.key for number in found.numbers}
    assert len(outcome.series) > 2
    assert list(outcome.series) == sorted(outcome.series)
    return outcome


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(found, id=found.name, marks=pytest.mark.processes if found.name in PROCESSES else ())
        for found in SIGNS
    ],
)
def test_the_invariant_holds_the_right_way_and_is_broken_the_wrong_way(
    found: Sign, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(found.module)
    invariant: Any = module.invariant
    monkeypatch.setattr(module, "WATCHED_S", PATIENCE_S, raising=False)  # who can end does so at some time
    right = shown(found, "right")
    monkeypatch.setattr(module, "WATCHED_S", 0.5, raising=False)
    monkeypatch.setattr(module, "SLOT_MS", 10, raising=False)
    wrong = shown(found, "wrong")
    invariant(right)
    assert not right.error
    with pytest.raises(Broken, match=r"must") as caught:
        invariant(wrong)
    assert str(caught.value).endswith((".", "?"))
    assert right.series != wrong.series


@pytest.mark.parametrize("found", SIGNS, ids=NAMES)
def test_a_sign_names_a_test_of_ours_and_the_code_of_both_ways(found: Sign) -> None:
    path, _, name = found.guard.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    assert found.system in EXPERIMENTS
    assert f"`{found.name}`" in (ROOT / "docs" / "museum.md").read_text()
    texts = {way: code_of(found, way) for way in WAYS}
    assert texts["right"] != texts["wrong"]
    assert all(f"def {way}(seed: int)" in text for way, text in texts.items())
    assert (metric(found.metric).label, metric(found.metric).live) == (found.title, True)
    assert not metric(found.metric_of(found.numbers[0])).live


def test_adds_outside_the_lock_are_lost_by_the_published_statement_and_at_large_tensors() -> None:
    """The published handler has no look before its change: what loses adds is the change itself, where it lasts."""
    found = sign("adds_outside_lock")
    assert "server.sum += gradient" in code_of(found, "wrong")
    short = shown(found, "wrong").series
    assert min(short) <= 20_000 and max(short) >= 4_000_000, "from the published net's tensors to ResNet-50's"
    assert short[min(short)] < short[max(short)]


def test_code_shows_what_only_that_way_uses() -> None:
    from_both, only = "def _sent", "def _tensors"
    found = sign("module_as_reply")
    assert only in code_of(found, "wrong")
    assert only not in code_of(found, "right")
    assert from_both not in code_of(found, "wrong")


def test_every_exhibit_can_be_chosen_and_an_unknown_one_gets_a_suggestion() -> None:
    assert get_args(ExhibitName) == ("all", *NAMES)
    modules = {path.stem for path in (ROOT / "engine" / "museum" / "exhibits").glob("*.py")} - {"__init__"}
    assert modules == set(NAMES)
    with pytest.raises(UnknownName, match="Did you mean 'live_reply'"):
        sign("live_replay")


def test_a_run_records_both_ways_and_says_what_the_invariant_said() -> None:
    config = experiment("fault_museum").config.check({"exhibit": "gradients_set_to_none", "repetitions": 2})
    ranks = LocalRanks(config.roles)
    method("fault_museum")(config, ranks)
    for way, updates in (("right", 6.0), ("wrong", 1.0)):
        assert ranks.recorders[way].values("museum/gradients_set_to_none.updates") == [updates, updates]
        assert ranks.recorders[way].summarized == [("exhibit gradients_set_to_none", 1, 1)]
        assert len(ranks.recorders[way].values("museum/gradients_set_to_none")) == 6, (
            "the picture is the first repetition's"
        )
    assert metric("perf/exhibits_per_second").unit == "exhibits/s", (
        "what a run of the museum adds by the unit of its progress"
    )
    said = heard([Event("", kind, "worker", detail) for kind, detail in ranks.events], sign("gradients_set_to_none"))
    assert set(said) == {HELD, BROKEN, ERROR}
    assert said[BROKEN].startswith("Every round must end in an update; 1 of 6 did.")
    assert re.match(r"TypeError: unsupported operand", said[ERROR])
