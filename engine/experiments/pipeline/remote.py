"""Mode rpc: a master asks the stages by remote calls, as the tutorial of RPC pipelines does, and here the weights move.

The master hands each micro-batch to stage 1 by `remote`, and the reference it gets at once to stage 2, which fetches
the activations when they are there. torch's distributed autograd computes the gradients in all stages, its distributed
optimizer takes the steps: a plain optimizer in each stage would find no gradient, since distributed autograd keeps them
apart.
"""

import gc
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from engine.data.allocator import keep_freed_memory
from engine.errors import PeerLost
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.feed import Feed, Score
from engine.experiments.pipeline.served import OTHER_CALLS, place, serve
from engine.experiments.pipeline.stage import loss_of
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank


def take_part(rank: Rank, config: PipelineConfig, feed: Feed, costs: Tensor, devices: tuple[str, ...]) -> None:
    """Be the master or a stage, until all batches are trained on."""
    keep_freed_memory()
    patience_s = 2 * config.timeout_s + 10
    if rank.index > 0:
        serve(rank, config, costs, devices, patience_s)
        return
    if not config.cuts:
        rank.barrier("timed")
    with rpc.joined(rank, patience_s, threads=OTHER_CALLS):
        rank.barrier("served")
        _lead(rank, config, feed)
        rank.barrier("through")  # so that no stage leaves before it is heard


def _lead(rank: Rank, config: PipelineConfig, feed: Feed) -> None:
    master = Master(rank, config, feed)
    rank.ready()
    for _ in range(config.batches):
        master.train()
        if feed.tests_after(master.batch):
            master.test()
    master.end()
    del master
    gc.collect()  # references left at the end are called leaks


class Master:
    """Cuts batches, asks the stages, compares what comes out."""

    def __init__(self, rank: Rank, config: PipelineConfig, feed: Feed) -> None:
        self.rank = rank
        self.config = config
        self.feed = feed
        self.device = torch.device("cpu")
        self.images = feed.images(self.device)
        self.targets = feed.targets(self.device)
        self.places = [rpc.remote(role, place) for role in config.stage_roles]
        parameters = [reference for stage in self.places for reference in stage.rpc_sync().parameters()]
        self.optimizer = rpc.distributed_sgd(parameters, config.learning_rate, config.momentum)
        self.batch = 0

    def train(self) -> None:
        """Train on the next batch."""
        record = self.rank.recorder
        with rpc.gradients() as number:
            with record.phase("data"):
                images = [next(self.images) for _ in range(self.config.splits)]
                targets = torch.cat([next(self.targets) for _ in range(self.config.splits)])
            with record.phase("wait"):
                outputs = torch.cat(
                    [self._wait(future) for future in [self._ask(part, place) for place, part in enumerate(images)]]
                )
            with record.phase("compute"):
                loss = loss_of(outputs, targets, self.config)
            with record.phase("wait"):
                rpc.backward(number, loss)
            with record.phase("update"):
                self._step(number)
        self.batch += 1
        passes = None if self.feed.passes is None else self.batch * self.feed.passes
        record.log({"train/loss": loss.item()}, step=self.batch, passes=passes)
        record.progress(self.batch * self.config.batch_size, self.config.batches * self.config.batch_size)

    def _ask(self, images: Tensor, micro_batch: int) -> Any:
        """Send a micro-batch through all stages; return a future of what comes out."""
        reference = reduce(
            lambda so_far, place: place.remote().forward(so_far, micro_batch),
            self.places[:-1],
            rpc.reference_to(images),
        )
        return self.places[-1].rpc_async().forward(reference, micro_batch)

    def _wait(self, future: Any) -> Tensor:
        found: Tensor = rpc.result_of("A stage", future)
        return found.cpu()

    def _step(self, number: int) -> None:
        try:
            self.optimizer.step(number)
            for future in [place.rpc_async().updated() for place in self.places]:
                future.wait()
        except RuntimeError as error:
            raise PeerLost(f"A stage did not update: {str(error).splitlines()[0]}") from error

    def test(self) -> None:
        """Put the test images through the stages; record how they did."""
        score = Score()
        with self.rank.recorder.phase("evaluate"):
            for some in range(0, len(self.feed.test_parts), self.config.splits):
                parts = self.feed.test_parts[some : some + self.config.splits]
                futures = [self._ask_test(part) for part in parts]
                for part, future in zip(parts, futures, strict=True):
                    score.add(self._wait(future), self.feed.test_labels(part, self.device))
            for stage in self.places:
                stage.rpc_sync().begin()
        passes = None if self.feed.passes is None else self.batch * self.feed.passes
        self.rank.recorder.log(score.values(), step=self.batch, passes=passes)

    def _ask_test(self, part: slice) -> Any:
        images = rpc.reference_to(self.feed.test_images(part, self.device))
        reference = reduce(lambda so_far, place: place.remote().test(so_far), self.places[:-1], images)
        return self.places[-1].rpc_async().test(reference)

    def end(self) -> None:
        """Let all stages end."""
        for stage in self.places:
            stage.rpc_sync().end()
