"""The schema, as a list of steps. Add a step; never edit one that shipped.

Each column stands on a line of its own with its words behind it: docs/schema.md is written from them (engine/store/document.py).
"""

import sqlite3
from pathlib import Path

from sqlite_utils import Database, Migrations

from engine.errors import StoreTooNew
from engine.store.buckets import rebuild

steps = Migrations("parallab")

_RUNS = """CREATE TABLE runs ( -- one execution of one config
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- the number that people and permalinks use; runs queue in its order
    experiment TEXT NOT NULL, -- the method's name in the registry
    preset TEXT, -- the preset that the config began as, none for a config made by hand
    name TEXT NOT NULL DEFAULT '', -- what its owner calls it, may be empty
    owner TEXT NOT NULL, -- who launched it
    status TEXT NOT NULL CHECK (status IN ('queued', 'starting', 'running', 'stopping', 'finished', 'failed', 'cancelled', 'lost')), -- the last four are ends
    cause TEXT NOT NULL DEFAULT '', -- why it ended as it did, one sentence
    config TEXT NOT NULL, -- all settings, as JSON
    cores INTEGER NOT NULL, -- CPU cores it asks for
    gpus INTEGER NOT NULL, -- GPUs it asks for
    ranks INTEGER NOT NULL, -- processes it starts
    threads_per_rank INTEGER NOT NULL, -- CPU threads of each of them
    gpu_ids TEXT NOT NULL DEFAULT '[]', -- GPU indices that the runner gave, a JSON list
    parent_id INTEGER REFERENCES runs (id) ON DELETE SET NULL, -- the run that it resumes
    sweep_id INTEGER REFERENCES sweeps (id) ON DELETE SET NULL, -- the sweep it belongs to
    created_at TEXT NOT NULL, -- when it was queued
    claimed_at TEXT, -- when the runner last gave it a worker
    starts INTEGER NOT NULL DEFAULT 0, -- how often it was given one
    begun_at TEXT, -- when its worker took it
    started_at TEXT, -- when all ranks were ready
    ended_at TEXT, -- when it came to its end
    stop_requested_at TEXT, -- when its cancel was asked for
    stop_requested_by TEXT, -- and by whom
    worker_boot_id TEXT, -- its worker: the machine's boot,
    worker_pid INTEGER, -- the process id
    worker_started_ticks INTEGER, -- and the process's start in clock ticks
    heartbeat_at TEXT, -- when the worker last wrote
    execution_time_s REAL, -- from all ranks ready to all ranks done
    startup_time_s REAL, -- from the worker taking the run to all ranks ready
    last_point_id INTEGER NOT NULL DEFAULT 0, -- the highest id among its points
    version INTEGER NOT NULL, -- the change token: grows with each write to the run, unique over all runs
    error TEXT NOT NULL DEFAULT '', -- traceback or log tail behind the cause
    environment TEXT NOT NULL DEFAULT '{}' -- host, versions, commit, devices, as JSON
) STRICT"""

_PROGRESS = """CREATE TABLE progress ( -- how much of a run's work is done; apart from runs because it changes all the time
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    done INTEGER NOT NULL, -- units of work done, over all ranks
    total INTEGER NOT NULL, -- units of work in all
    unit TEXT NOT NULL, -- what is counted, such as samples
    updated_at TEXT NOT NULL -- when this was written
) STRICT"""

_RANKS = """CREATE TABLE ranks ( -- the processes of a run, as last heard of
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER NOT NULL, -- its number in the run, from 0
    role TEXT NOT NULL, -- its name, such as trainer1
    pid INTEGER, -- its process id
    device TEXT NOT NULL, -- where it computes, such as cpu or cuda:0
    state TEXT NOT NULL CHECK (state IN ('starting', 'ready', 'running', 'done', 'failed', 'ended')), -- ended: its run was over before it was
    last_step INTEGER, -- the last step it recorded
    heartbeat_at TEXT, -- when it was last heard of
    exit_code INTEGER, -- how its process ended, negative for a signal
    memory_mb REAL, -- resident memory
    cpu_percent REAL, -- CPU use, 100 for one core
    dropped INTEGER NOT NULL DEFAULT 0, -- points that did not fit its buffer
    PRIMARY KEY (run_id, rank)
) STRICT, WITHOUT ROWID"""

