"""Ranks that may hang, run in a thread under the hang doctor."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import RankFailed
from engine.hang.watch import HangLimits
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.trace.health import BAD, Verdict
from tests.doubles import MemorySink, process_ranks

ROLES = ("trainer1", "trainer2", "trainer3")


class Patient:
    """Runs ranks in a thread until a test has seen what it waits for."""

    def __init__(self, folder: Path, limits: HangLimits, roles: tuple[str, ...] = ROLES) -> None:
        self.sink = MemorySink()
        self.over = threading.Event()
        self.ranks = process_ranks(
            roles,
            ("cpu",) * len(roles),
            threads=1,
            seed=0,
            folder=folder,
            sink=self.sink,
            stop_requested=self.over.is_set,
            hang_limits=limits,
        )
        self.failure: BaseException | None = None

    def start(self, function: Callable[..., None], *given: Any) -> None:
        self.begin(lambda ranks: ranks.run(function, *given))

    def begin(self, method: Callable[[Ranks], None]) -> None:
        self.thread = threading.Thread(target=self._run, args=(method,))
        self.thread.start()

    def _run(self, method: Callable[[Ranks], None]) -> None:
        try:
            method(self.ranks)
        except (StopRequested, RankFailed) as failure:
            self.failure = failure

    def verdicts(self) -> list[Verdict]:
        return [health.verdict for health in list(self.sink.healths)]

    def bad_ones(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts() if verdict.state in BAD]

    def end(self) -> None:
        self.over.set()
        self.thread.join()
