"""What a run must keep to go on after a round: trainer1 saves it for all, since all lay down in shared memory what they
alone know.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.data.shared_tensors import shared
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.tally import Tally
from engine.experiments.sync_sgd.trainer import Trainer
from engine.runtime.worker.checkpoints import Checkpoints, load_checkpoint
from engine.runtime.worker.ranks import Rank


@dataclass(frozen=True)
class Shelf:
    """Where trainers lay down, two places each: a place is free again once trainer1 has come to the next round's
    average.

    That makes laying down and reading safe without a further meeting: all of round r is there when r's average is, and
    nobody writes to r's places before the average of round r + 1.
    """

    velocity: Tensor
    """[2, N, P] in shared memory."""
    local: Tensor
    """[2, N, P + B] in shared memory: weights that trainers keep from round to round (elastic averaging)."""
    random: Tensor
    """uint8 [2, N, ...] in shared memory: the state that dropout draws from."""

    @classmethod
    def create(cls, config: SyncSgdConfig, state: int, parameters: int) -> "Shelf":
        """Return a shelf with as much room as the config's way to average needs."""
        count = config.trainers if config.checkpoint_every_s else 0
        of_its_own = config.keep_optimizer and not config.steps_together
        return cls(
            shared(torch.zeros(2, count, parameters if of_its_own else 0)),
            shared(torch.zeros(2, count, state if config.sync == "elastic" else 0)),
            shared(torch.zeros(2, count, len(torch.get_rng_state()), dtype=torch.uint8)),
        )


class Keeping:
    """One trainer's side of checkpoints: lays down, and as trainer1 saves."""

    def __init__(self, rank: Rank, trainer: Trainer, shelf: Shelf, tally: Tally) -> None:
        self._rank = rank
        self._trainer = trainer
        self._shelf = shelf
        self._tally = tally
        self._checkpoints = Checkpoints(rank.folder, trainer.config.checkpoint_every_s, rank.recorder.flush)
        self._place = 0
        self._before_s = 0.0
        self.zero = 0.0
        """The moment (monotonic, s) at which all were ready."""
        trainer.lay_down = self._lay_down

    def _lay_down(self) -> None:
        if not self._shelf.velocity.shape[1]:
            return
        self._place = 1 - self._place
        for rows, own in (
            (self._shelf.velocity, self._trainer.optimizer.velocity),
            (self._shelf.local, self._trainer.learner.state),
            (self._shelf.random, _random_state(self._rank.device)),
        ):
            row = rows[self._place, self._rank.index]
            row[: len(own)].copy_(own[: len(row)])

    def save_if_due(self, number: int) -> None:
        """As trainer1, save what stands after round `number`; its time is that of the last trainer's coming, after
        which all is of the next round.
        """
        if self._rank.index or not self._checkpoints.due():
            return
        trainer, time_s = self._trainer, self._before_s + self._trainer.circle.latest_s() - self.zero
        own = (
            trainer.optimizer.velocity.unsqueeze(0)
            if trainer.config.steps_together
            else self._shelf.velocity[self._place]
        )
        state = {"round": number, "center": trainer.center, "velocity": own, "time_s": time_s}
        state |= {name: getattr(self._shelf, name)[self._place].clone() for name in ("local", "random")}
        steps = number * trainer.part.longest
        self._checkpoints.save(state, step=steps, passes=self._tally.passes, time_s=time_s)

    def restore(self) -> int:
        """Go back to where the run that this one goes on from had come to, if it does; return the number of the next
        round.
        """
        if self._rank.resume_from is None:
            return 1
        state, trainer = load_checkpoint(self._rank.resume_from), self._trainer
        number, index = int(state["round"]), self._rank.index
        self._before_s = float(state["time_s"])
        trainer.center.copy_(state["center"])
        trainer.learner.state.copy_(state["local"][index] if trainer.config.sync == "elastic" else trainer.center)
        if trainer.config.keep_optimizer:
            trainer.optimizer.velocity.copy_(state["velocity"][0 if trainer.config.steps_together else index])
        _set_random_state(
            self._rank.device, state["random"][index].clone()
        )  # torch crashes on a view that begins within its storage
        steps = number * trainer.part.steps
        trainer.part.skip(steps)
        self._tally.go_on(steps, trainer.part.samples(steps))
        return number + 1


def _random_state(device: torch.device) -> Tensor:
    """Return the state of the generator that dropout draws from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, row: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(row[: len(torch.cuda.get_rng_state(device))], device)
    else:
        torch.set_rng_state(row)
