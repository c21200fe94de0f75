"""The schema, as a list of steps. Add a step; never edit one that shipped.

Each column stands on a line of its own with its words behind it: docs/schema.md is written from them
(engine/store/schema/docs.py). The tables that the first step makes are in tables.py.
"""

import json
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from os.path import normpath
from pathlib import Path
from sqlite3 import Connection

from engine.store.schema.config_text import TEXT_BYTES, move_out
from engine.store.schema.first_tables import ENDS_ARE_LAST, INDEXES, TABLES
from engine.store.schema.later_tables import (
    AGENT_LAUNCHES,
    ARRIVALS,
    ATTEMPT_RUNS,
    ATTEMPTS,
    AUDIT,
    BUCKETS,
    CLONES,
    CLUSTER_JOBS,
    COMMANDS,
    DISK,
    DUEL_SWEEPS,
    DUELS,
    EXERCISES,
    FILE_USES,
    FILES,
    FIRST_RECEIVERS,
    LAUNCH_KEYS,
    LONG_CONFIGS,
    LOOKS,
    MACHINE_SAMPLES,
    NOTICE_INDEXES,
    NOTICE_TABLES,
    ONLY_LOST_GOES_ON,
    ORIGINS,
    PEOPLE,
    RECIPES,
    REPORT_WRITERS,
    SCRIPT_METRICS,
    SIGN_INS,
    SUBSCRIPTIONS,
    TOKENS,
    TRACES,
    VIEWS,
    WEBHOOK_REPLACED,
)
from engine.store.schema.minmax_buckets import rebuild
from engine.store.timestamps import now

# ---- A list of schema steps, in the order of their definition ------------------------------------------------------
# A function's name identifies its step in every store.

TABLE = "_sqlite_migrations"
"""sqlite-utils' table of applied steps; a test compares the names."""
Step = Callable[[sqlite3.Connection], None]


class Steps:
    """The steps of a schema, which a store records under `name`; each is a function, registered as a decorator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_name: dict[str, Step] = {}

    def __call__(self) -> Callable[[Step], Step]:
        """Return a decorator that adds a step."""

        def add(step: Step) -> Step:
            name = step.__name__
            assert name not in self.by_name, f"two steps are named {name}"
            self.by_name[name] = step
            return step

        return add


# ---- Migrations ----------------------------------------------------------------------------------------------------

steps = Steps("parallab")


@steps()
def first_schema(db: Connection) -> None:
    """Make every table, those too whose display comes later."""
    for statement in (*TABLES, *INDEXES, ENDS_ARE_LAST):
        db.execute(statement)


@steps()
def index_of_parents(db: Connection) -> None:
    """Find the runs that resume a run without a look at all others."""
    db.execute("CREATE INDEX runs_parent ON runs (parent_id) WHERE parent_id IS NOT NULL")


@steps()
def time_before_a_resumption(db: Connection) -> None:
    """Let a resumed run count its time from where its parent's checkpoint was."""
    db.execute("ALTER TABLE runs ADD COLUMN time_before_s REAL NOT NULL DEFAULT 0")


@steps()
def index_of_micro_batches(db: Connection) -> None:
    """Find the spans of one batch of a pipeline without a look at its other batches."""
    db.execute("CREATE INDEX spans_micro_batch ON spans (run_id, micro_batch)")


@steps()
def corners_of_long_curves(db: Connection) -> None:
    """Draw a curve of any length without reading all of it, and let the gc command say what it took away."""
    db.execute("ALTER TABLE metrics ADD COLUMN thinned INTEGER NOT NULL DEFAULT 0")
    db.execute(BUCKETS)
    for (metric_id,) in db.execute("SELECT id FROM metrics").fetchall():
        rebuild(db, metric_id)


@steps()
def order_of_the_queue(db: Connection) -> None:
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
def machine_samples(db: Connection) -> None:
    """Keep what the machine did over the last hour, whether or not a run was on."""
    db.execute(MACHINE_SAMPLES)


@steps()
def sweeps_that_change(db: Connection) -> None:
    """Let a sweep be paused, drawn, stopped after failures, and have the machine to itself."""
    for column in (
        "held INTEGER NOT NULL DEFAULT 0",
        "exclusive INTEGER NOT NULL DEFAULT 0",
        "stop_after INTEGER",
        "draw TEXT NOT NULL DEFAULT ''",
    ):
        db.execute(f"ALTER TABLE sweeps ADD COLUMN {column}")


@steps()
def stops_and_retries(db: Connection) -> None:
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
def sweeps_of_figures(db: Connection) -> None:
    """Find the sweeps that were launched as a published figure."""
    db.execute("ALTER TABLE sweeps ADD COLUMN figure TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX sweeps_figure ON sweeps (figure) WHERE figure <> ''")


