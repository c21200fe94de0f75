"""Environments of other packages: who lets a module in, and that ranks play what it registers."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.commands.catalogue import add_environment
from engine.errors import ConfigError, Forbidden
from engine.home import Home
from engine.registry import experiment, method
from engine.store import Store
from tests.doubles import MemorySink, process_ranks
from tests.rl import lab_environments

SMALL: dict[str, dict[str, Any]] = {
    "batched_reinforce": {"observers": 2, "episodes": 2, "steps": 12, "transport": "shared_memory"},
    "dppo": {"collectors": 2, "envs_per_collector": 2, "batch_steps": 8, "total_steps": 64, "minibatches": 2},
}


@pytest.mark.parametrize("name", SMALL)
def test_a_module_is_imported_only_once_an_admin_has_added_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"own_{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w'); raise SystemExit('no')")
    monkeypatch.syspath_prepend(tmp_path)
    typed = f"own_{name}:Pole-v0"
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="root")
        store.people.add("mo", "member", by="ada")
    with pytest.raises(ConfigError, match=rf"got '{typed}'\. .*An admin can add one: .* catalogue add-environment"):
        experiment(name).config.check({"environment": typed})
    with pytest.raises(Forbidden, match="Only admins can extend the catalogue"):
        add_environment(home, typed, by="mo")
    assert not (tmp_path / "imported").exists() and f"own_{name}" not in sys.modules
    with pytest.raises(ConfigError, match=f"environment {typed} can't be created: SystemExit: no"):
        add_environment(home, typed, by="ada")
    assert (tmp_path / "imported").exists() and not home.catalogue.exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("batched_reinforce", "ale_py:ALE/Pong-v5"),
        ("dppo", f"{lab_environments.__name__}:lab/dict-v0"),
    ],
)
def test_ranks_play_the_environment_of_another_package(home: Home, name: str, environment: str) -> None:
    add_environment(home, environment, by="ada")
    settings = SMALL[name] | {"environment": environment, "threads_per_rank": 1, "device": "cpu"}
    config, sink = experiment(name).config.check(settings), MemorySink()
    ranks = process_ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, home.path, sink)
    method(name)(config, ranks)
    losses = sink.values("train/loss", 0) if name == "batched_reinforce" else sink.values("train/value_loss", 1)
    assert losses and np.isfinite(losses).all()
