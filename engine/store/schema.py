"""The schema, as a list of steps. Add a step; never edit one that shipped.

Each column stands on a line of its own with its words behind it: docs/schema.md is written from them
(engine/store/document.py). The tables that the first step makes are in tables.py.
"""

import sqlite3
from pathlib import Path

from engine.errors import StoreTooNew
from engine.store.buckets import rebuild
from engine.store.clock import now
from engine.store.configs import TEXT_BYTES, move_out
from engine.store.notice_tables import FIRST_RECEIVERS, NOTICE_INDEXES, NOTICE_TABLES
from engine.store.tables import ENDS_ARE_LAST, INDEXES, TABLES
from engine.store.without_pandas import Database, Migrations

steps = Migrations("parallab")

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

_VIEWS = """CREATE TABLE views ( -- pages as somebody left them, under a name
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL, -- what its owner calls it
    owner TEXT NOT NULL, -- who saved it, and alone may delete it
    page TEXT NOT NULL, -- the page's path without the slash, such as compare
    query TEXT NOT NULL, -- what stands behind the question mark of the page's address
    saved_at TEXT NOT NULL, -- when it was last saved
    UNIQUE (owner, page, name)
) STRICT"""

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

_LOOKS = """CREATE TABLE looks ( -- when each person looked at the Home page
    person TEXT PRIMARY KEY, -- the name that the person goes by
    looked_at TEXT NOT NULL, -- when they last did
    new_since TEXT NOT NULL -- from when on what ended was new to them then
) STRICT, WITHOUT ROWID"""

_DUELS = """CREATE TABLE duels ( -- strategies compared on one budget
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL, -- what its owner calls it, may be empty
    owner TEXT NOT NULL, -- who launched it
    created_at TEXT NOT NULL, -- when
    plan TEXT NOT NULL, -- all that makes it, as JSON
    stage TEXT NOT NULL CHECK (stage IN ('tuning', 'judging')) -- how far it was launched
) STRICT"""

_DUEL_SWEEPS = """CREATE TABLE duel_sweeps ( -- the sweeps that carry a duel out
    sweep_id INTEGER PRIMARY KEY REFERENCES sweeps (id) ON DELETE CASCADE, -- the sweep
    duel_id INTEGER NOT NULL REFERENCES duels (id) ON DELETE CASCADE, -- the duel
    strategy INTEGER NOT NULL, -- the place of its strategy in the duel's plan, from 0
    stage TEXT NOT NULL CHECK (stage IN ('tuning', 'judging')), -- what its runs are for
    UNIQUE (duel_id, stage, strategy)
) STRICT"""

_PEOPLE = """CREATE TABLE people ( -- who has an account; while there is nobody, everyone who reaches the console may do everything
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL UNIQUE COLLATE NOCASE, -- what the person goes by, and the owner of what they launch
    role TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'admin')), -- what they may do
    role_from TEXT NOT NULL DEFAULT 'admin' CHECK (role_from IN ('admin', 'provider')), -- who gave the role: an admin, or the provider at each sign-in
    password TEXT, -- the argon2 hash of the password, none for one who signs in elsewhere
    email TEXT NOT NULL DEFAULT '', -- as the provider or an admin gave it, may be empty
    issuer TEXT, -- the OpenID provider that knows the person
    subject TEXT, -- and the number that it knows them by
    created_at TEXT NOT NULL, -- when the account was made
    created_by TEXT NOT NULL, -- and by whom
    disabled_at TEXT, -- since when they are shut out, none where they are not
    UNIQUE (issuer, subject)
) STRICT"""

_SIGN_INS = """CREATE TABLE sign_ins ( -- browsers that people are, or were, signed in on
    key TEXT PRIMARY KEY, -- the SHA-256 of what the browser's cookie holds
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE, -- who
    way TEXT NOT NULL CHECK (way IN ('password', 'provider')), -- how they proved it
    browser TEXT NOT NULL, -- what the browser calls itself, shortened
    began_at TEXT NOT NULL, -- when
    seen_at TEXT NOT NULL, -- when it was last used, to a few minutes
    expires_at TEXT NOT NULL, -- when it ends whatever happens
    ended_at TEXT, -- when it was ended, none where it was not
    ended_by TEXT NOT NULL DEFAULT '' -- and by whom
) STRICT, WITHOUT ROWID"""

