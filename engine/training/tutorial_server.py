"""The server as the published code builds it: the whole module is sent to every trainer each round, gradients as a list
of tensors.

Kept to measure its cost against the engine variant. Fixed: gradients are added under the lock, to buffers of their own
(zero_grad leaves none since torch 2.0); where updates can overlap with a reply, the reply is a copy of the module,
since RPC sends from its memory after the handler has returned; each trainer loads its own data; a trainer reports when
it has no mini-batch left, dead and silent ones are dropped after timeout_s, and a batch never waits for more gradients
than there are trainers. Batch-norm's statistics stay the server's first ones, as published.
"""

import copy
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.optim import SGD
from torch.utils.data import DataLoader, Subset

from engine.data.pil_images import PilImages, evaluate_one_by_one, timed
from engine.data.sets import PixelSet, read
from engine.runtime.transport.request_reply import Disconnects
from engine.runtime.transport.rpc import answered_later, call, joined
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.server import Membership
from engine.training.settings import ServerConfig
from engine.training.step_log import Faults
from engine.training.workload import PartitionedData, Rounds, Workload, partition

_server: list["ModuleServer"] = []
"""The server of this process, if any."""


class ModuleServer(Membership):
    """A module, its optimizer, and the future that everyone in the current batch waits for."""

    def __init__(self, rank: Rank, config: ServerConfig, workload: Workload, batch: int) -> None:
        super().__init__(rank, config, workload)
        net = workload.net(config.seed)
        self.model = net
        self.batch = batch
        self.copies = batch < config.trainers
        self.optimizer = SGD(net.parameters(), lr=config.learning_rate, momentum=config.momentum)
        self.future: Future[Any] = Future()
        self.arrived = 0
        for parameter in net.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def on_fetch(self, number: int) -> tuple[int, nn.Module]:
        """Return the module to trainer `number`, with its update count."""
        with self.lock:
            self.members[number].heard_at = time.monotonic()
            return self._reply()

    def on_gradients(self, number: int, gradients: list[Tensor]) -> Future[Any]:
        """Add the gradients of trainer `number`; the call that completes the batch updates and answers all."""
        with self.lock:
            began = time.thread_time()
            member = self.members[number]
            self.rejoin(member)
            member.step, member.is_waiting = member.step + 1, True
            for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
                assert parameter.grad is not None
                parameter.grad += gradient
            self.arrived += 1
            future = self.future
            self._step_if_complete()
            self.serve_s += time.thread_time() - began
            return future

    def on_leave(self, number: int) -> None:
        """Remove trainer `number`, which has no mini-batch left."""
        with self.lock:
            self.leave(self.members[number])

    def on_member_left(self) -> None:
        self._step_if_complete()

    def _step_if_complete(self) -> None:
        """Update if the batch is complete; it never waits for more trainers than there are."""
        if self.arrived and self.arrived >= min(self.batch, len(self.active)):
            self._step()

    def _step(self) -> None:
        for parameter in self.model.parameters():
            assert parameter.grad is not None
            parameter.grad /= self.arrived
        self.optimizer.param_groups[0]["lr"] = self.learning_rate(self.arrived)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.version += 1
        for member in self.members.values():
            member.is_waiting, member.heard_at = False, time.monotonic() if member.is_waiting else member.heard_at
        future, self.future, self.arrived = self.future, Future(), 0
        future.set_result(self._reply())

    def _reply(self) -> tuple[int, nn.Module]:
        return self.version, copy.deepcopy(self.model) if self.copies else self.model


def fetch(number: int) -> tuple[int, nn.Module]:
    """Return the server's module; the call pickles all of it."""
    return _server[0].on_fetch(number)


@answered_later
def push(number: int, gradients: list[Tensor]) -> Future[Any]:
    """Send gradients to the server, which answers with the updated module when the batch is complete."""
    return _server[0].on_gradients(number, gradients)


def leave(number: int) -> None:
    """Tell the server that this trainer has no mini-batch left."""
    _server[0].on_leave(number)


