"""What a server of weights does with each gradient, call by call and without processes."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.data.sets import load
from engine.errors import RunFailed
from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.experiments.async_sgd.method import _AsyncServer
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.experiments.parameter_server.method import _BatchServer
from engine.runtime.transport.request_reply import Answer, Request, Respond
from engine.training.server import FETCH, LEAVE, PUSH, WeightServer
from tests.doubles import lone_rank
from tests.experiments.servers.server_functions import Frozen

COMMON: dict[str, Any] = {"dataset": "digits", "learning_rate": 0.5, "momentum": 0.0}


class Desk:
    """Asks a server as its trainers would, and keeps what each was answered."""

    def __init__(self, server: WeightServer) -> None:
        self.server = server
        self.answers: dict[int, Answer] = {}
        self.weights: dict[int, Tensor] = {}

    def respond(self, trainer: int) -> Respond:
        def keep(answer: Answer, vector: Tensor | None) -> None:
            self.answers[trainer] = answer
            if vector is not None:
                self.weights[trainer] = vector.clone()

        return keep

    def push(self, trainer: int, step: int, value: float = 1.0, version: int | None = None) -> None:
        version = self.answers[trainer].version if version is None and trainer in self.answers else version or 0
        self.answers.pop(trainer, None)
        self.server(
            Request(trainer, PUSH, step, version, 10), torch.full_like(self.server.state, value), self.respond(trainer)
        )

    def fetch(self, trainer: int) -> None:
        self.server(Request(trainer, FETCH), None, self.respond(trainer))

    def leave(self, trainer: int) -> None:
        self.server(Request(trainer, LEAVE), None, self.respond(trainer))


def desk(kind: type[WeightServer], config: ParameterServerConfig | AsyncSgdConfig, folder: Path) -> Desk:
    events: list[tuple[str, str]] = []
    departed = torch.zeros(config.trainers + 1, dtype=torch.uint8)
    rank = lone_rank(folder, "ps", 0, config.trainers + 1, departed=departed)
    rank.say = lambda what, detail: events.append((what, detail))
    server = kind(rank, config, Frozen(load("digits"), config.trainers, config.batch_size, config.epochs))
    server.state.zero_()
    return Desk(server)


def batch_desk(folder: Path, **changes: Any) -> Desk:
    return desk(_BatchServer, ParameterServerConfig.check(COMMON | changes), folder)


def async_desk(folder: Path, **changes: Any) -> Desk:
    return desk(_AsyncServer, AsyncSgdConfig.check(COMMON | changes), folder)


# ---- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_is_averaged_into_one_update_and_answers_all_who_wait(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=3, batch_update_size=3)
    asked.push(1, 1, 1.0)
    asked.push(2, 1, 2.0)
    assert not asked.answers
    asked.push(3, 1, 6.0)
    assert set(asked.answers) == {1, 2, 3}
    assert {answer.version for answer in asked.answers.values()} == {1}
    assert torch.equal(asked.weights[1], torch.full_like(asked.weights[1], -0.5 * 3.0))


def test_a_checkpoint_leaves_out_an_incomplete_batch_whose_gradients_are_computed_again(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=2, batch_update_size=2)
    asked.push(1, 1)
    asked.push(2, 1)
    asked.push(1, 2)
    saved = asked.server.checkpoint()
    assert (saved["steps"], saved["samples"], saved["version"]) == ([1, 1], 20, 1)
    resumed = batch_desk(tmp_path, trainers=2, batch_update_size=2)
    resumed.server.restore(saved)
    resumed.fetch(1)
    assert resumed.answers[1].note == 1, "it makes its second step again"
    assert resumed.server.staleness == [0, 0], "not reported yet"


def test_the_mean_squares_of_delay_compensation_are_part_of_a_checkpoint(tmp_path: Path) -> None:
    options = {"trainers": 1, "rule": "delay_compensated", "compensation_decay": 0.9}
    asked, resumed = async_desk(tmp_path, **options), async_desk(tmp_path, **options)
    asked.fetch(1)
    asked.push(1, 1)
    resumed.server.restore(asked.server.checkpoint())
    for each in (asked, resumed):
        assert isinstance(each.server, _AsyncServer) and each.server.square is not None
        assert float(each.server.square[0]) == pytest.approx(0.1)


def test_a_push_that_comes_twice_is_applied_once_and_answered_twice(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=2, batch_update_size=2)
    asked.push(1, 1, 1.0)
    asked.push(1, 1, 1.0)
    asked.push(2, 1, 3.0)
    assert asked.server.version == 1
    assert float(asked.weights[1][0]) == -0.5 * 2.0
    asked.push(2, 1, 3.0)
    assert asked.server.version == 1
    assert asked.answers[2].version == 1


def test_a_late_gradient_counts_in_the_next_batch_with_its_staleness(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=3, batch_update_size=2)
    asked.push(1, 1)
    asked.push(2, 1)
    asked.push(3, 1, version=0)
    assert 3 not in asked.answers
    asked.push(1, 2)
    assert asked.answers[3] == Answer(version=2, staleness=1, samples=40)
    assert asked.answers[1].staleness == 0


def test_a_late_gradient_is_dropped_where_the_config_says_so(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=3, batch_update_size=2, late="drop")
    asked.push(1, 1)
    asked.push(2, 1)
    before = asked.server.state.clone()
    asked.push(3, 1, 100.0, version=0)
    assert asked.answers[3].version == 1
    assert torch.equal(asked.server.state, before)
    assert isinstance(asked.server, _BatchServer)
    assert asked.server.dropped == asked.server.checkpoint()["dropped"] == 1
    again = batch_desk(tmp_path, trainers=3, batch_update_size=2, late="drop").server
    again.restore(asked.server.checkpoint())
    assert again.dropped == 1 and batch_desk(tmp_path, trainers=3, batch_update_size=2).server.dropped is None


def test_the_last_partial_batch_is_flushed_when_the_others_leave(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=3, batch_update_size=3)
    asked.push(1, 1, 4.0)
    asked.leave(2)
    assert 1 not in asked.answers
    asked.leave(3)
    assert asked.answers[1].version == 1
    assert float(asked.weights[1][0]) == -0.5 * 4.0


def test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers(tmp_path: Path) -> None:
    times = 200
    asked = async_desk(tmp_path, trainers=8, learning_rate=1.0)
    torn: list[int] = []

    def hammer(trainer: int) -> None:
        one = torch.ones_like(asked.server.state)
        for step in range(1, times + 1):
            asked.server(Request(trainer, PUSH, step), one, lambda answer, vector: check(vector))

    def check(vector: Tensor | None) -> None:
        assert vector is not None
        copy = vector.clone()[: asked.server.parameters]
        if float(copy.min()) != float(copy.max()):
            torn.append(1)

    threads = [threading.Thread(target=hammer, args=(trainer,)) for trainer in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert set(asked.server.state[: asked.server.parameters].tolist()) == {-8.0 * times}


# ---- asynchronous rules --------------------------------------------------------------------------------------------


def test_equal_trainers_in_turn_have_a_staleness_of_n_minus_1(tmp_path: Path) -> None:
    asked = async_desk(tmp_path, trainers=4)
    for step in range(1, 6):
        for trainer in (1, 2, 3, 4):
            asked.push(trainer, step)
    assert {answer.staleness for answer in asked.answers.values()} == {3}


def test_a_stale_gradient_is_scaled_down(tmp_path: Path) -> None:
    asked = async_desk(tmp_path, trainers=4, rule="staleness_scaled")
    asked.push(1, 1, 1.0)
    asked.push(2, 1, 1.0, version=0)
    assert float(asked.server.state[0]) == -0.5 * (1 + 1 / 2)


def test_a_stale_gradient_leaves_the_momentum_of_earlier_ones_as_it_is(tmp_path: Path) -> None:
    asked = async_desk(tmp_path, trainers=2, rule="staleness_scaled", momentum=0.5)
    asked.push(1, 1, 1.0)
    asked.push(2, 1, 1.0, version=0)
    velocity = 0.5 * 1 + 1 / 2
    assert float(asked.server.state[0]) == -0.5 * (1 + velocity)


@pytest.mark.parametrize("decay", [0.0, 0.95])
def test_delay_compensation_is_the_papers_formula(tmp_path: Path, decay: float) -> None:
    asked = async_desk(tmp_path, trainers=2, rule="delay_compensated", compensation=2.0, compensation_decay=decay)
    asked.fetch(1)
    asked.fetch(2)
    asked.push(1, 1, 1.0)
    asked.push(2, 1, 3.0)
    weight, mean_square = 0.0, 0.0
    for gradient, fetched in ((1.0, 0.0), (3.0, 0.0)):
        mean_square = decay * mean_square + (1 - decay) * gradient**2
        factor = 2.0 / (mean_square + 1e-7) ** 0.5 if decay else 2.0
        weight -= 0.5 * (gradient + factor * gradient**2 * (weight - fetched))
    assert float(asked.server.state[0]) == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_nobody_is_further_ahead_than_the_bound(tmp_path: Path, bound: int) -> None:
    asked = async_desk(tmp_path, trainers=4, staleness_bound=bound)
    draw, steps = random.Random(bound), dict.fromkeys((1, 2, 3, 4), 0)
    for trainer in steps:
        asked.fetch(trainer)
    for _ in range(400):
        free = sorted(asked.answers)
        assert free, "all of them wait for each other"
        trainer = draw.choice(free if draw.random() < 0.3 else free[-1:])
        steps[trainer] += 1
        asked.push(trainer, steps[trainer])
        begun = {each: steps[each] + (each in asked.answers) for each in steps}
        assert max(begun.values()) - min(steps.values()) <= bound + 1
    assert isinstance(asked.server, _AsyncServer)
    assert asked.server.furthest_ahead == bound


def test_a_trainer_that_leaves_frees_those_who_wait_for_it(tmp_path: Path) -> None:
    asked = async_desk(tmp_path, trainers=2, staleness_bound=0)
    asked.push(1, 1)
    assert 1 not in asked.answers
    asked.leave(2)
    assert 1 in asked.answers


# ---- members -------------------------------------------------------------------------------------------------------


def test_a_silent_trainer_fails_a_synchronous_run_and_is_parted_with_by_any_other(tmp_path: Path) -> None:
    needed = batch_desk(tmp_path, trainers=2, batch_update_size=2, timeout_s=60)
    needed.push(1, 1)
    needed.server.members[2].heard_at -= 61
    with pytest.raises(
        RunFailed,
        match=r"trainer2 sent nothing for 60 s \(timeout_s\) after step 0, and no update is possible without it",
    ):
        needed.server.check_members()
    free = async_desk(tmp_path, trainers=2, timeout_s=60)
    free.push(1, 1)
    free.server.members[2].heard_at -= 61
    free.server.check_members()
    assert [member.role for member in free.server.active] == ["trainer1"]
    free.push(2, 1)
    assert [member.role for member in free.server.active] == ["trainer1", "trainer2"]


def test_a_trainer_that_waits_is_never_called_silent(tmp_path: Path) -> None:
    asked = batch_desk(tmp_path, trainers=2, batch_update_size=2, timeout_s=60)
    asked.push(1, 1)
    asked.server.members[1].heard_at -= 100
    asked.server.check_members()
    assert len(asked.server.active) == 2