_METRICS = """CREATE TABLE metrics ( -- each metric of a run in one row, brought up to date with each point: what lists of runs read
    id INTEGER PRIMARY KEY, -- what points refer to
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER, -- the rank that recorded it, none for a metric of the whole run
    name TEXT NOT NULL, -- such as train/loss
    count INTEGER NOT NULL, -- points with a finite value
    nonfinite INTEGER NOT NULL, -- points that are NaN or infinite; they count nowhere else
    last REAL, -- the last finite value
    last_step INTEGER, -- and its step
    low REAL, -- the least finite value
    high REAL, -- the greatest finite value
    mean REAL -- the mean of all finite values
) STRICT"""

_POINTS = """CREATE TABLE points ( -- the values of each metric, in the order recorded; one metric's points lie side by side
    metric_id INTEGER NOT NULL REFERENCES metrics (id) ON DELETE CASCADE, -- the metric of one rank of one run
    id INTEGER NOT NULL, -- counts through all points of the run, so that a reader can ask for what came after
    step INTEGER NOT NULL, -- the rank's own count of steps
    time_s REAL NOT NULL, -- since all ranks were ready
    passes REAL, -- passes over the training data by all ranks, where known
    value REAL, -- the value, NULL where it is not finite
    nonfinite TEXT CHECK (nonfinite IN ('nan', 'inf', '-inf')), -- which of the three it is then
    PRIMARY KEY (metric_id, id)
) STRICT, WITHOUT ROWID"""

_PHASES = """CREATE TABLE phases ( -- how long each rank spent on what
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER NOT NULL, -- its rank
    name TEXT NOT NULL, -- compute, communicate, wait, update, data, evaluate, lock, other or serve
    seconds REAL NOT NULL, -- in all so far
    PRIMARY KEY (run_id, rank, name)
) STRICT, WITHOUT ROWID"""

_SPANS = """CREATE TABLE spans ( -- single stretches of work, sampled, for timelines
    id INTEGER PRIMARY KEY, -- the order recorded
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER NOT NULL, -- its rank
    name TEXT NOT NULL, -- what was done
    stage INTEGER NOT NULL, -- the pipeline stage, 0 where there is none
    micro_batch INTEGER NOT NULL, -- the micro-batch, 0 where there is none
    t0_ns INTEGER NOT NULL, -- start on the machine's monotonic clock
    t1_ns INTEGER NOT NULL, -- end on the same clock
    bytes INTEGER NOT NULL, -- bytes moved
    peer TEXT NOT NULL -- the role at the other end, empty where there is none
) STRICT"""

_HISTOGRAMS = """CREATE TABLE histograms ( -- counts of small whole numbers, such as staleness
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER NOT NULL, -- its rank
    name TEXT NOT NULL, -- what is counted
    bucket INTEGER NOT NULL, -- the number
    count INTEGER NOT NULL, -- how often it was seen
    PRIMARY KEY (run_id, rank, name, bucket)
) STRICT, WITHOUT ROWID"""

_MACHINE_METRICS = """CREATE TABLE machine_metrics ( -- the machine's numbers while a run was on
    id INTEGER PRIMARY KEY, -- the order recorded
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    at TEXT NOT NULL, -- when it was measured
    source TEXT NOT NULL, -- host, gpu0, gpu1 and so on
    name TEXT NOT NULL, -- such as cpu_percent or memory_mb
    value REAL -- the number, NULL where the machine gave none (NaN)
) STRICT"""

