"""The checkpoint after a round: all trainers store their own state in shared memory, and trainer1 saves it."""

import torch
from torch import Tensor

from engine.experiments.sync_sgd.trainer import CheckpointBuffers, SyncTrainer
from engine.runtime.worker.checkpoints import Checkpoints, load_checkpoint
from engine.runtime.worker.ranks import Rank


class RoundCheckpoint:
    """One trainer's side of checkpoints: stores its own state, and as trainer1 saves that of all."""

    def __init__(self, rank: Rank, trainer: SyncTrainer, buffers: CheckpointBuffers) -> None:
        self._rank = rank
        self._trainer = trainer
        self._buffers = buffers
        self._checkpoints = Checkpoints(rank, trainer.config.checkpoint_every_s)
        self._place = 0
        self.started_at = 0.0
        """The time (monotonic, s) at which all ranks were ready."""
        trainer.store_own_state = self._store_own_state

    def _store_own_state(self) -> None:
        if not self._buffers.velocity.shape[1]:
            return
        self._place = 1 - self._place
        for rows, own in (
            (self._buffers.velocity, self._trainer.optimizer.velocity),
            (self._buffers.local, self._trainer.net.state),
            (self._buffers.random, _random_state(self._rank.device)),
        ):
            row = rows[self._place, self._rank.index]
            row[: len(own)].copy_(own[: len(row)])

    def save_if_due(self, number: int) -> None:
        """As trainer1, save the state after round `number`; its time is the last trainer's arrival, after which the
        next round begins.
        """
        if self._rank.index or not self._checkpoints.due():
            return
        trainer, time_s = self._trainer, self._rank.time_before_s + self._trainer.circle.latest_s() - self.started_at
        own = (
            trainer.optimizer.velocity.unsqueeze(0)
            if trainer.config.steps_together
            else self._buffers.velocity[self._place]
        )
        state = {"round": number, "center": trainer.global_state, "velocity": own}
        state |= {name: getattr(self._buffers, name)[self._place].clone() for name in ("local", "random")}
        state["random_of"] = self._rank.device.type
        steps = {index: number * count for index, count in enumerate(trainer.part.steps_of_all)}
        passes = trainer.part.samples_of_all(number) / trainer.data.size  # others may be in the next round already
        self._checkpoints.save(state, step=max(steps.values()), passes=passes, time_s=time_s, steps=steps)

    def restore(self) -> int:
        """Restore the checkpoint that this run resumes, if any; return the number of the next round."""
        if self._rank.resume_from is None:
            return 1
        state, trainer = load_checkpoint(self._rank.resume_from), self._trainer
        number, index = int(state["round"]), self._rank.index
        trainer.global_state.copy_(state["center"])
        trainer.net.state.copy_(state["local"][index] if trainer.config.sync == "elastic" else trainer.global_state)
        if trainer.config.keep_optimizer:
            trainer.optimizer.velocity.copy_(state["velocity"][0 if trainer.config.steps_together else index])
        if state.get("random_of", "cpu") == self._rank.device.type:  # else the state is of another kind of generator
            # a clone: torch crashes on a view that begins within its storage
            _set_random_state(self._rank.device, state["random"][index].clone())
        steps = number * trainer.part.steps
        trainer.part.skip(steps)
        trainer.log.resume(steps, trainer.part.samples(steps))
        return number + 1


def _random_state(device: torch.device) -> Tensor:
    """Return the state of the generator that dropout draws from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, row: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(row[: len(torch.cuda.get_rng_state(device))], device)
    else:
        torch.set_rng_state(row)