_TOKENS = """CREATE TABLE tokens ( -- what scripts show instead of a password
    id INTEGER PRIMARY KEY, -- its number
    key TEXT NOT NULL UNIQUE, -- the SHA-256 of the token, which is nowhere kept itself
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE, -- whom it stands for
    name TEXT NOT NULL, -- what it is for, in the person's words
    scope TEXT NOT NULL CHECK (scope IN ('read', 'launch')), -- whether it may launch too
    made_at TEXT NOT NULL, -- when
    expires_at TEXT NOT NULL, -- when it ends
    used_at TEXT, -- when it was last used, to a few minutes
    revoked_at TEXT -- when it was taken back, none where it was not
) STRICT"""

_AUDIT = """CREATE TABLE audit ( -- every command that anyone gave, done or refused; rows are only ever added
    id INTEGER PRIMARY KEY, -- its place in time
    at TEXT NOT NULL, -- when
    who TEXT NOT NULL, -- the name that it was given under
    role TEXT NOT NULL, -- what they were then: a role, anyone (a lab without accounts), program, or nobody
    command TEXT NOT NULL, -- its name in engine/access/rules.py, or sign in and sign out
    kind TEXT NOT NULL, -- what it was done to: run, sweep, duel, view, person, token; empty for none
    targets TEXT NOT NULL, -- which of them, a JSON list of ids or names
    detail TEXT NOT NULL, -- its short arguments
    refused TEXT NOT NULL -- why it was refused, empty where it was done
) STRICT"""

_DISK = """CREATE TABLE disk ( -- how much disk each run takes, as the runner last measured it; what people may take is held against it
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    version INTEGER NOT NULL, -- its change token when it was measured: one with a higher token is measured again
    file_bytes INTEGER NOT NULL, -- what the files of its folder take
    point_bytes INTEGER NOT NULL -- about what its points take in the store
) STRICT"""

_LAUNCH_KEYS = """CREATE TABLE launch_keys ( -- launches that a script gave a key, so that a request that is sent twice launches once
    owner TEXT NOT NULL, -- who launched
    key TEXT NOT NULL, -- what the script calls the launch
    asked TEXT NOT NULL, -- the SHA-256 of what it asked for
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run that came of it
    made_at TEXT NOT NULL, -- when; it is forgotten after a week
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID"""

_LONG_CONFIGS = """CREATE TABLE long_configs ( -- the whole of each config that a run's row holds a part of
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, -- the run
    bytes INTEGER NOT NULL, -- how long it is
    config TEXT NOT NULL -- all settings, as JSON
) STRICT"""

LATER_TABLES = (
    *(
        _BUCKETS,
        _MACHINE_SAMPLES,
        _VIEWS,
        _ORIGINS,
        _LOOKS,
        _DUELS,
        _DUEL_SWEEPS,
        _PEOPLE,
        _SIGN_INS,
        _TOKENS,
        _AUDIT,
        _DISK,
        _LAUNCH_KEYS,
        _LONG_CONFIGS,
    ),
    *NOTICE_TABLES,
)
"""Tables that later steps add."""
LATER: dict[str, str] = {
    "runs.time_before_s": "the training time of the runs that it goes on from",
    "metrics.thinned": "points that the gc command took away; all that stands beside it is of the points before that",
    "runs.priority": "0 low, 1 normal, 2 high: a higher one goes first",
    "runs.place": "the order within a priority, the least first",
    "runs.held_by": "who keeps it from starting while it is queued, none where it may",
    "runs.oversubscribe": "1 where it may start on cores that other runs hold; it is bound to none then",
    "runs.core_ids": "CPU cores that the runner gave, a JSON list",
    "runs.starred_by": "who gave it a star, none where nobody did",
    "runs.pinned_by": "who made it its experiment's baseline, none where it is not",
    "runs.archived_by": "who put it out of the tables, none where it is in them",
    "runs.seeding": (
        "the rule that its ranks draw random numbers by (engine/seeding.py): 1 seed + rank, 2 a stream for each "
        "purpose and rank"
    ),
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
    "runs.worker_pid_namespace": "the PID namespace that its worker's pid counts in; none where that was not recorded",
    "runner.pid_namespace": "the PID namespace that its pid counts in; none where that was not recorded",
    "runs.data_folder": (
        "the data folder that the environment of whoever launched it named (PARALLAB_DATA); none where it named "
        "none: the runner's then"
    ),
    "sweeps.figure": "the published figure that it was launched as, with its size, such as hogwild/full; empty for none",
    "disk.text_bytes": "what its config, its environment and its error take in the store",
    "sweeps.fingerprint": (
        "what tells one that was imported from any other sweep, the same in every store; empty for one that was "
        "launched here"
    ),
    "runner.network": "what ranks listen on: namespace, container or host; empty where the runner did not say",
}
"""Words of the columns that later steps add, by 'table.column'."""