def run(config: ServerConfig, ranks: Ranks, workload: Workload, batch: int) -> None:
    """Serve `workload` from one rank to all others; return when all have finished."""
    pixels = read(config.dataset) if isinstance(workload, PartitionedData) else None
    goodbyes = Disconnects.create(tuple(range(1, config.trainers + 1)))
    ranks.run(_take_part, config, workload, pixels, batch, goodbyes, expendable=config.expendable)


def _take_part(
    rank: Rank, config: ServerConfig, workload: Workload, pixels: PixelSet | None, batch: int, goodbyes: Disconnects
) -> None:
    if rank.index == 0:
        _serve(rank, config, ModuleServer(rank, config, workload, batch), pixels, goodbyes)
        return
    with goodbyes.at_exit(rank), joined(rank, config.patience_s):
        rank.ready()
        _train(rank, config, workload, pixels)
        call("ps", leave, rank.index)


def _serve(
    rank: Rank, config: ServerConfig, server: ModuleServer, pixels: PixelSet | None, goodbyes: Disconnects
) -> None:
    """Run as the server until every trainer has left; then test the weights."""
    _server[:] = [server]
    with joined(rank, config.patience_s):
        rank.ready()
        server.start_timeouts()
        while server.active:
            server.wait()
            server.check_members()
        goodbyes.wait(rank)
        rank.recorder.spend("serve", server.serve_s)
    if pixels is not None:
        _test(server, config, pixels, rank)


def _train(rank: Rank, config: ServerConfig, workload: Workload, pixels: PixelSet | None) -> None:
    record, faults = rank.recorder, Faults(rank, config, rank.index)
    torch.manual_seed(_seed(rank, config))
    with record.phase("communicate"):
        version, model = call("ps", fetch, rank.index)
    record.exchanged(_bytes(model))
    done, total, rounds = 0, workload.samples(rank.index), Rounds(record, workload, rank.index)
    for step, (inputs, targets) in enumerate(timed(_batches(rank, config, workload, pixels), record), start=1):
        with record.phase("compute"):
            faults.inject(step)
            model.train()
            loss = workload.loss(model(inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        with record.phase("communicate"):
            before = version
            version, model = call("ps", push, rank.index, [parameter.grad for parameter in model.parameters()])
        record.exchanged(_bytes(model) + sum(parameter.nbytes for parameter in model.parameters()))
        done += len(targets)
        values = {"train/loss": value}
        if config.may_be_stale:
            values["perf/staleness"] = version - before - 1
            record.histogram("staleness", version - before - 1)
        record.log(values, step=step, passes=done * config.trainers / workload.pass_size)
        record.progress(done, total)
        rounds.end_if_due(step)


def _seed(rank: Rank, config: ServerConfig) -> int:
    """Return a trainer's random seed: seed + r as published, where trainer1 is the first."""
    return config.seed + rank.index - 1


def _bytes(model: nn.Module) -> int:
    return sum(each.nbytes for each in (*model.parameters(), *model.buffers()))


def _batches(rank: Rank, config: ServerConfig, workload: Workload, pixels: PixelSet | None) -> Iterator[Any]:
    if pixels is None:
        yield from workload.batches(rank.index, _seed(rank, config), 0)
        return
    part = partition(pixels.train_labels, config.trainers, "contiguous")[rank.index - 1]
    images = PilImages(pixels.train_pixels, pixels.train_labels, pixels.mean, pixels.deviation)
    loader: DataLoader[Any] = DataLoader(Subset(images, part.tolist()), batch_size=config.batch_size, shuffle=True)
    for _ in range(config.epochs):
        yield from loader


def _test(server: ModuleServer, config: ServerConfig, pixels: PixelSet, rank: Rank) -> None:
    with rank.recorder.phase("evaluate"):
        score = evaluate_one_by_one(server.model, pixels, config.batch_size)
    rank.recorder.log(
        {"test/accuracy": score.accuracy, "test/loss": score.loss}, step=server.version, passes=float(config.epochs)
    )