_LOGS = """CREATE TABLE logs ( -- where the text output of a run lies; the text stays in its file
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    source TEXT NOT NULL, -- who writes it: worker, trainer1 and so on
    path TEXT NOT NULL, -- the file, below the run's folder
    PRIMARY KEY (run_id, source)
) STRICT, WITHOUT ROWID"""

_EVENTS = """CREATE TABLE events ( -- what happened to a run, when and by whom; each change of status is one
    id INTEGER PRIMARY KEY, -- the order of events
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    at TEXT NOT NULL, -- when
    kind TEXT NOT NULL, -- the new status, or tagged, untagged, noted, renamed, resumed and what the worker reports
    who TEXT NOT NULL, -- a person, runner or worker
    detail TEXT NOT NULL -- the rest in words, may be empty
) STRICT"""

_TAGS = """CREATE TABLE tags ( -- the words that people file runs under
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    tag TEXT NOT NULL, -- the word
    PRIMARY KEY (run_id, tag)
) STRICT, WITHOUT ROWID"""

_NOTES = """CREATE TABLE notes ( -- what people wrote about a run, one text each
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    text TEXT NOT NULL, -- the note
    author TEXT NOT NULL, -- who wrote it last
    at TEXT NOT NULL -- and when
) STRICT"""

_SWEEPS = """CREATE TABLE sweeps ( -- runs over a grid of configs and seeds
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- its number
    experiment TEXT NOT NULL, -- the method's name in the registry
    name TEXT NOT NULL, -- what its owner calls it
    owner TEXT NOT NULL, -- who launched it
    grid TEXT NOT NULL, -- the fields that vary and their values, as JSON
    created_at TEXT NOT NULL -- when
) STRICT"""

_RUNNER = """CREATE TABLE runner ( -- the process that serves this store, one row or none
    id INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
    boot_id TEXT NOT NULL, -- the machine's boot,
    pid INTEGER NOT NULL, -- the process id
    started_ticks INTEGER NOT NULL, -- and the process's start in clock ticks
    started_at TEXT NOT NULL, -- when it registered
    heartbeat_at TEXT NOT NULL, -- when it last said that it lives
    stopping INTEGER NOT NULL DEFAULT 0, -- 1 where it was asked to end
    warm INTEGER NOT NULL DEFAULT 0, -- 1 where a spare worker stands ready
    cores INTEGER NOT NULL, -- CPU cores it gives out
    gpus INTEGER NOT NULL -- GPUs it gives out
) STRICT"""

TABLES = (
    *(_SWEEPS, _RUNS, _PROGRESS, _RANKS, _METRICS, _POINTS, _PHASES, _SPANS, _HISTOGRAMS),
    *(_MACHINE_METRICS, _LOGS, _EVENTS, _TAGS, _NOTES, _RUNNER),
)
_BUCKETS = """CREATE TABLE buckets ( -- the corners of each 256 neighbours of a metric, counted from its first point: what a long curve is drawn from
    metric_id INTEGER NOT NULL REFERENCES metrics (id) ON DELETE CASCADE, -- the metric of one rank of one run
    bucket INTEGER NOT NULL, -- its number, from 0
    first_id INTEGER NOT NULL, -- the id of its first point
    last_id INTEGER NOT NULL, -- and of its last
    low REAL, -- the least value, NULL where all are NaN
    low_id INTEGER, -- and its first point
    high REAL, -- the greatest value, likewise
    high_id INTEGER, -- and its first point
    nan_id INTEGER, -- the first NaN, where there is one
    PRIMARY KEY (metric_id, bucket)
) STRICT, WITHOUT ROWID"""

_MACHINE_SAMPLES = """CREATE TABLE machine_samples ( -- the machine's numbers of the last hour, by the runner; older ones are deleted
    at TEXT NOT NULL, -- when it was measured
    source TEXT NOT NULL, -- host, gpu0, gpu1 and so on
    name TEXT NOT NULL, -- such as cpu_percent or memory_mb
    value REAL NOT NULL, -- the number
    PRIMARY KEY (at, source, name)
) STRICT, WITHOUT ROWID"""

