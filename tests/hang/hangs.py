"""Ranks that hang, each in one way.

Every function takes the rank that is at fault; with `NOBODY` none is, and the ranks end normally. Here because a rank's
process must be able to import its function.
"""

import ctypes
import os
import resource
import signal
import socket
import time
from datetime import timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from torch.distributed import BroadcastOptions, ProcessGroupGloo

from engine.runtime.transport import rpc
from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Rank
from engine.system.network_isolation import check_listening
from engine.trace.layout import EVERYBODY, NOBODY

HANG_S = 240.0
"""Seconds that a rank hangs at most."""
STEPS, FAULT_STEP, STEP_S = 100, 5, 0.005
CLONE_S = 30
CLONE_VFORK = 0x4000
"""From Linux' sched.h: the caller sleeps, as for a disk, until the new process has ended."""
SPARE_BYTES = 200 * 2**20
_ranks: list[Rank] = []
"""This process's rank, for the calls that it handles."""


def halt(rank: Rank, how: int = 0) -> None:
    """Stop this process by a signal; without one, sleep."""
    if how:
        os.kill(os.getpid(), how)
    time.sleep(HANG_S)


def step(rank: Rank, number: int) -> None:
    """Compute for a moment."""
    with rank.recorder.phase("compute"):
        time.sleep(STEP_S)
    rank.recorder.log({}, step=number)
    rank.recorder.progress(number, STEPS, "steps")
    rank.recorder.summarize("step", number, STEPS)


def never_join(rank: Rank, guilty: int) -> None:
    """One rank sleeps before it is ready."""
    if rank.index == guilty:
        halt(rank)
    rank.ready()
    step(rank, 1)


