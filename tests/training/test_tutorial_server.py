"""The tutorial variant's server, call by call and without processes: nobody waits for a trainer that is gone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.errors import RunFailed
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.training.workload import RandomImages
from tests.doubles import lone_rank

ONES = [torch.ones(1, 2)]


class TwoWeights(RandomImages):
    def net(self, seed: int) -> nn.Module:
        net = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(net.weight)
        return net


def served(folder: Path, batch: int, trainers: int, schedule: str = "constant") -> tuple[Any, list[str]]:
    from engine.training.tutorial_server import ModuleServer  # loads torchvision, which takes seconds

    config = ParameterServerConfig.check(
        {
            "dataset": "digits",
            "trainers": trainers,
            "batch_update_size": batch,
            "variant": "tutorial",
            "start_method": "spawn",
            "schedule": schedule,
        }
        | {"learning_rate": 1.0, "momentum": 0.0}
    )
    events: list[str] = []
    departed = torch.zeros(trainers + 1, dtype=torch.uint8)
    rank = lone_rank(folder, "ps", 0, trainers + 1, departed=departed)
    rank.say = lambda what, detail: events.append(what)
    return ModuleServer(rank, config, TwoWeights("small_resnet", trainers, 1, iterations=4), batch), events


def weight(server: Any) -> Tensor:
    return next(iter(server.model.parameters())).detach()


def test_the_last_partial_batch_is_flushed_when_the_others_leave(tmp_path: Path) -> None:
    server, _ = served(tmp_path, batch=3, trainers=4)
    for number in (2, 3, 4):
        server.on_leave(number)
    for step in (1, 2):
        future = server.on_gradients(1, [value * step for value in ONES])
        assert future.done(), "there is nobody left to wait for"
        assert future.value()[0] == server.version == step
    assert weight(server).tolist() == [[-3.0, -3.0]], "each gradient was averaged over the one that came"


def test_who_waits_is_answered_when_the_last_that_it_waits_for_leaves(tmp_path: Path) -> None:
    server, _ = served(tmp_path, batch=2, trainers=2)
    future = server.on_gradients(1, ONES)
    assert not future.done()
    server.on_leave(2)
    assert future.done()
    assert weight(server).tolist() == [[-1.0, -1.0]]


def test_a_silent_trainer_fails_a_synchronous_run_with_its_name_after_timeout_s(tmp_path: Path) -> None:
    server, _ = served(tmp_path, batch=2, trainers=2)
    server.on_gradients(1, ONES)
    server.members[1].heard_at -= 100  # it waits for an answer: its silence is the server's doing
    server.check_members()
    server.members[2].heard_at -= 61
    with pytest.raises(RunFailed, match=r"trainer2 sent nothing for 60 s \(timeout_s\) after step 0"):
        server.check_members()


def test_the_others_go_on_without_a_silent_or_dead_trainer_where_an_update_does_not_need_all(tmp_path: Path) -> None:
    server, events = served(tmp_path, batch=2, trainers=3)
    future = server.on_gradients(1, ONES)
    server.members[2].heard_at -= 61
    server.check_members()
    assert not future.done() and events == ["trainer silent"]
    server.rank.departed[3] = 1
    server.check_members()
    assert future.done()
    server.on_gradients(2, ONES)
    assert events == ["trainer silent", "trainer back"]
