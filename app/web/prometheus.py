"""The lab's numbers for Prometheus, at /metrics: runs, queue, slots, store, runner, people, requests, and the console's
own process.

Nothing in it names a person, a path or a run; experiments that an import brought are told as 'other', so that series
stay few.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.auth.bearer import METRICS
from app.core.base_path import at
from app.core.caches import NEVER_STORE
from app.web.polling import backpressure
from app.web.request_metrics import Requests
from engine import __version__
from engine.access.rules import COMMANDS
from engine.errors import EngineError
from engine.home import Home
from engine.registry import EXPERIMENTS, UNLISTED
from engine.store import Reader, RunnerRow
from engine.store.runs.counters import StoreCounts
from engine.store.timestamps import seconds_since
from engine.system.disk_space import storage
from engine.system.liveness_lock import lives

SIGN_IN, OTHER = "sign in", "other"
KNOWN = frozenset(EXPERIMENTS + UNLISTED)
GIVEN = frozenset({*COMMANDS, SIGN_IN, "sign out"})
Samples = Mapping[tuple[str, ...], float]


class Lab(Collector):
    """The numbers of the home's store and disks, read when they are asked for. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally: StoreCounts | None = None
        self._of: tuple[str, int] | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering asks no store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all numbers; where the store can't be read, those of the disk and that it can't."""
        home = Home.find()
        room = storage(home)
        yield _gauge("info", "The version that serves.", {(__version__,): 1}, ["version"])
        yield _gauge(
            "loop_late_seconds",
            "How late the console's event loop gets its turns, on average of the last seconds.",
            {(): backpressure.late_s},
        )
        yield _gauge("store_bytes", "Size of the store's file.", {(): room.store})
        yield _gauge("store_log_bytes", "Size of the store's write-ahead log.", {(): room.write_ahead_log})
        yield _gauge(
            "disk_free_bytes",
            "Free on the disk of the home, and of the data sets.",
            {("home",): room.disk_free, ("data",): room.data_free},
            ["of"],
        )
        try:
            with Reader.open(home) as reader:
                tally, runner = self._count(home, reader), reader.runner.current()
        except EngineError:
            yield _gauge("store_up", "1 where the store can be read.", {(): 0})
            return
        yield _gauge("store_up", "1 where the store can be read.", {(): 1})
        yield from _of_runs(tally)
        yield from _of_machine(home, tally, runner)
        yield from _of_people(tally)

    def _count(self, home: Home, reader: Reader) -> StoreCounts:
        with self._lock:
            here = _which(home)
            self._tally = reader.counters.tally(self._tally if here == self._of else None)
            self._of = here
            return self._tally


registry = CollectorRegistry()
requests = Requests(registry)
"""What app.web.request_metrics's middleware counts; one console is one process, so there is one of each."""
registry.register(Lab())
ProcessCollector(registry=registry)


def prometheus_routes() -> list[BaseRoute]:
    """Return the route that a Prometheus server asks."""
    return [Route(at(METRICS), exposition)]


async def exposition(request: Request) -> Response:
    """Return all numbers in the text format that is asked for; the gate wants a token or a sign-in where the lab has
    accounts.
    """
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(await run_in_threadpool(encode, registry), headers=NEVER_STORE | {"content-type": kind})


def _of_runs(tally: StoreCounts) -> Iterator[Metric]:
    counts: Counter[tuple[str, ...]] = Counter()
    for (experiment, status), count in tally.by_status.items():
        counts[status, experiment if experiment in KNOWN else OTHER] += count
    queued = sum(count for (status, _), count in counts.items() if status == "queued")
    yield _gauge("runs", "Runs in the store.", counts, ["status", "experiment"])
    yield _gauge("queue_runs", "Runs that wait.", {("ready",): queued - tally.held, ("held",): tally.held}, ["state"])
    yield _gauge(
        "queue_oldest_wait_seconds",
        "How long the oldest run that is not on hold has waited.",
        {(): tally.oldest_wait_s},
    )
    yield _counter(
        "points",
        "Points that runs wrote; those of runs that were deleted count until the console starts anew.",
        {(): tally.points},
    )


def _of_machine(home: Home, tally: StoreCounts, runner: RunnerRow | None) -> Iterator[Metric]:
    up = runner is not None and lives(home, runner.process)
    yield _gauge("runner_up", "1 where a runner serves the lab.", {(): up})
    yield _gauge(
        "slots_held",
        "Cores and GPUs that runs hold; more cores than there are where runs share them.",
        _slots(tally.cores_held, tally.gpus_held),
        ["kind"],
    )
    if runner is not None:
        yield _gauge(
            "runner_heartbeat_age_seconds",
            "Since the runner last said that it lives.",
            {(): seconds_since(runner.heartbeat_at)},
        )
        yield _gauge("slots", "Cores and GPUs that the runner gives out.", _slots(runner.cores, runner.gpus), ["kind"])


def _of_people(tally: StoreCounts) -> Iterator[Metric]:
    counts: Counter[tuple[str, ...]] = Counter()
    for (command, refused), count in tally.commands.items():
        counts[command if command in GIVEN else OTHER, "refused" if refused else "done"] += count
    yield _gauge("signed_in_browsers", "Browsers that somebody is signed in on.", {(): tally.signed_in})
    yield _counter("sign_ins_failed", "Sign-ins that failed.", {(): counts[SIGN_IN, "refused"]})
    yield _counter(
        "commands", "Commands of the audit log, signing in and out among them.", counts, ["command", "outcome"]
    )


def _slots(cores: int, gpus: int) -> Samples:
    return {("core",): cores, ("gpu",): gpus}


def _gauge(name: str, help: str, samples: Samples, labels: list[str] | None = None) -> Metric:
    found = GaugeMetricFamily(f"parallab_{name}", help, labels=labels or [])
    for values, number in samples.items():
        found.add_metric(list(values), number)
    return found


def _counter(name: str, help: str, samples: Samples, labels: list[str] | None = None) -> Metric:
    found = CounterMetricFamily(f"parallab_{name}", help, labels=labels or [])
    for values, number in samples.items():
        found.add_metric(list(values), number)
    return found


def _which(home: Home) -> tuple[str, int] | None:
    """Return which file the store is at the moment: another one is counted from its beginning."""
    try:
        return str(home.path), home.database.stat().st_ino
    except OSError:
        return None
