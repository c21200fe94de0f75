"""Collectors as threads of the learner's process, to show the cost of Python's global interpreter lock."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager

from engine.experiments.dppo.ppo import Collector
from engine.experiments.dppo.shared_state import SharedState
from engine.recorder import Details, Recorder
from engine.trace.layout import NO_VERSION, NOBODY


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
    """A recorder for threads other than their rank's main one: it passes points and operations on, and phases
    count in no sum.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        self._recorder.log(values, step=step, passes=passes)

    def phase(
        self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        return self._recorder.operation(name, what, peer=peer, number=number, picked=picked)

    def spend(self, name: str, seconds: float) -> None:
        pass

    def operation(
        self, kind: str, name: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        return self._recorder.operation(kind, name, peer=peer, number=number, picked=picked)

    def note(
        self, kind: str, name: str, *, peer: int = NOBODY, number: int = 0, version: int = NO_VERSION, value: int = 0
    ) -> None:
        self._recorder.note(kind, name, peer=peer, number=number, version=version, value=value)

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        self._recorder.histogram(name, bucket, count)

    def exchanged(self, size: int) -> None:
        pass

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        pass

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        pass

    def flush(self) -> None:
        self._recorder.flush()