_ORIGINS = """CREATE TABLE origins ( -- where the runs come from that another store or another program recorded
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run here
    kind TEXT NOT NULL CHECK (kind IN ('parallab', 'tensorboard', 'mlflow')), -- the program that recorded it
    host TEXT NOT NULL, -- the machine that it ran on, empty where nobody wrote it down
    original_id TEXT NOT NULL, -- its id there
    owner TEXT NOT NULL, -- who launched it there
    fingerprint TEXT NOT NULL UNIQUE, -- what tells it from any other run, the same in every store
    file TEXT NOT NULL, -- the name of the file that brought it
    imported_at TEXT NOT NULL, -- when
    imported_by TEXT NOT NULL -- and by whom
) STRICT"""

LATER_TABLES = (_BUCKETS, _MACHINE_SAMPLES, _ORIGINS)
"""Tables that later steps add."""
LATER: dict[str, str] = {
    "runs.time_before_s": "the training time of the runs that it goes on from",
    "metrics.thinned": "points that the gc command took away; all that stands beside it is of the points before that",
    "runs.priority": "0 low, 1 normal, 2 high: a higher one goes first",
    "runs.place": "the order within a priority, the least first",
    "runs.held_by": "who keeps it from starting while it is queued, none where it may",
    "runs.oversubscribe": "1 where it may start on cores that other runs hold; it is bound to none then",
    "runs.core_ids": "CPU cores that the runner gave, a JSON list",
    "sweeps.held": "1 while it is paused: its queued runs stay where they are",
    "sweeps.exclusive": "1 where each of its runs has the machine to itself",
    "sweeps.stop_after": "so many cells may end badly, then its queued runs are cancelled; none for no such limit",
    "sweeps.draw": "count, seed and ranges of a random draw, as JSON; empty for a grid",
    "runs.stop_kind": "how its end was asked for: cancel, force or time limit; empty where it was not",
    "runs.max_run_time_s": "seconds that it may be on, none for no limit",
    "runs.max_retries": "how often it is queued anew where it is lost",
    "runs.attempt": "how many runs before it in its chain were lost and queued anew by the runner",
    "runs.resumes": "1 where it goes on from its parent's checkpoint, 0 where it repeats its parent from the start",
    "runs.begun_uptime_s": "the machine's uptime when its worker took it, which no change of the clock moves",
}
"""Words of the columns that later steps add, by 'table.column'."""
_INDEXES = (
    "CREATE UNIQUE INDEX runs_version ON runs (version)",
    "CREATE INDEX runs_status ON runs (status, id)",
    "CREATE INDEX runs_owner ON runs (owner, id)",
    "CREATE INDEX runs_experiment ON runs (experiment, id)",
    "CREATE INDEX runs_sweep ON runs (sweep_id) WHERE sweep_id IS NOT NULL",
    "CREATE UNIQUE INDEX metrics_run ON metrics (run_id, name, coalesce(rank, -1))",
    "CREATE INDEX spans_run ON spans (run_id, id)",
    "CREATE INDEX machine_metrics_run ON machine_metrics (run_id, at)",
    "CREATE INDEX events_run ON events (run_id, id)",
    "CREATE INDEX tags_tag ON tags (tag, run_id)",
)
_ENDS_ARE_LAST = """CREATE TRIGGER ends_are_last BEFORE UPDATE OF status ON runs
WHEN OLD.status IN ('finished', 'failed', 'cancelled', 'lost') AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'a run that ended never changes its status'); END"""


@steps()
def first_schema(db: Database) -> None:
    """Make every table, those too whose display comes later."""
    for statement in (*TABLES, *_INDEXES, _ENDS_ARE_LAST):
        db.execute(statement)


@steps()
def index_of_parents(db: Database) -> None:
    """Find the runs that resume a run without a look at all others."""
    db.execute("CREATE INDEX runs_parent ON runs (parent_id) WHERE parent_id IS NOT NULL")


