"""Fully sharded data parallel training: N trainers step together, each holds a part of the model's state (Rajbhandari
et al. 2020, ZeRO; Zhao et al. 2023, PyTorch FSDP).

Roles: `trainer1…N`, all alike. With stage `full`, each step of trainer i is

    for each block b, first to last:    x_b <- gather all parts of b,   compute forward,   free x_b
    for each block b, last to first:    x_b <- gather all parts of b,   compute g_b,       free x_b
                                        g_b[i] <- part i of the mean of g_b over all trainers,   free g_b
    x[i] <- optimizer(x[i], g[i])

    x[i], g[i]: part i of parameters and gradients, the only ones that trainer i keeps; so of the optimizer's state

Stage `sharded` (ZeRO-2) keeps x_b from forward to backward, so it gathers once. Stage `ddp` keeps all state in each
trainer, and averages g by an all-reduce. All three make the steps of one process with the mini-batches of all trainers.
"""

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.optim import SGD, AdamW, Optimizer

from engine.experiments.fsdp.collectives import TrainerLinks
from engine.experiments.fsdp.config import FsdpConfig
from engine.plugin import (
    DROPOUT,
    ORDER,
    AveragingGroup,
    Batches,
    Collective,
    DeviceError,
    ImageSet,
    Rank,
    Ranks,
    Score,
    StepLog,
    evaluate,
    keep_freed_memory,
    load,
    seed_of,
    usable,
)


def run(config: FsdpConfig, ranks: Ranks) -> None:
    """Share the data, train in one rank per trainer; return when all have finished."""
    devices = [usable(config.device, device) for device in ranks.devices]
    if devices[0].type == "cuda" and len(set(devices)) < len(devices):
        raise DeviceError(
            f"fsdp needs a GPU per trainer (NCCL), but the run has {len(set(devices))} for {config.trainers} trainers. "
            "Lower trainers, or choose device cpu."
        )
    if config.offload and devices[0].type == "cpu":
        raise DeviceError("offload moves state from GPUs to CPU memory, but the run has no GPU. Turn it off.")
    collective = Collective.create("torch", 3, config.roles, config.timeout_s)
    ranks.run(_train, config, load(config.dataset), collective, StepLog.shared_counters(config.trainers))


def _train(rank: Rank, config: FsdpConfig, data: ImageSet, collective: Collective, counters: Tensor) -> None:
    """Run as one trainer."""
    keep_freed_memory()
    size = config.epochs * config.steps_per_epoch * config.batch_size
    advice = f"its weights have diverged. Lower learning_rate ({config.learning_rate})."
    log = StepLog(rank, counters, pass_size=data.size, total=size, advice=advice)
    data = data.to(rank.device)
    batches = Batches(data.train_images, data.train_labels, config.global_batch, seed_of(config.seed, ORDER))
    own = slice(rank.index * config.batch_size, (rank.index + 1) * config.batch_size)
    with collective.join(rank) as group:
        trainer = _Trainer(rank, config, group)
        torch.manual_seed(rank.seed_of(DROPOUT))  # dropout's stream starts here, regardless of set-up
        rank.ready()
        for epoch in range(1, config.epochs + 1):
            for _, positions in zip(range(config.steps_per_epoch), batches.epoch(), strict=False):
                with rank.recorder.phase("data"):
                    images, labels = batches.take(positions[own])
                loss, measured = trainer.step(images, labels, log.passes)
                log.log_step(loss, len(labels), measured)
            if config.tests_after(epoch):
                with rank.recorder.phase("evaluate"):
                    score = trainer.test(data)
                if rank.index == 0:
                    log.log_score(score)
            rank.recorder.summarize("epoch", epoch, config.epochs)


class _Trainer:
    """One trainer's net and optimizer."""

    def __init__(self, rank: Rank, config: FsdpConfig, group: AveragingGroup) -> None:
        from engine.experiments.fsdp.memory import MemoryMeter  # with torch's FSDP, which takes a second to import
        from engine.experiments.fsdp.sharded_net import shared_out

        self.rank, self.config, self.group = rank, config, group
        self.links = TrainerLinks(rank, group)
        self.net, self.blocks = shared_out(rank, config, self.links)
        self.parameters = list(self.net.parameters())
        self.optimizer: Optimizer = (
            AdamW(self.parameters, config.learning_rate, weight_decay=config.weight_decay, fused=True)
            if config.optimizer == "adamw"
            else SGD(self.parameters, config.learning_rate, config.momentum, foreach=True)
        )
        self.meter = MemoryMeter(rank, self.blocks, self.optimizer, self.links)
        self.steps = 0

    def step(self, images: Tensor, labels: Tensor, passes: float) -> tuple[float, dict[str, float]]:
        """Make one step on the trainer's own mini-batch; return its loss, and other measurements."""
        self.steps += 1
        record, sent = self.rank.recorder, self.links.sent
        self.links.what = f"step {self.steps}"
        is_ddp, is_measured = self.config.stage == "ddp", self.config.measures(self.steps)
        # in the second forward DDP has all trainers agree on the order of gradients
        order = self.group.meeting(self.links.what, "agreement") if is_ddp and self.steps == 2 else nullcontext()
        with self.meter.step(self.steps, passes) if is_measured else nullcontext():
            with record.phase("compute", "forward"), order:
                loss = nll_loss(self.net(images), labels)
            average = self.links.all_reduce(self.parameters) if is_ddp else nullcontext()
            with record.phase("compute", "backward"), average:
                loss.backward()  # type: ignore[no-untyped-call]
                value = loss.item()
            self.meter.moment()
            with record.phase("update"):
                self.optimizer.step()
                self.meter.moment()
                self.optimizer.zero_grad()
        return value, {"perf/sent_per_step": (self.links.sent - sent) / 1e6} if is_measured else {}

    def test(self, data: ImageSet) -> Score:
        """Return the score on the test set: each trainer tests an equal part, and all test what is left."""
        self.links.what = f"the test after step {self.steps}"
        part = len(data.test_labels) // self.rank.world
        own = slice(self.rank.index * part, (self.rank.index + 1) * part)
        sums, left = torch.zeros(3, device=self.rank.device), slice(part * self.rank.world, None)
        for some, testers in ((own, 1), (left, self.rank.world)):
            if len(labels := data.test_labels[some]):
                score = evaluate(self.net, data.test_images[some], labels)
                sums += torch.tensor((score.loss, score.accuracy, 1.0), device=sums.device) * len(labels) / testers
        for block in self.blocks if self.config.stage == "sharded" else ():  # it keeps parameters for a backward
            block.reshard()  # type: ignore[operator]
        self.group.average(sums, self.links.what)
        loss, accuracy, count = sums.tolist()
        return Score(loss / count, accuracy / count, is_text=data.test_labels.dim() == 2)
