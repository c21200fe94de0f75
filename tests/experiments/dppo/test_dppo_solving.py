"""DPPO's evaluation: when an environment counts as solved, and what a run ends with then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.commands.catalogue import add_environment
from engine.experiments.dppo import evaluation
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.evaluation import watch
from engine.experiments.dppo.policy import FlatPolicy
from engine.experiments.dppo.shared_state import SharedState
from engine.home import Home
from engine.registry import experiment, method
from engine.rl.kinds import PICTURE, kind_of
from tests.doubles import LocalRanks
from tests.experiments.dppo import dppo_functions as functions
from tests.experiments.dppo.dppo_runs import board_of, config_of, ranks_of
from tests.rl import lab_environments


@pytest.mark.ranks
@pytest.mark.parametrize("asked", [{"evaluate_every_s": 0.1, "stop_when_solved": True, "evaluation_episodes": 1}, {}])
def test_a_run_ends_with_the_policy_that_solved_its_environment_drawn_without_a_display(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """Beside training the learner goes on while a policy is tested, and can have spoiled it by the time the
    run ends.
    """
    monkeypatch.delenv("DISPLAY", raising=False)
    config = config_of(render_every_s=0.001, **asked)
    board, player = board_of(config), FlatPolicy(config, kind_of(config.environment))
    functions.balance(player)
    board.weights[:] = player.state
    if asked:
        board = functions.Spoiled(**{name: getattr(board, name) for name in SharedState.__dataclass_fields__})
    else:
        board.stop()
    ranks = LocalRanks(("main",), folder=tmp_path)
    ranks.run(watch, board, config, kind_of(config.environment))
    tested = ranks.recorders["main"].values("test/episodic_return")
    assert tested[-1] >= 475
    assert ranks.events == [
        ("solved", f"The mean of 100 greedy episodes was {tested[-1]:.1f}; CartPole-v1 counts as solved at 475.")
    ]
    with Image.open(tmp_path / PICTURE) as picture:
        assert picture.format == "GIF" and picture.is_animated and picture.width == 320
        assert picture.n_frames > 40  # frames that look alike are one; a pole that falls is ten


@pytest.mark.ranks
@pytest.mark.parametrize("drawable", [True, False])
def test_a_policy_that_solves_nothing_is_not_called_solved_and_what_cannot_be_drawn_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawable: bool
) -> None:
    def refuse(name: str, render: bool = False) -> object:
        raise ImportError("no pygame here")

    if not drawable:
        monkeypatch.setattr(evaluation, "make", refuse)
    config = config_of(render_every_s=0.001)
    board = board_of(config)
    board.stop()
    ranks = LocalRanks(("main",), folder=tmp_path)
    ranks.run(watch, board, config, kind_of(config.environment))
    assert ranks.recorders["main"].values("test/episodic_return")[-1] < 12
    if drawable:
        assert not ranks.events
        with Image.open(tmp_path / PICTURE) as picture:
            assert 2 <= picture.n_frames < 20, "the episode ends where the pole falls"
        return
    assert ranks.events == [("no picture", "No episode of CartPole-v1 is recorded: ImportError: no pygame here")]
    assert not (tmp_path / PICTURE).exists()


@pytest.mark.ranks
def test_an_evaluation_ends_in_an_environment_whose_episodes_do_not(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = f"{lab_environments.__name__}:lab/endless-v0"
    add_environment(home, environment, by="ada")
    monkeypatch.setattr(evaluation, "LONGEST", 30)
    config = config_of(environment=environment)
    board = board_of(config)
    board.stop()
    ranks = LocalRanks(("main",), folder=tmp_path)
    ranks.run(watch, board, config, kind_of(environment))
    assert ranks.recorders["main"].values("test/episodic_return") == [30.0]


@pytest.mark.long
def test_quick_reaches_what_it_promises(tmp_path: Path) -> None:
    preset = experiment("dppo").preset("quick")
    config = DppoConfig.check(dict(preset.settings))
    ranks, sink = ranks_of(config, tmp_path)
    method("dppo")(config, ranks)
    assert sink.values("test/episodic_return", 0)[-1] >= preset.expects["test/episodic_return"]
    assert [kind for kind, _ in sink.events] == ["solved"]
    assert np.mean(sink.values("charts/episodic_return")[:20]) < 50