@steps()
def saved_views(db: Connection) -> None:
    """Keep pages as people left them, under names."""
    db.execute(VIEWS)


@steps()
def marks_on_runs(db: Connection) -> None:
    """Let runs be starred, put away, and be the one baseline of their experiment."""
    for column in ("starred_by TEXT", "pinned_by TEXT", "archived_by TEXT"):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    db.execute("CREATE UNIQUE INDEX runs_pinned ON runs (experiment) WHERE pinned_by IS NOT NULL")


@steps()
def origins_of_imported_runs(db: Connection) -> None:
    """Let a run say which store or program it comes from, and be known again."""
    db.execute(ORIGINS)


@steps()
def sweeps_from_elsewhere(db: Connection) -> None:
    """Know a sweep of another store again when more of its runs come."""
    db.execute("ALTER TABLE sweeps ADD COLUMN fingerprint TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE UNIQUE INDEX sweeps_fingerprint ON sweeps (fingerprint) WHERE fingerprint <> ''")


@steps()
def looks_at_the_home_page(db: Connection) -> None:
    """Say what is new to a person, and find what has ended since a moment without a look at all runs."""
    db.execute(LOOKS)
    db.execute("CREATE INDEX runs_ended ON runs (ended_at, archived_by, sweep_id, status) WHERE ended_at IS NOT NULL")
    db.execute("CREATE INDEX runs_archived ON runs (archived_by) WHERE archived_by IS NOT NULL")


@steps()
def duels(db: Connection) -> None:
    """Keep duels, and find those that are to go on."""
    db.execute(DUELS)
    db.execute(DUEL_SWEEPS)
    db.execute("CREATE INDEX duels_tuning ON duels (id) WHERE stage = 'tuning'")


@steps()
def people_and_their_commands(db: Connection) -> None:
    """Let people have accounts with roles, sign in, have tokens, and be asked about afterwards; what was written of
    commands stays as it was.
    """
    for statement in (PEOPLE, SIGN_INS, TOKENS, AUDIT):
        db.execute(statement)
    db.execute("CREATE INDEX sign_ins_person ON sign_ins (person_id)")
    db.execute("CREATE INDEX tokens_person ON tokens (person_id)")
    db.execute("CREATE INDEX audit_who ON audit (who, command, at)")
    for act in ("UPDATE", "DELETE"):
        refusal = "SELECT RAISE(ABORT, 'rows of the audit log are only ever added')"
        db.execute(f"CREATE TRIGGER audit_keeps_{act.lower()} BEFORE {act} ON audit BEGIN {refusal}; END")


@steps()
def notices_and_their_channels(db: Connection) -> None:
    """Let people be told, wherever they are, that something of theirs has ended."""
    for statement in (*NOTICE_TABLES, *NOTICE_INDEXES):
        db.execute(statement)
    for host in FIRST_RECEIVERS:
        db.execute(
            "INSERT INTO receivers (kind, host, port, added_at, added_by) VALUES ('public', ?, 443, ?, 'parallab')",
            [host, now()],
        )


@steps()
def disk_that_runs_take(db: Connection) -> None:
    """Know how much disk each run takes, so that people can be held to a limit."""
    db.execute(DISK)
    db.execute("CREATE INDEX disk_version ON disk (version)")


@steps()
def launches_with_a_key(db: Connection) -> None:
    """Let a request that launches be sent twice and launch once."""
    db.execute(LAUNCH_KEYS)
    db.execute("CREATE INDEX launch_keys_run ON launch_keys (run_id)")
    db.execute("CREATE INDEX launch_keys_made ON launch_keys (made_at)")


@steps()
def rule_of_random_numbers(db: Connection) -> None:
    """Know by which rule a run draws random numbers; a run that waits will draw by the rule of this version."""
    db.execute("ALTER TABLE runs ADD COLUMN seeding INTEGER NOT NULL DEFAULT 1 CHECK (seeding > 0)")
    db.execute("UPDATE runs SET seeding = 2 WHERE status = 'queued'")
    db.execute(
        "UPDATE runs SET resumes = 0 WHERE status = 'queued' AND attempt > 0"
    )  # the runner's own retries: a checkpoint of the old rule resumes nothing


@steps()
def pid_namespaces(db: Connection) -> None:
    """Tell a process of another PID namespace from one that is gone; the namespace of those that were recorded before
    is not known.
    """
    db.execute("ALTER TABLE runs ADD COLUMN worker_pid_namespace INTEGER")
    db.execute("ALTER TABLE runner ADD COLUMN pid_namespace INTEGER")


@steps()
def data_folders_of_launches(db: Connection) -> None:
    """Let a run read its data sets where the person who launched it has them, whatever its runner was started with."""
    db.execute("ALTER TABLE runs ADD COLUMN data_folder TEXT")


