"""Every exhibit shows its fault, and the invariant that our own code is held to catches it."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

import pytest
import torch

from engine.errors import UnknownName
from engine.home import ROOT
from engine.metrics import metric
from engine.museum.config import FaultMuseumConfig
from engine.museum.exhibit import BROKEN, ERROR, HELD, SIGNS, WAYS, Outcome, Sign, Way, sign
from engine.registry import EXPERIMENTS, experiment, method
from tests.doubles import LocalRanks
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


def module_of(found: Sign) -> Any:
    return import_module(f"engine.museum.exhibits.{found.name}")


def shown(found: Sign, way: Way, seed: int = 0) -> Outcome:
    outcome = module_of(found).measure(seed, getattr(module_of(found), way))
    assert isinstance(outcome, Outcome)
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
    module = module_of(found)
    monkeypatch.setattr(module, "WATCHED_S", PATIENCE_S, raising=False)  # who can end does so at some time
    right = shown(found, "right")
    monkeypatch.setattr(module, "WATCHED_S", 0.5, raising=False)
    monkeypatch.setattr(module, "SLOT_MS", 10, raising=False)
    wrong = shown(found, "wrong")
    assert not found.complaint(right.numbers) and not right.error
    complaint = found.complaint(wrong.numbers)
    assert "must" in complaint and complaint.endswith((".", "?"))
    assert right.series != wrong.series


@pytest.mark.parametrize("found", SIGNS, ids=NAMES)
def test_a_sign_names_a_test_of_ours_and_the_code_of_both_ways(found: Sign) -> None:
    path, _, name = found.guard.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    assert found.system in EXPERIMENTS
    assert f"`{found.name}`" in (ROOT / "docs" / "museum.md").read_text()
    texts = {way: found.code(way) for way in WAYS}
    assert texts["right"] != texts["wrong"]
    assert all(f"def {way}(" in text and "def measure" not in text for way, text in texts.items())
    assert (metric(found.metric).label, metric(found.metric).live) == (found.title, True)
    assert not metric(found.metric_of(found.numbers[0])).live


def test_adds_outside_the_lock_are_lost_by_the_published_statement_and_at_large_tensors() -> None:
    """The published handler has no look before its change: what loses adds is the change itself, where it lasts."""
    found = sign("adds_outside_lock")
    assert "total += gradient" in found.code("wrong")
    short = shown(found, "wrong").series
    assert min(short) <= 20_000 and max(short) >= 4_000_000, "from the published net's tensors to ResNet-50's"
    assert short[min(short)] < short[max(short)]


def test_code_shows_what_only_that_way_uses() -> None:
    found, both = sign("images_one_by_one"), sign("buffers_left_behind")
    assert "class Counted" in found.code("wrong") and "class Counted" not in found.code("right")
    assert "def _push_gradients" not in both.code("wrong") + both.code("right")


def test_every_exhibit_can_be_chosen_and_an_unknown_one_gets_a_suggestion() -> None:
    assert get_args(FaultMuseumConfig.model_fields["exhibit"].annotation) == ("all", *NAMES)
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
    said = dict(ranks.events)
    assert set(said) == {HELD, BROKEN, ERROR}
    assert said[BROKEN].startswith("gradients_set_to_none: Every round must end in an update; 1 of 6 did.")
    assert said[ERROR].startswith("gradients_set_to_none: TypeError: unsupported operand")