def return_early(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank is done earlier."""
    rank.ready()
    for number in range(1, STEPS + 1):
        if rank.index == guilty and number == FAULT_STEP:
            return
        step(rank, number)
        rank.barrier("step")


def stop_before_an_average(rank: Rank, guilty: int, collective: Collective, how: int = signal.SIGSTOP) -> None:
    """Average in each step; one rank stops or ends itself, or sleeps, before one of them."""
    with collective.join(rank) as circle:
        rank.ready()
        for number in range(1, STEPS + 1):
            step(rank, number)
            if rank.index == guilty and number == FAULT_STEP:
                with rank.recorder.phase("compute"):
                    halt(rank, how)
            circle.average(torch.ones(collective.size), f"step {number}")


def mix_up_collectives(rank: Rank, guilty: int) -> None:
    """Average, then broadcast, in each step; one rank does it the other way round once."""
    group = plain_group(rank)
    first = BroadcastOptions()
    first.rootRank = 0
    rank.ready()
    for number in range(1, STEPS + 1):
        step(rank, number)
        order = ["average", "broadcast"]
        if rank.index == guilty and number == FAULT_STEP:
            order.reverse()
        for name in order:
            with rank.recorder.operation("collective", name, peer=EVERYBODY, number=number):
                vector = [torch.ones(8)]
                (group.allreduce(vector) if name == "average" else group.broadcast(vector, first)).wait()


def plain_group(rank: Rank) -> Any:
    """Return a group of all ranks of gloo itself, without our checks."""
    check_listening()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = torch.distributed.FileStore(str(rank.folder / "plain"), rank.world)  # type: ignore[attr-defined]
    return ProcessGroupGloo(store, rank.index, rank.world, timedelta(seconds=HANG_S))


def give_another_shape(rank: Rank, guilty: int, collective: Collective) -> None:
    """Average in each step; one rank's vector is longer."""
    _average(rank, guilty, collective, torch.ones(collective.size + 1))


def give_another_type(rank: Rank, guilty: int, collective: Collective) -> None:
    """Average in each step; one rank's vector has numbers of another type."""
    _average(rank, guilty, collective, torch.ones(collective.size, dtype=torch.float64))


def _average(rank: Rank, guilty: int, collective: Collective, wrong: torch.Tensor) -> None:
    with collective.join(rank) as circle:
        rank.ready()
        for number in range(1, STEPS + 1):
            step(rank, number)
            is_wrong = rank.index == guilty and number == FAULT_STEP
            circle.average(wrong if is_wrong else torch.ones(collective.size), f"step {number}")


def have_unequal_batches(rank: Rank, guilty: int, collective: Collective, more: int = -1) -> None:
    """Average in each step; one rank has fewer or more steps than the others."""
    with collective.join(rank) as circle:
        rank.ready()
        for number in range(1, FAULT_STEP + 1 + (more if rank.index == guilty else 0)):
            step(rank, number)
            circle.average(torch.ones(collective.size), f"step {number}")
        rank.barrier("trained")


def call_within_a_call(rank: Rank, guilty: int) -> None:
    """The first rank calls the second one, which calls the third one before it answers; with one thread for calls it
    waits for itself.
    """
    with rpc.joined(rank, HANG_S, threads=2 if guilty == NOBODY else 1):
        _ranks.append(rank)
        rank.ready()
        step(rank, 1)
        if rank.index == 0:
            with rank.recorder.operation("rpc", "outer", peer=1, number=1):
                rpc.call("trainer2", _outer)
        rank.barrier("answered")


def _outer() -> None:
    record = _ranks[0].recorder
    with (
        record.operation("serve", "outer", peer=0, number=1),
        record.operation("rpc", "inner", peer=2, number=1),
    ):
        rpc.call("trainer3", _inner)


def _inner() -> None:
    with _ranks[0].recorder.operation("serve", "inner", peer=1, number=1):
        pass


def keep_a_lock(rank: Rank, guilty: int) -> None:
    """One rank keeps the lock that the others need, and sleeps."""
    lock = rank.lock("weights")
    rank.ready()
    for number in range(1, STEPS + 1):
        step(rank, number)
        with lock:
            if rank.index == guilty and number == FAULT_STEP:
                halt(rank)


def fill_a_queue(rank: Rank, guilty: int, queue: "Queue[int]") -> None:
    """All ranks but one put items into a queue; the one that takes them sleeps after a few."""
    rank.ready()
    reader = max(guilty, 0)
    if rank.index != reader:
        for number in range(1, STEPS + 1):
            step(rank, number)
            with rank.recorder.phase("wait", "put", peer=reader, number=number):
                queue.put(number)
        return
    for number in range(1, STEPS * (rank.world - 1) + 1):
        if rank.index == guilty and number > FAULT_STEP:
            halt(rank)
        with rank.recorder.phase("wait", "batch", peer=EVERYBODY):
            queue.get()


def wait_for_a_disk(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank's process waits in the kernel, as for a disk that doesn't answer.

    No disk is needed: a process that has cloned itself with CLONE_VFORK waits in the same state, from which it can be
    killed. Its clone outlives it by `CLONE_S` at most; between two clones, when it may wait for a core, it is not in
    that state.
    """
    rank.ready()
    for number in range(1, STEPS + 1):
        step(rank, number)
        if rank.index == guilty and number == FAULT_STEP:
            library, stack = ctypes.CDLL(None), ctypes.create_string_buffer(2**16)
            top = ctypes.c_void_p((ctypes.addressof(stack) + 2**16) & ~15)
            for _ in range(int(HANG_S / CLONE_S)):
                whole = ctypes.c_void_p(CLONE_S)
                os.waitpid(library.clone(library.sleep, top, CLONE_VFORK | signal.SIGCHLD, whole), 0)
        rank.barrier("step")


def run_out_of_memory(rank: Rank, guilty: int) -> None:
    """All meet at a barrier in each step; one rank may have no more than 200 MB beyond what it has, and takes more."""
    rank.ready()
    kept: list[torch.Tensor] = []
    for number in range(1, STEPS + 1):
        step(rank, number)
        if rank.index == guilty and number == FAULT_STEP:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE_BYTES,) * 2)
            kept += [torch.zeros(SPARE_BYTES // 16) for _ in range(64)]
        rank.barrier("step")


def try_a_wrong_port(rank: Rank, guilty: int) -> None:
    """The first rank listens, the others connect to it; one of them tries another port, again and again."""
    store = torch.distributed.FileStore(str(rank.folder / "ports"), rank.world)  # type: ignore[attr-defined]
    if rank.index == 0:
        check_listening()
        with socket.create_server(("127.0.0.1", 0)) as server:
            store.set("port", str(server.getsockname()[1]))
            rank.ready()
        return
    port = int(store.get("port")) + (1 if rank.index == guilty else 0)
    with rank.recorder.operation("communicate", f"connect to 127.0.0.1:{port}"):
        connect(port)
    rank.ready()


def connect(port: int) -> None:
    """Connect to a port of this machine, trying again until a process listens there."""
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"No process listened on port {port} for {HANG_S:.0f} s.")