@steps()
def network_of_the_runner(db: Connection) -> None:
    """Know what ranks would listen on, so that a launch can be refused before it waits in the queue."""
    db.execute("ALTER TABLE runner ADD COLUMN network TEXT NOT NULL DEFAULT ''")


@steps()
def long_configs(db: Connection) -> None:
    """Keep the rows of runs short, whatever an import brought, and count their texts in what they take of the disk."""
    db.execute(LONG_CONFIGS)
    for (run_id,) in db.execute("SELECT id FROM runs").fetchall():
        move_out(db, run_id)
    db.execute("ALTER TABLE disk ADD COLUMN text_bytes INTEGER NOT NULL DEFAULT 0")
    db.execute(f"UPDATE disk SET text_bytes = (SELECT {TEXT_BYTES} FROM runs WHERE runs.id = disk.run_id)")


@steps()
def timing_of_sweeps(db: Connection) -> None:
    """Let a sweep repeat its combinations until their median times are known."""
    db.execute("ALTER TABLE sweeps ADD COLUMN timing TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX sweeps_timing ON sweeps (id) WHERE timing <> ''")


@steps()
def traces(db: Connection) -> None:
    """Keep what the ranks of a run did, operation by operation, in samples of the run."""
    for table in TRACES:
        db.execute(table)
    db.execute("CREATE INDEX trace_chunks_run ON trace_chunks (run_id, id)")
    db.execute("CREATE INDEX trace_requests_run ON trace_requests (run_id, id)")


@steps()
def end_of_hung_runs(db: Connection) -> None:
    """Let a run end when it hangs."""
    db.execute("ALTER TABLE runs ADD COLUMN end_when_hung INTEGER NOT NULL DEFAULT 0")


@steps()
def clusters(db: Connection) -> None:
    """Let a run be a job of a cluster, whose records come from a file of its job folder."""
    db.execute("ALTER TABLE runs ADD COLUMN target TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE runs ADD COLUMN nodes INTEGER NOT NULL DEFAULT 1")
    db.execute(CLUSTER_JOBS)


@steps()
def equal_work_of_sweeps(db: Connection) -> None:
    """Let the runs of a sweep differ in their length so that all do the same total work."""
    db.execute("ALTER TABLE sweeps ADD COLUMN equal_work TEXT NOT NULL DEFAULT ''")


@steps()
def arrivals_of_imports(db: Connection) -> None:
    """Let an import write its runs in portions, and find what a killed one has left."""
    db.execute(ARRIVALS)


@steps()
def run_identities(db: Connection) -> None:
    """Let a checkpoint name its run, whose number another run may get after a restore."""
    db.execute("ALTER TABLE runs ADD COLUMN uid TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE runs ADD COLUMN resumed_uid TEXT NOT NULL DEFAULT ''")
    db.execute("UPDATE runs SET uid = lower(hex(randomblob(16)))")
    db.execute(
        "CREATE TRIGGER run_uid AFTER INSERT ON runs WHEN NEW.uid = ''"
        " BEGIN UPDATE runs SET uid = lower(hex(randomblob(16))) WHERE id = NEW.id; END"
    )


@steps()
def channels_of_the_lab(db: Connection) -> None:
    """Let people subscribe to channels that an admin defines. What they had entered themselves is kept: e-mail goes to a
    channel of that name, webhooks are paused until a channel replaces them.
    """
    for statement in SUBSCRIPTIONS:
        db.execute(statement)
    db.execute("UPDATE subscriptions SET channel = 'email' WHERE kind = 'email'")
    db.execute(
        "UPDATE subscriptions SET webhook = address, address = '', paused_at = coalesce(paused_at, ?), paused_because "
        "= trim(? || ' ' || paused_because) WHERE kind <> 'email'",
        [now(), WEBHOOK_REPLACED],
    )
    for column in ("subscriptions DROP COLUMN kind", "subscriptions DROP COLUMN failures", "outbox DROP COLUMN lease"):
        db.execute(f"ALTER TABLE {column}")