@steps()
def first_schema(db: Database) -> None:
    """Make every table, those too whose display comes later."""
    for statement in (*TABLES, *INDEXES, ENDS_ARE_LAST):
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
    for column in (
        "held INTEGER NOT NULL DEFAULT 0",
        "exclusive INTEGER NOT NULL DEFAULT 0",
        "stop_after INTEGER",
        "draw TEXT NOT NULL DEFAULT ''",
    ):
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
def sweeps_of_figures(db: Database) -> None:
    """Find the sweeps that were launched as a published figure."""
    db.execute("ALTER TABLE sweeps ADD COLUMN figure TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX sweeps_figure ON sweeps (figure) WHERE figure <> ''")


@steps()
def saved_views(db: Database) -> None:
    """Keep pages as people left them, under names."""
    db.execute(_VIEWS)


@steps()
def marks_on_runs(db: Database) -> None:
    """Let runs be starred, put away, and be the one baseline of their experiment."""
    for column in ("starred_by TEXT", "pinned_by TEXT", "archived_by TEXT"):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    db.execute("CREATE UNIQUE INDEX runs_pinned ON runs (experiment) WHERE pinned_by IS NOT NULL")


@steps()
def origins_of_imported_runs(db: Database) -> None:
    """Let a run say which store or program it comes from, and be known again."""
    db.execute(_ORIGINS)


@steps()
def sweeps_from_elsewhere(db: Database) -> None:
    """Know a sweep of another store again when more of its runs come."""
    db.execute("ALTER TABLE sweeps ADD COLUMN fingerprint TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE UNIQUE INDEX sweeps_fingerprint ON sweeps (fingerprint) WHERE fingerprint <> ''")


@steps()
def looks_at_the_home_page(db: Database) -> None:
    """Say what is new to a person, and find what has ended since a moment without a look at all runs."""
    db.execute(_LOOKS)
    db.execute("CREATE INDEX runs_ended ON runs (ended_at, archived_by, sweep_id, status) WHERE ended_at IS NOT NULL")
    db.execute("CREATE INDEX runs_archived ON runs (archived_by) WHERE archived_by IS NOT NULL")


@steps()
def duels(db: Database) -> None:
    """Keep duels, and find those that are to go on."""
    db.execute(_DUELS)
    db.execute(_DUEL_SWEEPS)
    db.execute("CREATE INDEX duels_tuning ON duels (id) WHERE stage = 'tuning'")


@steps()
def people_and_their_commands(db: Database) -> None:
    """Let people have accounts with roles, sign in, have tokens, and be asked about afterwards; what was written of
    commands stays as it was.
    """
    for statement in (_PEOPLE, _SIGN_INS, _TOKENS, _AUDIT):
        db.execute(statement)
    db.execute("CREATE INDEX sign_ins_person ON sign_ins (person_id)")
    db.execute("CREATE INDEX tokens_person ON tokens (person_id)")
    db.execute("CREATE INDEX audit_who ON audit (who, command, at)")
    for act in ("UPDATE", "DELETE"):
        refusal = "SELECT RAISE(ABORT, 'rows of the audit log are only ever added')"
        db.execute(f"CREATE TRIGGER audit_keeps_{act.lower()} BEFORE {act} ON audit BEGIN {refusal}; END")


