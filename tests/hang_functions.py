"""What ranks do that hang, each in its own way; here because a rank's process must be able to import its function."""

import ctypes
import os
import signal
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import BroadcastOptions, ProcessGroupGloo

from engine.runtime.transport import rpc_group
from engine.runtime.transport.allreduce import Collective
from engine.runtime.transport.rendezvous import store_of
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.trace.layout import EVERYBODY
from tests.waiting import PATIENCE_S

HANG_S = 240.0
"""Seconds that a rank hangs at most."""
FREE_STEPS = 5
"""Steps that all ranks make before one hangs."""
_ranks: list[Rank] = []
"""This process's rank, for calls that it handles."""


def fault_file(folder: Path) -> Path:
    """Return the file that holds the time (monotonic, s) at which a rank began to hang."""
    return folder / "fault"


def begin_to_hang(rank: Rank) -> None:
    """Write down the time."""
    fault_file(rank.folder).write_text(str(time.monotonic()))


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
                    halt(rank, how)
            circle.average(torch.ones(collective.size), f"step {number}")


def halt(rank: Rank, how: int) -> None:
    """Stop this process by a signal; without one, sleep."""
    begin_to_hang(rank)
    if how:
        os.kill(os.getpid(), how)
    time.sleep(HANG_S)


def free_running(rank: Rank, guilty: int, how: int) -> None:
    """Make steps without exchange; one rank stops."""
    rank.ready()
    for number in range(1, 10_000_000):
        step(rank, number)
        if rank.index == guilty and number == FREE_STEPS:
            halt(rank, how)


def push_to_a_server(rank: Rank, guilty: int, how: int, exchange: Exchange) -> None:
    """The first rank answers the pushes of the others, at once; one rank stops, or sleeps while it handles a push."""
    if rank.index > 0:
        with exchange.connect(rank) as line:
            rank.ready()
            for number in range(1, 100_000):
                step(rank, number)
                if rank.index == guilty and number == FREE_STEPS:
                    halt(rank, how)
                with rank.recorder.phase("communicate", "push", peer=0, number=number):
                    line.ask(Request(rank.index, 0, number))
        return
    pushed = threading.Event()

    def answer(request: Request, vector: Tensor | None, respond: Respond) -> None:
        if guilty == 0 and request.step == FREE_STEPS:
            if how == 0:
                halt(rank, 0)
            pushed.set()
        respond(Answer(), vector)

    with exchange.serve(rank, answer):
        rank.ready()
        while True:
            with rank.recorder.phase("wait", "requests", peer=EVERYBODY):
                if pushed.wait(0.05):
                    halt(rank, how)