@steps()
def commands_of_scripts(db: Connection) -> None:
    """Let a run be a command of the lab's own script, saved as a recipe or not, for the people who may run commands."""
    db.execute(COMMANDS)
    db.execute(RECIPES)
    for table in ("runs", "sweeps"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN command_id INTEGER REFERENCES commands (id)")
    db.execute("CREATE INDEX runs_command ON runs (command_id) WHERE command_id IS NOT NULL")
    db.execute("ALTER TABLE people ADD COLUMN runs_commands INTEGER NOT NULL DEFAULT 0")


@steps()
def metrics_of_scripts(db: Connection) -> None:
    """Let people set which metrics of a script are shown, and their units and directions."""
    db.execute(SCRIPT_METRICS)


@steps()
def scripts_of_commands(db: Connection) -> None:
    """Tell scripts of the same name apart: by their path, or by the name of the recipe. What was set for a name is kept
    for each script that had it.
    """
    db.execute("ALTER TABLE commands ADD COLUMN script TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE script_metrics RENAME COLUMN experiment TO script")
    before = db.execute("SELECT script, name, is_shown, unit, better FROM script_metrics").fetchall()
    db.execute("DELETE FROM script_metrics")
    columns = {"runs": "experiment", "sweeps": "experiment", "recipes": "name"}
    of = " UNION ".join(f"SELECT {name} AS name FROM {table} WHERE command_id = ?1" for table, name in columns.items())
    for number, spec, *rest in db.execute("SELECT id, spec, result, better, created_at FROM commands").fetchall():
        known = json.loads(spec)
        path = normpath(Path(known["folder"], known["script"] or known["name"]))
        path = path if "/" in path else f"./{path}"
        for place, (name,) in enumerate(db.execute(of, [number]).fetchall() or [(known["name"],)]):
            script = path if name == known["name"] else name
            digest = sha256(f"{script}\n{spec}".encode()).hexdigest()
            if place == 0:
                db.execute("UPDATE commands SET script = ?, digest = ? WHERE id = ?", [script, digest, number])
            else:
                sql = (
                    "INSERT INTO commands (script, digest, spec, result, better, created_at) VALUES (?, ?, ?, ?, ?, ?)"
                )
                copy = db.execute(sql, [script, digest, spec, *rest]).lastrowid
                for table, column in columns.items():
                    sql = f"UPDATE {table} SET command_id = ? WHERE command_id = ? AND {column} = ?"
                    db.execute(sql, [copy, number, name])
            for row in before:
                if row[0] == name:
                    db.execute("INSERT OR IGNORE INTO script_metrics VALUES (?, ?, ?, ?, ?)", [script, *row[1:]])
    db.execute("CREATE INDEX commands_script ON commands (script)")
    db.execute("DROP INDEX runs_pinned")
    db.execute("CREATE INDEX runs_pinned ON runs (experiment) WHERE pinned_by IS NOT NULL")


@steps()
def names_in_one_line(db: Connection) -> None:
    """Show names of runs imported by earlier versions in one line, as new ones are."""
    for table in ("runs", "sweeps", "duels"):
        breaks = " OR ".join(f"instr(name, char({code}))" for code in (9, 10, 13))
        for number, name in db.execute(f"SELECT id, name FROM {table} WHERE {breaks}").fetchall():
            db.execute(f"UPDATE {table} SET name = ? WHERE id = ?", [" ".join(name.split()), number])


@steps()
def origins_of_clones(db: Connection) -> None:
    """Record which run a clone has its settings from."""
    db.execute(CLONES)
    db.execute("CREATE INDEX clones_origin ON clones (origin)")


@steps()
def tokens_of_agents(db: Connection) -> None:
    """Let a token be an agent's, with a quota of its own: the runs that it launched."""
    db.execute("ALTER TABLE tokens ADD COLUMN agent_runs INTEGER")
    db.execute(AGENT_LAUNCHES)


@steps()
def runs_of_programs_outside(db: Connection) -> None:
    """Let a program outside of Parallab report a run, be known again by its key, and go on where it was taken to be lost."""
    db.execute("ALTER TABLE runs ADD COLUMN report_key TEXT")
    db.execute("CREATE UNIQUE INDEX runs_report_key ON runs (owner, report_key) WHERE report_key IS NOT NULL")
    db.execute(REPORT_WRITERS)
    db.execute("DROP TRIGGER ends_are_last")
    db.execute(ONLY_LOST_GOES_ON)


@steps()
def files_of_runs(db: Connection) -> None:
    """Let a run keep files, and use those of others."""
    db.execute(FILES)
    db.execute(FILE_USES)
    for table in ("files", "file_uses"):
        db.execute(f"CREATE INDEX {table}_sha256 ON {table} (sha256)")


@steps()
def exercises_of_classes(db: Connection) -> None:
    """Let a teacher open exercises, and keep each attempt with its prediction, its runs and its answers."""
    for table in (EXERCISES, ATTEMPTS, ATTEMPT_RUNS):
        db.execute(table)
    db.execute("CREATE INDEX attempts_exercise ON attempts (exercise, id)")
    db.execute("CREATE INDEX attempt_runs_attempt ON attempt_runs (attempt_id)")
    db.execute(
        "CREATE TRIGGER predictions_stay BEFORE UPDATE OF prediction ON attempts"
        " BEGIN SELECT RAISE(ABORT, 'a prediction never changes'); END"
    )


@steps()
def classes_that_go_first(db: Connection) -> None:
    """Let a teacher put the runs of a class before other queued runs; classes of before keep their places."""
    db.execute("ALTER TABLE exercises ADD COLUMN class_first INTEGER NOT NULL DEFAULT 0")
