"""Each worker repeats x <- x + rate * (1 - x). What of the lab it can see is an event of the run."""

import time

import torch

from engine.plugin import Checkpoints, Rank, Ranks, load_checkpoint, shared

from .config import GossipConfig


def run(config: GossipConfig, ranks: Ranks) -> None:
    """Run the hub and the workers."""
    ranks.run(_take_part, config, shared(torch.zeros(config.workers)))


def _take_part(rank: Rank, config: GossipConfig, numbers: torch.Tensor) -> None:
    checkpoints = Checkpoints(rank, config.checkpoint_every_s)
    first = int(load_checkpoint(rank.resume_from)["step"]) if rank.resume_from else 0
    began = time.monotonic()
    rank.ready()
    if rank.role == "hub":
        home = rank.folder.parents[1]
        rank.say("seen", ", ".join(sorted(path.name for path in home.iterdir())))
    for step in range(first + 1, config.steps + 1) if rank.role != "hub" else ():
        with rank.recorder.phase("compute"):
            time.sleep(config.sleep_s)
            numbers[rank.index - 1] += config.rate * (1 - numbers[rank.index - 1])
        rank.recorder.log({"train/loss": 1 - float(numbers[rank.index - 1])}, step=step)
        rank.recorder.progress(step, config.steps, "steps")
        if rank.index == 1 and checkpoints.due():
            time_s = rank.time_before_s + time.monotonic() - began
            checkpoints.save({"step": step}, step=step, passes=0.0, time_s=time_s, steps={1: step})
    rank.barrier("done")
