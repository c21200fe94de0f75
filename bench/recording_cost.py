"""What recording one point a step costs a rank: CPU time of the recorder's calls and its thread, against a real
training step.

Both sides run in one process in turn; a second process reads the rank's channel, as the worker does. Run: python -m
bench.recording_cost
"""

import argparse
import multiprocessing as mp
import time
from multiprocessing.connection import Connection
from typing import Any

import torch

from bench.measuring import alternate, ratio, save
from engine.data.nets import mnist_net
from engine.runtime.rank.channel_recorder import ChannelRecorder

STEPS = 400


def drain(channel: Connection) -> None:
    """Read a channel to its end, as the worker does."""
    try:
        while True:
            channel.recv()
    except EOFError:
        return


def recorder_calls(recorder: ChannelRecorder, step: int, loss: float) -> None:
    """Do what a Hogwild! step asks of its recorder."""
    with recorder.phase("data"):
        pass
    with recorder.phase("compute"):
        pass
    with recorder.phase("update"):
        pass
    recorder.log({"train/loss": loss}, step=step, passes=step / STEPS)
    recorder.progress(step, STEPS)


def training_step_us() -> float:
    """Return the CPU microseconds of one training step of the MNIST net, batch 64, one thread."""
    torch.set_num_threads(1)
    net = mnist_net(0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    start = time.process_time()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(net(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
    return (time.process_time() - start) / STEPS * 1e6


def recording_us() -> float:
    """Return the CPU microseconds of recording one step at the pace of training (6 ms a step), its thread's
    included.
    """
    ours, theirs = mp.Pipe()
    reader = mp.get_context("spawn").Process(target=drain, args=(theirs,))
    reader.start()
    theirs.close()
    recorder = ChannelRecorder(ours.send)
    recorder.start(time.monotonic())
    start = time.process_time()
    for step in range(STEPS):
        recorder_calls(recorder, step, 0.5)
        time.sleep(0.006)
    recorder.close()
    spent = time.process_time() - start - idle_us() * STEPS / 1e6
    ours.close()
    reader.join()
    return spent / STEPS * 1e6


def idle_us() -> float:
    """Return the CPU microseconds of the sleep itself."""
    start = time.process_time()
    for _ in range(STEPS):
        time.sleep(0.006)
    return (time.process_time() - start) / STEPS * 1e6


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    figures: dict[str, Any] = dict(
        alternate(options.parse_args().rounds, recording=recording_us, training_step=training_step_us)
    )
    save(
        "recording_cost",
        {"microseconds_per_step": figures, "share_of_a_step": ratio(figures["recording"], figures["training_step"])},
    )


if __name__ == "__main__":
    main()
