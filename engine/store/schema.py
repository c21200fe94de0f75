"""The schema, as a list of steps. Add a step; never edit one that shipped."""

from filelock import FileLock
from sqlite_utils import Database, Migrations

from engine.errors import StoreTooNew
from engine.home import Home

steps = Migrations("parallab")

_FIRST = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment TEXT NOT NULL,
    preset TEXT,
    name TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'starting', 'running', 'stopping', 'finished', 'failed', 'cancelled', 'lost')),
    cause TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    config TEXT NOT NULL,
    cores INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    threads_per_rank INTEGER NOT NULL,
    gpu_ids TEXT NOT NULL DEFAULT '[]',
    parent_id INTEGER REFERENCES runs (id),
    sweep_id INTEGER REFERENCES sweeps (id),
    created_at TEXT NOT NULL,
    claimed_at TEXT,
    starts INTEGER NOT NULL DEFAULT 0,
    begun_at TEXT,
    started_at TEXT,
    ended_at TEXT,
    stop_requested_at TEXT,
    stop_requested_by TEXT,
    worker_boot_id TEXT,
    worker_pid INTEGER,
    worker_started_ticks INTEGER,
    heartbeat_at TEXT,
    execution_time_s REAL,
    startup_time_s REAL,
    environment TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL
);
CREATE UNIQUE INDEX runs_version ON runs (version);
CREATE INDEX runs_status ON runs (status, id);
CREATE INDEX runs_owner ON runs (owner, id);
CREATE INDEX runs_experiment ON runs (experiment, id);
CREATE TABLE progress (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id),
    done INTEGER NOT NULL,
    total INTEGER NOT NULL,
    unit TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE TABLE ranks (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    role TEXT NOT NULL,
    pid INTEGER,
    device TEXT NOT NULL,
    state TEXT NOT NULL,
    last_step INTEGER,
    heartbeat_at TEXT,
    exit_code INTEGER,
    memory_mb REAL,
    cpu_percent REAL,
    PRIMARY KEY (run_id, rank)
) WITHOUT ROWID;
CREATE TABLE metrics (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    name TEXT NOT NULL,
    count INTEGER NOT NULL DEFAULT 0,
    finite INTEGER NOT NULL DEFAULT 0,
    total REAL NOT NULL DEFAULT 0,
    last REAL,
    last_step INTEGER,
    low REAL,
    high REAL,
    UNIQUE (run_id, name, rank)
);
CREATE TABLE points (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    metric_id INTEGER NOT NULL REFERENCES metrics (id),
    step INTEGER NOT NULL,
    time_s REAL NOT NULL,
    passes REAL,
    value REAL,
    nonfinite TEXT CHECK (nonfinite IN ('nan', 'inf', '-inf'))
);
CREATE INDEX points_metric ON points (metric_id, id);
CREATE TABLE phases (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    name TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (run_id, rank, name)
) WITHOUT ROWID;
CREATE TABLE spans (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    name TEXT NOT NULL,
    stage INTEGER NOT NULL,
    micro_batch INTEGER NOT NULL,
    t0_ns INTEGER NOT NULL,
    t1_ns INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    peer TEXT NOT NULL
);
CREATE INDEX spans_run ON spans (run_id, id);
CREATE TABLE histograms (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    name TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run_id, rank, name, bucket)
) WITHOUT ROWID;
CREATE TABLE machine_metrics (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    value REAL NOT NULL
);
CREATE INDEX machine_metrics_run ON machine_metrics (run_id, at);
CREATE TABLE logs (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    PRIMARY KEY (run_id, source)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX events_run ON events (run_id, id);
CREATE TABLE tags (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    tag TEXT NOT NULL,
    PRIMARY KEY (run_id, tag)
) WITHOUT ROWID;
CREATE TABLE notes (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id),
    text TEXT NOT NULL,
    author TEXT NOT NULL,
    at TEXT NOT NULL
);
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    grid TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE TABLE runner (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_ticks INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    heartbeat_at TEXT NOT NULL,
    stopping INTEGER NOT NULL DEFAULT 0,
    warm INTEGER NOT NULL DEFAULT 0,
    cores INTEGER NOT NULL,
    gpus INTEGER NOT NULL
)
"""


@steps()
def first_light(db: Database) -> None:
    """Make every table, those too whose display comes later."""
    for statement in _FIRST.split(";"):
        db.execute(statement)


def migrate(db: Database, home: Home) -> None:
    """Bring the store to this version's schema; raises StoreTooNew where it is ahead. One process at a time."""
    refuse_newer(db, home)
    if steps.pending(db):
        with FileLock(home.schema_lock):
            steps.apply(db)


def refuse_newer(db: Database, home: Home) -> None:
    """Raise StoreTooNew where the store has a step that this version does not know."""
    known = {step.name for step in steps._migrations}
    if ahead := [step.name for step in steps.applied(db) if step.name not in known]:
        raise StoreTooNew(
            f"The store {home.database} was written by a newer Parallab (it has the schema step '{ahead[0]}')."
            " Update this checkout, or name another PARALLAB_HOME."
        )