@steps()
def notices_and_their_channels(db: Database) -> None:
    """Let people be told, wherever they are, that something of theirs has ended."""
    for statement in (*NOTICE_TABLES, *NOTICE_INDEXES):
        db.execute(statement)
    for host in FIRST_RECEIVERS:
        db.execute(
            "INSERT INTO receivers (kind, host, port, added_at, added_by) VALUES ('public', ?, 443, ?, 'parallab')",
            [host, now()],
        )


@steps()
def disk_that_runs_take(db: Database) -> None:
    """Know how much disk each run takes, so that people can be held to a limit."""
    db.execute(_DISK)
    db.execute("CREATE INDEX disk_version ON disk (version)")


@steps()
def launches_with_a_key(db: Database) -> None:
    """Let a request that launches be sent twice and launch once."""
    db.execute(_LAUNCH_KEYS)
    db.execute("CREATE INDEX launch_keys_run ON launch_keys (run_id)")
    db.execute("CREATE INDEX launch_keys_made ON launch_keys (made_at)")


@steps()
def rule_of_random_numbers(db: Database) -> None:
    """Know by which rule a run draws random numbers; a run that waits will draw by the rule of this version."""
    db.execute("ALTER TABLE runs ADD COLUMN seeding INTEGER NOT NULL DEFAULT 1 CHECK (seeding > 0)")
    db.execute("UPDATE runs SET seeding = 2 WHERE status = 'queued'")
    db.execute(
        "UPDATE runs SET resumes = 0 WHERE status = 'queued' AND attempt > 0"
    )  # the runner's own retries: a checkpoint of the old rule resumes nothing


@steps()
def pid_namespaces(db: Database) -> None:
    """Tell a process of another PID namespace from one that is gone; the namespace of those that were recorded before
    is not known.
    """
    db.execute("ALTER TABLE runs ADD COLUMN worker_pid_namespace INTEGER")
    db.execute("ALTER TABLE runner ADD COLUMN pid_namespace INTEGER")


@steps()
def data_folders_of_launches(db: Database) -> None:
    """Let a run read its data sets where the person who launched it has them, whatever its runner was started with."""
    db.execute("ALTER TABLE runs ADD COLUMN data_folder TEXT")


@steps()
def network_of_the_runner(db: Database) -> None:
    """Know what ranks would listen on, so that a launch can be refused before it waits in the queue."""
    db.execute("ALTER TABLE runner ADD COLUMN network TEXT NOT NULL DEFAULT ''")


@steps()
def long_configs(db: Database) -> None:
    """Keep the rows of runs short, whatever an import brought, and count their texts in what they take of the disk."""
    db.execute(_LONG_CONFIGS)
    for (run_id,) in db.execute("SELECT id FROM runs").fetchall():
        move_out(db.conn, run_id)
    db.execute("ALTER TABLE disk ADD COLUMN text_bytes INTEGER NOT NULL DEFAULT 0")
    db.execute(f"UPDATE disk SET text_bytes = (SELECT {TEXT_BYTES} FROM runs WHERE runs.id = disk.run_id)")


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Apply all steps that a store lacks in one transaction: whoever reads meanwhile sees the schema before or after,
    never between.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        steps.apply(Database(connection))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def applied(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of the steps that a store has; raises StoreTooNew where it has one that this version does not
    know.
    """
    table = steps.migrations_table
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone() is None:
        return set()
    found = {
        str(row[0]) for row in connection.execute(f"SELECT name FROM {table} WHERE migration_set = ?", [steps.name])
    }
    if ahead := sorted(found - known()):
        raise StoreTooNew(
            f"The store {path} was written by a newer Parallab (it has the schema step '{ahead[0]}'). Update "
            "this checkout, or name another PARALLAB_HOME."
        )
    return found


def known() -> set[str]:
    """Return the names of all steps of this version."""
    return {step.name for step in steps._migrations}


def newest() -> str:
    """Return the name of the last step of this version."""
    return str(steps._migrations[-1].name)
