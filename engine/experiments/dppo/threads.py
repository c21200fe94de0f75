"""Collectors as threads of the learner's process, to show the cost of Python's global interpreter lock."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from engine.experiments.dppo.ppo import Collector
from engine.experiments.dppo.shared_state import SharedState
from engine.recorder import Recorder


class CollectorThread(threading.Thread):
    """A collector as a thread of the learner's process; it keeps its failure and ends the run with it."""

    def __init__(self, shared: SharedState, collector: Collector) -> None:
        super().__init__(name=f"collector{collector.place + 1}", daemon=True)
        self._shared = shared
        self._collector = collector
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._collector.play()
        except BaseException as failure:
            self._failure = failure
            self._shared.stop()

    def check(self) -> None:
        """Raise the thread's failure, if any."""
        if self._failure is not None:
            raise self._failure


class ThreadRecorder:
    """A recorder for threads other than their rank's main one: it passes points on and ignores phases."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        self._recorder.log(values, step=step, passes=passes)

    def phase(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def spend(self, name: str, seconds: float) -> None:
        pass

    def span(
        self, name: str, *, stage: int = 0, micro_batch: int = 0, bytes: int = 0, peer: str = ""
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        self._recorder.histogram(name, bucket, count)

    def exchanged(self, size: int) -> None:
        pass

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        pass

    def flush(self) -> None:
        self._recorder.flush()
