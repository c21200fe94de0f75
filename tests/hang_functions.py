"""What ranks do that hang, each in its own way; here because a rank's process must be able to import its function."""

import ctypes
import os
import signal
import threading
import time

import torch

from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Rank
from engine.trace.layout import EVERYBODY
from tests.waiting import PATIENCE_S

FREE_STEPS = 5
"""Steps that all ranks make before one hangs."""


def step(rank: Rank, number: int) -> None:
    with rank.recorder.phase("compute"):
        time.sleep(0.005)
    rank.recorder.log({"train/loss": 1.0}, step=number)


def stop_before_an_average(rank: Rank, guilty: int, how: int, collective: Collective) -> None:
    """Average in each step; one rank stops or ends itself, or sleeps, before one of them."""
    with collective.join(rank) as circle:
        rank.ready()
        for number in range(1, 10_000):
            step(rank, number)
            if rank.index == guilty and number == FREE_STEPS:
                with rank.recorder.phase("data"):
                    halt(how)
            circle.average(torch.ones(collective.size), f"step {number}")


def halt(how: int) -> None:
    """Stop this process by a signal; without one, sleep."""
    if how:
        os.kill(os.getpid(), how)
    time.sleep(PATIENCE_S)


def free_running(rank: Rank, guilty: int, how: int) -> None:
    """Make steps without exchange; one rank stops."""
    rank.ready()
    for number in range(1, 10_000_000):
        step(rank, number)
        if rank.index == guilty and number == FREE_STEPS:
            halt(how)


def leave_the_loop_early(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank makes fewer steps and waits at the last barrier."""
    rank.ready()
    for number in range(1, 10_000):
        if rank.index == guilty and number == FREE_STEPS:
            break
        step(rank, number)
        rank.barrier("step")
    rank.barrier("trained")


def wait_for_each_other(rank: Rank) -> None:
    """Each waits for a message of the next one, which sends none."""
    rank.ready()
    step(rank, 1)
    with rank.recorder.phase("wait", "activations", peer=(rank.index + 1) % rank.world, number=1):
        threading.Event().wait(PATIENCE_S)


def keep_a_lock(rank: Rank, guilty: int) -> None:
    """One rank keeps the lock that the others need, and sleeps."""
    lock = rank.lock("weights")
    rank.ready()
    for number in range(1, 10_000):
        step(rank, number)
        with lock:
            if rank.index == guilty and number == FREE_STEPS:
                time.sleep(PATIENCE_S)


def never_join(rank: Rank, guilty: int) -> None:
    """One rank sleeps before it is ready."""
    if rank.index == guilty:
        time.sleep(PATIENCE_S)
    rank.ready()


def work_long(rank: Rank, seconds: float) -> None:
    """The first rank computes for that long while all others wait for it."""
    rank.ready()
    step(rank, 1)
    if rank.index == 0:
        end = time.monotonic() + seconds
        with rank.recorder.phase("evaluate"):
            while time.monotonic() < end:
                sum(range(1_000))
    rank.barrier("tested")


def be_slow(rank: Rank, slow: int, factor: float, steps: int) -> None:
    """Meet at a barrier in each step; one rank takes `factor` times as long for its own."""
    rank.ready()
    for number in range(1, steps + 1):
        with rank.recorder.phase("compute"):
            time.sleep(0.005 * (factor if rank.index == slow else 1.0))
        rank.recorder.log({"train/loss": 1.0}, step=number)
        with rank.recorder.operation("barrier", "step", peer=EVERYBODY, number=number):
            rank.meet(f"step {number}")


def stop_for_a_while(rank: Rank, seconds: float) -> None:
    """The first rank is stopped and continued by a child of its own."""
    rank.ready()
    step(rank, 1)
    if rank.index == 0:
        if os.fork() == 0:
            time.sleep(seconds)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP)
    rank.barrier("continued")


def keep_the_interpreter_lock(rank: Rank, guilty: int) -> None:
    """One rank sleeps in C code that keeps Python's interpreter lock, so that none of its threads runs."""
    rank.ready()
    step(rank, 1)
    if rank.index == guilty:
        library = ctypes.PyDLL(None)
        with rank.recorder.phase("compute"):
            for _ in range(100):  # a signal ends one sleep
                library.sleep(int(PATIENCE_S))
    rank.barrier("awake")