@steps()
def time_before_a_resumption(db: Database) -> None:
    """Let a resumed run count its time from where its parent's checkpoint was."""
    db.execute("ALTER TABLE runs ADD COLUMN time_before_s REAL NOT NULL DEFAULT 0")


@steps()
def index_of_micro_batches(db: Database) -> None:
    """Find the spans of one batch of a pipeline without a look at its other batches."""
    db.execute("CREATE INDEX spans_micro_batch ON spans (run_id, micro_batch)")


@steps()
def corners_of_long_curves(db: Database) -> None:
    """Draw a curve of any length without reading all of it, and let the gc command say what it took away."""
    db.execute("ALTER TABLE metrics ADD COLUMN thinned INTEGER NOT NULL DEFAULT 0")
    db.execute(_BUCKETS)
    for (metric_id,) in db.execute("SELECT id FROM metrics").fetchall():
        rebuild(db.conn, metric_id)


@steps()
def order_of_the_queue(db: Database) -> None:
    """Let the queue have priorities and an order of its own, runs be on hold, and a run hold cores by number."""
    for column in (
        "priority INTEGER NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2)",
        "place INTEGER NOT NULL DEFAULT 0",
        "held_by TEXT",
        "oversubscribe INTEGER NOT NULL DEFAULT 0",
        "core_ids TEXT NOT NULL DEFAULT '[]'",
    ):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    db.execute("UPDATE runs SET place = id")
    db.execute("CREATE INDEX runs_place ON runs (place)")
    db.execute("CREATE INDEX runs_queue ON runs (priority DESC, place) WHERE status = 'queued'")


@steps()
def machine_samples(db: Database) -> None:
    """Keep what the machine did over the last hour, whether or not a run was on."""
    db.execute(_MACHINE_SAMPLES)


@steps()
def sweeps_that_change(db: Database) -> None:
    """Let a sweep be paused, drawn, stopped after failures, and have the machine to itself."""
    for column in ("held INTEGER NOT NULL DEFAULT 0", "exclusive INTEGER NOT NULL DEFAULT 0", "stop_after INTEGER", "draw TEXT NOT NULL DEFAULT ''"):
        db.execute(f"ALTER TABLE sweeps ADD COLUMN {column}")


@steps()
def stops_and_retries(db: Database) -> None:
    """Let a run have a time limit, be ended by force, and be tried again where it is lost."""
    for column in (
        "stop_kind TEXT NOT NULL DEFAULT '' CHECK (stop_kind IN ('', 'cancel', 'force', 'time limit'))",
        "max_run_time_s REAL",
        "max_retries INTEGER NOT NULL DEFAULT 0",
        "attempt INTEGER NOT NULL DEFAULT 0",
        "resumes INTEGER NOT NULL DEFAULT 1",
        "begun_uptime_s REAL",
    ):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    db.execute("UPDATE runs SET stop_kind = 'cancel' WHERE stop_requested_by IS NOT NULL")


@steps()
def origins_of_imported_runs(db: Database) -> None:
    """Let a run say which store or program it comes from, and be known again."""
    db.execute(_ORIGINS)


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Apply all steps that a store lacks in one transaction: whoever reads meanwhile sees the schema before or after, never between."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        steps.apply(Database(connection))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def applied(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of the steps that a store has; raises StoreTooNew where it has one that this version does not know."""
    table = steps.migrations_table
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone() is None:
        return set()
    found = {str(row[0]) for row in connection.execute(f"SELECT name FROM {table} WHERE migration_set = ?", [steps.name])}
    if ahead := sorted(found - known()):
        raise StoreTooNew(
            f"The store {path} was written by a newer Parallab (it has the schema step '{ahead[0]}'). Update this checkout, or name another PARALLAB_HOME."
        )
    return found


def known() -> set[str]:
    """Return the names of all steps of this version."""
    return {step.name for step in steps._migrations}
