"""Prometheus metrics of the lab at /metrics: runs, queue, slots, store, runner, people, requests, and the console's
process.

No label holds a person, a path or a run; imported experiments are counted as 'other', so that series stay few.
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
from app.core.assets import at
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
from engine.system.machine import storage
from engine.system.runner_process import lives

SIGN_IN, OTHER = "sign in", "other"
KNOWN = frozenset(EXPERIMENTS + UNLISTED)
GIVEN = frozenset({*COMMANDS, SIGN_IN, "sign out"})
Samples = Mapping[tuple[str, ...], float]


class Lab(Collector):
    """The metrics of the home's store and disks, read at each scrape. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally: StoreCounts | None = None
        self._of: tuple[str, int] | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not read the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; if the store can't be read, only those of the disk and `store_up` 0."""
        home = Home.find()
        room = storage(home)
        yield _gauge("info", "Version of the console.", {(__version__,): 1}, ["version"])
        yield _gauge(
            "loop_late_seconds",
            "Average lateness of the console's event loop over the last seconds.",
            {(): backpressure.late_s},
        )
        yield _gauge("store_bytes", "Size of the store's file.", {(): room.store})
        yield _gauge("store_log_bytes", "Size of the store's write-ahead log.", {(): room.write_ahead_log})
        yield _gauge(
            "disk_free_bytes",
            "Free disk space of the home and of the data sets.",
            {("home",): room.disk_free, ("data",): room.data_free},
            ["of"],
        )
        try:
            with Reader.open(home) as reader:
                tally, runner = self._count(home, reader), reader.runner.current()
        except EngineError:
            yield _gauge("store_up", "1 if the store can be read.", {(): 0})
            return
        yield _gauge("store_up", "1 if the store can be read.", {(): 1})
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
"""The metrics of the middleware in app.web.request_metrics; one console is one process, so there is one of each."""
registry.register(Lab())
ProcessCollector(registry=registry)


def prometheus_routes() -> list[BaseRoute]:
    """Return the route that a Prometheus server scrapes."""
    return [Route(at(METRICS), exposition)]


async def exposition(request: Request) -> Response:
    """Return all metrics in the requested text format; in a lab with accounts the gate needs a token or a sign-in."""
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(await run_in_threadpool(encode, registry), headers=NEVER_STORE | {"content-type": kind})


def _of_runs(tally: StoreCounts) -> Iterator[Metric]:
    counts: Counter[tuple[str, ...]] = Counter()
    for (experiment, status), count in tally.by_status.items():
        counts[status, experiment if experiment in KNOWN else OTHER] += count
    queued = sum(count for (status, _), count in counts.items() if status == "queued")
    yield _gauge("runs", "Runs in the store.", counts, ["status", "experiment"])
    yield _gauge("queue_runs", "Queued runs.", {("ready",): queued - tally.held, ("held",): tally.held}, ["state"])
    yield _gauge(
        "queue_oldest_wait_seconds",
        "Wait time of the oldest queued run that is not on hold.",
        {(): tally.oldest_wait_s},
    )
    yield _counter(
        "points",
        "Points written by runs; those of deleted runs count until the console restarts.",
        {(): tally.points},
    )


def _of_machine(home: Home, tally: StoreCounts, runner: RunnerRow | None) -> Iterator[Metric]:
    up = runner is not None and lives(home, runner.process)
    yield _gauge("runner_up", "1 if a runner is running.", {(): up})
    yield _gauge(
        "slots_held",
        "Cores and GPUs allocated to runs; more cores than available if runs share them.",
        _slots(tally.cores_held, tally.gpus_held),
        ["kind"],
    )
    if runner is not None:
        yield _gauge(
            "runner_heartbeat_age_seconds",
            "Age of the runner's last heartbeat.",
            {(): seconds_since(runner.heartbeat_at)},
        )
        yield _gauge(
            "slots", "Cores and GPUs that the runner can allocate.", _slots(runner.cores, runner.gpus), ["kind"]
        )


def _of_people(tally: StoreCounts) -> Iterator[Metric]:
    counts: Counter[tuple[str, ...]] = Counter()
    for (command, refused), count in tally.commands.items():
        counts[command if command in GIVEN else OTHER, "refused" if refused else "done"] += count
    yield _gauge("signed_in_browsers", "Signed-in browsers.", {(): tally.signed_in})
    yield _counter("sign_ins_failed", "Failed sign-ins.", {(): counts[SIGN_IN, "refused"]})
    yield _counter(
        "commands", "Commands in the audit log, including sign-ins and sign-outs.", counts, ["command", "outcome"]
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
    """Return the identity of the store's file; another file is counted from its beginning."""
    try:
        return str(home.path), home.database.stat().st_ino
    except OSError:
        return None
