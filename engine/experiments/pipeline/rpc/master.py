"""Mode rpc: a master calls the stages, as in PyTorch's tutorial "Distributed Pipeline Parallelism Using RPC".

Roles: `master` splits batches and compares outputs with targets, `stage1…p` compute (stage.py).

The master passes each micro-batch to stage 1 by `remote`, and the returned reference at once to stage 2, which fetches
the activations when they are ready. torch's distributed autograd computes the gradients in all stages, and its
distributed optimizer takes the steps: a plain optimizer in each stage would find no gradient, because distributed
autograd stores them separately.
"""

import gc
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from engine.data.tensors import keep_freed_memory
from engine.errors import PeerLost
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.partition import loss_of
from engine.experiments.pipeline.rpc.stage import OTHER_CALLS, local_stage, serve_stage
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank
from engine.trace.layout import EVERYBODY


def run_rank(
    rank: Rank, config: PipelineConfig, batches: MicroBatches, costs: Tensor, devices: tuple[str, ...]
) -> None:
    """Run the master or one stage for all batches of the run."""
    keep_freed_memory()
    patience_s = 2 * config.timeout_s + 10
    if rank.index > 0:
        serve_stage(rank, config, costs, devices, patience_s)
        return
    if not config.cuts:
        rank.barrier("timed")
    with rpc.joined(rank, patience_s, threads=OTHER_CALLS):
        rank.barrier("served")
        _lead(rank, config, batches)
        rank.barrier("through")  # so that no stage leaves before its error is reported


def _lead(rank: Rank, config: PipelineConfig, batches: MicroBatches) -> None:
    master = Master(rank, config, batches)
    rank.ready()
    for _ in range(config.batches):
        master.train()
        if batches.tests_after(master.batch):
            master.test()
        rank.recorder.summarize("batch", master.batch, config.batches)
    master.end()
    del master
    gc.collect()  # warnings about references left at the end


class Master:
    """Splits batches, sends them through the stages, compares outputs with targets."""

    def __init__(self, rank: Rank, config: PipelineConfig, batches: MicroBatches) -> None:
        self.rank = rank
        self.config = config
        self.batches = batches
        self.device = torch.device("cpu")
        self.images = batches.images(self.device)
        self.targets = batches.targets(self.device)
        self.stages = [rpc.remote(role, local_stage) for role in config.stage_roles]
        parameters = [reference for stage in self.stages for reference in stage.rpc_sync().parameters()]
        self.optimizer = rpc.distributed_sgd(parameters, config.learning_rate, config.momentum)
        self.batch = 0

    def train(self) -> None:
        """Train on the next batch: all forwards, distributed autograd's backward, one distributed step."""
        record = self.rank.recorder
        with rpc.gradients() as context:
            with record.phase("data"):
                images = [next(self.images) for _ in range(self.config.splits)]
                targets = torch.cat([next(self.targets) for _ in range(self.config.splits)])
            with record.phase("wait", "stages", peer=EVERYBODY):
                futures = [self._forward(x, i) for i, x in enumerate(images)]
                outputs = torch.cat([self._wait(future) for future in futures])
            with record.phase("compute"):
                loss = loss_of(outputs, targets, self.config)
            with record.phase("wait", "stages", peer=EVERYBODY):
                rpc.backward(context, loss)
            with record.phase("update"):
                self._update(context)
        self.batch += 1
        record.log({"train/loss": loss.item()}, step=self.batch, passes=self.batches.passes_after(self.batch))
        record.progress(self.batch * self.config.batch_size, self.config.batches * self.config.batch_size)

    def _forward(self, images: Tensor, micro_batch: int) -> Any:
        """Send a micro-batch through all stages; return a future of the output."""
        reference = reduce(
            lambda so_far, stage: stage.remote().forward(so_far, micro_batch),
            self.stages[:-1],
            rpc.reference_to(images),
        )
        return self.stages[-1].rpc_async().forward(reference, micro_batch)

    def _wait(self, future: Any) -> Tensor:
        found: Tensor = rpc.result_of("A stage", future)
        return found.cpu()

    def _update(self, context: int) -> None:
        try:
            self.optimizer.step(context)
            for future in [stage.rpc_async().end_batch() for stage in self.stages]:
                future.wait()
        except RuntimeError as error:
            raise PeerLost(f"A stage failed to update: {str(error).splitlines()[0]}") from error

    def test(self) -> None:
        """Run the test images through the stages and record the score."""
        score = TestScore()
        with self.rank.recorder.phase("evaluate"):
            for some in range(0, len(self.batches.test_parts), self.config.splits):
                parts = self.batches.test_parts[some : some + self.config.splits]
                futures = [self._test_forward(part) for part in parts]
                for part, future in zip(parts, futures, strict=True):
                    score.add(self._wait(future), self.batches.test_labels(part, self.device))
            for stage in self.stages:
                stage.rpc_sync().start_clock()
        self.rank.recorder.log(score.values(), step=self.batch, passes=self.batches.passes_after(self.batch))

    def _test_forward(self, part: slice) -> Any:
        images = rpc.reference_to(self.batches.test_images(part, self.device))
        reference = reduce(lambda so_far, stage: stage.remote().test(so_far), self.stages[:-1], images)
        return self.stages[-1].rpc_async().test(reference)

    def end(self) -> None:
        """Stop all stages."""
        for stage in self.stages:
            stage.rpc_sync().end()
