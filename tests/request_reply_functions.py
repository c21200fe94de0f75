"""What ranks do in the tests of the exchange; here because a rank's process must be able to import its function."""

import os
import signal
import threading
import time

import torch
from torch import Tensor

from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank

ADD, LEAVE, TOGETHER, FAIL = range(4)


class Adder:
    """Adds what it is sent to its vector; answers at once, or when all clients have asked."""

    def __init__(self, exchange: Exchange) -> None:
        self.sum = torch.zeros(exchange.size)
        self.version = 0
        self.left = 0
        self.waiting: list[Respond] = []
        self.clients = len(exchange.clients)
        self.lock = threading.Lock()

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        with self.lock:
            if request.kind == FAIL:
                raise ValueError("seven is not eight")
            if request.kind == LEAVE:
                self.left += 1
                respond(Answer(self.version), None)
                return
            assert vector is not None
            self.sum.add_(vector)
            self.version += 1
            if request.kind == ADD:
                respond(Answer(self.version, note=request.client), self.sum)
                return
            self.waiting.append(respond)
            if len(self.waiting) == self.clients:
                for each in self.waiting:
                    each(Answer(self.version), self.sum)
                self.waiting = []


def exchange_sums(rank: Rank, exchange: Exchange, kind: int, times: int) -> None:
    """Rank 0 serves; each other one sends its index `times` times and checks what comes back."""
    if rank.index == exchange.server:
        adder = Adder(exchange)
        with exchange.serve(rank, adder) as service:
            rank.ready()
            while adder.left + len(rank.gone()) < len(exchange.clients):
                service.check()
                time.sleep(0.005)
        rank.recorder.log({"sum": float(adder.sum[0])}, step=adder.version)
        return
    with exchange.connect(rank) as line:
        rank.ready()
        for step in range(times):
            line.outgoing.fill_(rank.index)
            answer = line.ask(Request(rank.index, kind, step))
            assert float(line.incoming.min()) == float(line.incoming.max()), "torn"
            assert answer.held_ns >= 0
            assert answer.version >= step + 1
        line.ask(Request(rank.index, LEAVE), send=False)


def serve_and_ask(rank: Rank, exchange: Exchange) -> None:
    """All ranks ask, the serving one too."""
    adder = Adder(exchange)
    if rank.index == exchange.server:
        with exchange.serve(rank, adder), exchange.connect(rank) as line:
            rank.ready()
            line.outgoing.fill_(1)
            line.ask(Request(rank.index, TOGETHER))
            rank.barrier("asked")
            assert line.incoming.tolist() == [float(rank.world)] * exchange.size
        return
    with exchange.connect(rank) as line:
        rank.ready()
        line.outgoing.fill_(1)
        line.ask(Request(rank.index, TOGETHER))
        rank.barrier("asked")


def die_while_others_wait(rank: Rank, exchange: Exchange, index: int) -> None:
    """All clients ask together; the rank of that index kills itself after it is ready."""
    if rank.index == exchange.server:
        adder = Adder(exchange)
        with exchange.serve(rank, adder):
            rank.ready()
            if index == rank.index:
                while len(adder.waiting) < len(exchange.clients) - 1:
                    time.sleep(0.005)
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)
    with exchange.connect(rank) as line:
        rank.ready()
        if rank.index == index:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank.index != rank.world - 1:
            line.ask(Request(rank.index, TOGETHER))
        time.sleep(600)


def fail_in_the_handler(rank: Rank, exchange: Exchange) -> None:
    """The handler raises; the serving rank's own thread must hear of it."""
    if rank.index == exchange.server:
        with exchange.serve(rank, Adder(exchange)) as service:
            rank.ready()
            while True:
                service.check()
                time.sleep(0.005)
    with exchange.connect(rank) as line:
        rank.ready()
        line.ask(Request(rank.index, FAIL))


def count_in_handler_threads(rank: Rank, exchange: Exchange, times: int) -> None:
    """Each answer's version is how many requests its handler thread has seen, as far as that thread remembers."""
    if rank.index == exchange.server:
        memory, left = threading.local(), threading.Event()

        def handle(request: Request, vector: Tensor | None, respond: Respond) -> None:
            memory.seen = getattr(memory, "seen", 0) + 1
            respond(Answer(memory.seen), None)
            if request.kind == LEAVE:
                left.set()

        with exchange.serve(rank, handle):
            rank.ready()
            left.wait(60)
        return
    with exchange.connect(rank) as line:
        rank.ready()
        seen = [line.ask(Request(rank.index, ADD, step)).version for step in range(times)]
        rank.recorder.log({"sum": float(max(seen))}, step=times)
        line.ask(Request(rank.index, LEAVE))
