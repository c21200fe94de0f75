"""Tables, indexes and triggers of the first version. Never edit them: they shipped, and later changes are steps in
migrations.py.
"""

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

INDEXES = (
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
ENDS_ARE_LAST = """CREATE TRIGGER ends_are_last BEFORE UPDATE OF status ON runs
WHEN OLD.status IN ('finished', 'failed', 'cancelled', 'lost') AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'a run that ended never changes its status'); END"""