def leave_the_loop_early(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank makes fewer steps and waits at the last barrier."""
    rank.ready()
    for number in range(1, 10_000):
        if rank.index == guilty and number == FREE_STEPS:
            begin_to_hang(rank)
            break
        step(rank, number)
        rank.barrier("step")
    rank.barrier("trained")


def have_unequal_batches(rank: Rank, guilty: int, more: int, collective: Collective) -> None:
    """Average in each step; one rank has fewer or more steps than the others."""
    with collective.join(rank) as circle:
        rank.ready()
        for number in range(1, FREE_STEPS + 1 + (more if rank.index == guilty else 0)):
            step(rank, number)
            circle.average(torch.ones(collective.size), f"step {number}")
        begin_to_hang(rank)
        rank.barrier("trained")


def return_early(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank is done earlier."""
    rank.ready()
    for number in range(1, 10_000):
        if rank.index == guilty and number == FREE_STEPS:
            begin_to_hang(rank)
            return
        step(rank, number)
        rank.barrier("step")


def mix_up_collectives(rank: Rank, guilty: int) -> None:
    """Average, then broadcast, in each step; one rank does it the other way round once."""
    group = _plain_group(rank)
    first = BroadcastOptions()
    first.rootRank = 0
    rank.ready()
    for number in range(1, 10_000):
        step(rank, number)
        order = ["average", "broadcast"]
        if rank.index == guilty and number == FREE_STEPS:
            begin_to_hang(rank)
            order.reverse()
        for name in order:
            with rank.recorder.operation("collective", name, peer=EVERYBODY, number=number):
                vector = [torch.ones(8)]
                (group.allreduce(vector) if name == "average" else group.broadcast(vector, first)).wait()


def give_another_shape(rank: Rank, guilty: int, collective: Collective | None) -> None:
    """Average in each step; one rank's vector is longer. Without a `Collective`, by gloo itself, which ends another
    rank's process for it.
    """
    with collective.join(rank) if collective else nullcontext() as circle:
        group: Any = None if circle else _plain_group(rank)
        rank.ready()
        for number in range(1, 10_000):
            step(rank, number)
            vector = torch.ones(8)
            if rank.index == guilty and number == FREE_STEPS:
                begin_to_hang(rank)
                vector = torch.ones(9)
            if circle:
                circle.average(vector, f"step {number}")
            else:
                with rank.recorder.operation("collective", "average", peer=EVERYBODY, number=number):
                    group.allreduce([vector]).wait()


def _plain_group(rank: Rank) -> Any:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store: Any = store_of(rank, "plain")
    return ProcessGroupGloo(store, rank.index, rank.world, timedelta(seconds=HANG_S))


def wait_for_each_other(rank: Rank) -> None:
    """Each waits for a message of the next one, which sends none."""
    rank.ready()
    step(rank, 1)
    begin_to_hang(rank)
    with rank.recorder.phase("wait", "activations", peer=(rank.index + 1) % rank.world, number=1):
        threading.Event().wait(HANG_S)


def keep_a_lock(rank: Rank, guilty: int) -> None:
    """One rank keeps the lock that the others need, and sleeps."""
    lock = rank.lock("weights")
    rank.ready()
    for number in range(1, 10_000):
        step(rank, number)
        with lock:
            if rank.index == guilty and number == FREE_STEPS:
                halt(rank, 0)


def fill_a_queue(rank: Rank, reader: int, queue: "Queue[int]") -> None:
    """All ranks but one put items into a queue; that one takes some and then sleeps."""
    rank.ready()
    for number in range(1, 10_000):
        step(rank, number)
        if rank.index != reader:
            with rank.recorder.phase("wait", "put", peer=reader, number=number):
                queue.put(number)
        elif number <= FREE_STEPS:
            with rank.recorder.phase("wait", "batch", peer=EVERYBODY):
                queue.get()
        else:
            halt(rank, 0)


def call_within_a_call(rank: Rank) -> None:
    """The first rank calls the second one, whose only thread for calls calls the third one and waits for it."""
    with rpc_group.joined(rank, HANG_S, threads=1):
        _ranks.append(rank)
        rank.ready()
        step(rank, 1)
        if rank.index == 0:
            begin_to_hang(rank)
            with rank.recorder.operation("rpc", "outer", peer=1, number=1):
                rpc_group.call("trainer2", _outer)
        rank.barrier("answered")


def _outer() -> None:
    record = _ranks[0].recorder
    with (
        record.operation("serve", "outer", peer=0, number=1),
        record.operation("rpc", "inner", peer=2, number=1),
    ):
        rpc_group.call("trainer3", _inner)


def _inner() -> None:
    with _ranks[0].recorder.operation("serve", "inner", peer=1, number=1):
        pass


def never_join(rank: Rank, guilty: int) -> None:
    """One rank sleeps before it is ready."""
    if rank.index == guilty:
        halt(rank, 0)
    rank.ready()


def never_join_the_group(rank: Rank, guilty: int, collective: Collective) -> None:
    """One rank sleeps before it connects to the others."""
    if rank.index == guilty:
        rank.barrier("here")
        halt(rank, 0)
    with collective.join(rank):
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
