"""Tables and columns added by later schema steps, with descriptions: the source of docs/schema.md."""


# ---- Tables of notifications: channels, messages and permitted receivers -------------------------------------------
# Descriptions as in first_tables.py.

_CHANNELS = """CREATE TABLE channels ( -- where people are told that something of theirs has ended
    id INTEGER PRIMARY KEY, -- its number
    owner TEXT NOT NULL, -- whom it tells: the owner of runs, sweeps and duels
    kind TEXT NOT NULL CHECK (kind IN ('slack', 'discord', 'json', 'email')), -- what its messages are written for
    address TEXT NOT NULL, -- where they go, a secret; of e-mail empty where it is the address of the owner's account
    ends TEXT NOT NULL CHECK (ends IN ('all', 'bad')), -- which ends it tells of
    reach TEXT NOT NULL CHECK (reach IN ('runs', 'wholes')), -- of single runs too, or only of whole sweeps and duels
    created_at TEXT NOT NULL, -- when it was made
    failures INTEGER NOT NULL DEFAULT 0, -- messages given up since the last one that arrived
    paused_at TEXT, -- since when it tells nothing, none where it does
    paused_because TEXT NOT NULL DEFAULT '' -- and why, one sentence
) STRICT"""

_OUTBOX = """CREATE TABLE outbox ( -- messages, each written in the transaction that ended what it tells of
    id INTEGER PRIMARY KEY, -- the order of the ends
    key TEXT NOT NULL UNIQUE, -- what a receiver knows it by again where it comes twice
    channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE, -- where it goes
    kind TEXT NOT NULL CHECK (kind IN ('run', 'sweep', 'duel', 'failure', 'test')), -- what has ended; failure: the first bad end in a sweep or duel
    run_id INTEGER REFERENCES runs (id) ON DELETE CASCADE, -- the run
    sweep_id INTEGER REFERENCES sweeps (id) ON DELETE CASCADE, -- the sweep
    duel_id INTEGER REFERENCES duels (id) ON DELETE CASCADE, -- the duel
    made_at TEXT NOT NULL, -- when it ended
    attempts INTEGER NOT NULL DEFAULT 0, -- how often it was sent or tried to be
    due_at TEXT NOT NULL, -- when it is to be tried next
    lease TEXT NOT NULL DEFAULT '', -- the process that is sending it, empty for none
    delivered_at TEXT, -- when its receiver took it
    failed_at TEXT, -- when it was given up
    last_error TEXT NOT NULL DEFAULT '' -- why the last try failed, one sentence
) STRICT"""

_RECEIVERS = """CREATE TABLE receivers ( -- whom messages may go to
    kind TEXT NOT NULL CHECK (kind IN ('public', 'internal', 'mail')), -- a webhook's host out in the world, one inside the lab's network, a domain of e-mail
    host TEXT NOT NULL, -- its name or address, in small letters
    port INTEGER NOT NULL, -- its port, 0 for e-mail
    added_at TEXT NOT NULL, -- when it was allowed
    added_by TEXT NOT NULL, -- and by whom
    PRIMARY KEY (kind, host, port)
) STRICT, WITHOUT ROWID"""

NOTICE_TABLES = (_CHANNELS, _OUTBOX, _RECEIVERS)
NOTICE_INDEXES = (
    "CREATE INDEX channels_owner ON channels (owner)",
    "CREATE INDEX outbox_due ON outbox (due_at) WHERE delivered_at IS NULL AND failed_at IS NULL",
    "CREATE INDEX outbox_channel ON outbox (channel_id, id)",
    *(
        f"CREATE INDEX outbox_{name} ON outbox ({name}_id) WHERE {name}_id IS NOT NULL"
        for name in ("run", "sweep", "duel")
    ),
)
FIRST_RECEIVERS = ("hooks.slack.com", "discord.com")
"""Permitted webhook hosts of a new lab, until channels were an admin's."""
SUBSCRIPTIONS = (
    "ALTER TABLE channels RENAME TO subscriptions",
    "ALTER TABLE subscriptions ADD COLUMN channel TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE subscriptions ADD COLUMN webhook TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE outbox RENAME COLUMN channel_id TO subscription_id",
    "DROP INDEX channels_owner",
    "CREATE INDEX subscriptions_owner ON subscriptions (owner)",
    "DROP INDEX outbox_channel",
    "CREATE INDEX outbox_subscription ON outbox (subscription_id, id)",
    "DROP TABLE receivers",  # who permitted which host is in the audit log
)
"""Turns channels of people into subscriptions to those of the lab."""
WEBHOOK_REPLACED = (
    "An admin defines webhooks now. Ask one to define a channel for this webhook (docs/notifications.md), then choose "
    "that channel here."
)


# ---- Later tables --------------------------------------------------------------------------------------------------

BUCKETS = """CREATE TABLE buckets ( -- the corners of each 256 neighbours of a metric, counted from its first point: what a long curve is drawn from
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

MACHINE_SAMPLES = """CREATE TABLE machine_samples ( -- the machine's numbers of the last hour, by the runner; older ones are deleted
    at TEXT NOT NULL, -- when it was measured
    source TEXT NOT NULL, -- host, gpu0, gpu1 and so on
    name TEXT NOT NULL, -- such as cpu_percent or memory_mb
    value REAL NOT NULL, -- the number
    PRIMARY KEY (at, source, name)
) STRICT, WITHOUT ROWID"""

VIEWS = """CREATE TABLE views ( -- pages as somebody left them, under a name
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL, -- what its owner calls it
    owner TEXT NOT NULL, -- who saved it, and alone may delete it
    page TEXT NOT NULL, -- the page's path without the slash, such as compare
    query TEXT NOT NULL, -- what stands behind the question mark of the page's address
    saved_at TEXT NOT NULL, -- when it was last saved
    UNIQUE (owner, page, name)
) STRICT"""

ORIGINS = """CREATE TABLE origins ( -- where the runs come from that another store or another program recorded
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

TRACES = (
    """CREATE TABLE trace_windows ( -- the stretches of a run whose operations are stored
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    begin_ns INTEGER NOT NULL, -- start on the machine's monotonic clock; all ranks are ready at the start of the first
    end_ns INTEGER NOT NULL, -- end on the same clock
    reason TEXT NOT NULL CHECK (reason IN ('start', 'sample', 'request', 'end')), -- why it is stored
    PRIMARY KEY (run_id, begin_ns)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE trace_chunks ( -- operations of one rank in a row
    id INTEGER PRIMARY KEY, -- the order recorded
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    rank INTEGER NOT NULL, -- its rank
    entries INTEGER NOT NULL, -- number of operations
    lost INTEGER NOT NULL, -- operations overwritten before they could be read, since the rank's last chunk
    names TEXT NOT NULL, -- the names that operations refer to by index, as JSON
    content TEXT NOT NULL -- the operations, 64 bytes each (engine/trace/chunk.py), compressed by zlib, in base64
) STRICT""",
    """CREATE TABLE trace_requests ( -- stretches of a running run that somebody wants stored
    id INTEGER PRIMARY KEY, -- the order of requests
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    seconds REAL NOT NULL, -- how long, from the moment that the worker sees it
    requested_by TEXT NOT NULL, -- who
    requested_at TEXT NOT NULL -- when
) STRICT""",
    """CREATE TABLE run_health ( -- what each rank of a run did when its worker last looked, and whether one hangs
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    at TEXT NOT NULL, -- when
    health TEXT NOT NULL -- states of the ranks and the verdict, as JSON
) STRICT""",
)

LOOKS = """CREATE TABLE looks ( -- when each person looked at the Home page
    person TEXT PRIMARY KEY, -- the name that the person goes by
    looked_at TEXT NOT NULL, -- when they last did
    new_since TEXT NOT NULL -- from when on what ended was new to them then; empty during the first visit
) STRICT, WITHOUT ROWID"""

DUELS = """CREATE TABLE duels ( -- strategies compared on one budget
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL, -- what its owner calls it, may be empty
    owner TEXT NOT NULL, -- who launched it
    created_at TEXT NOT NULL, -- when
    plan TEXT NOT NULL, -- all that makes it, as JSON
    stage TEXT NOT NULL CHECK (stage IN ('tuning', 'judging')) -- how far it was launched
) STRICT"""

DUEL_SWEEPS = """CREATE TABLE duel_sweeps ( -- the sweeps that carry a duel out
    sweep_id INTEGER PRIMARY KEY REFERENCES sweeps (id) ON DELETE CASCADE, -- the sweep
    duel_id INTEGER NOT NULL REFERENCES duels (id) ON DELETE CASCADE, -- the duel
    strategy INTEGER NOT NULL, -- the place of its strategy in the duel's plan, from 0
    stage TEXT NOT NULL CHECK (stage IN ('tuning', 'judging')), -- what its runs are for
    UNIQUE (duel_id, stage, strategy)
) STRICT"""

PEOPLE = """CREATE TABLE people ( -- who has an account; while there is nobody, everyone who reaches the console may do everything
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

SIGN_INS = """CREATE TABLE sign_ins ( -- browsers that people are, or were, signed in on
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

TOKENS = """CREATE TABLE tokens ( -- what scripts show instead of a password
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

AUDIT = """CREATE TABLE audit ( -- every command that anyone gave, done or refused; rows are only ever added
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

DISK = """CREATE TABLE disk ( -- how much disk each run takes, as the runner last measured it; what people may take is held against it
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    version INTEGER NOT NULL, -- its change token when it was measured: one with a higher token is measured again
    file_bytes INTEGER NOT NULL, -- what the files of its folder take
    point_bytes INTEGER NOT NULL -- about what its points take in the store
) STRICT"""

LAUNCH_KEYS = """CREATE TABLE launch_keys ( -- launches that a script gave a key, so that a request that is sent twice launches once
    owner TEXT NOT NULL, -- who launched
    key TEXT NOT NULL, -- what the script calls the launch
    asked TEXT NOT NULL, -- the SHA-256 of what it asked for
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run that came of it
    made_at TEXT NOT NULL, -- when; it is forgotten after a week
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID"""

LONG_CONFIGS = """CREATE TABLE long_configs ( -- the whole of each config that a run's row holds a part of
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, -- the run
    bytes INTEGER NOT NULL, -- how long it is
    config TEXT NOT NULL -- all settings, as JSON
) STRICT"""

CLUSTER_JOBS = """CREATE TABLE cluster_jobs ( -- jobs of runs on a cluster, until they are over and their files are here
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    cluster TEXT NOT NULL, -- its target
    token TEXT NOT NULL UNIQUE, -- part of the job's name and folder, written before the job is submitted
    folder TEXT NOT NULL, -- the job's folder on the shared file system
    submitted_at TEXT NOT NULL, -- when it was, or is to be, submitted
    job_id TEXT NOT NULL DEFAULT '', -- Slurm's id; empty until it is known
    state TEXT NOT NULL DEFAULT '', -- Slurm's state, such as PENDING
    reason TEXT NOT NULL DEFAULT '', -- Slurm's reason for it, such as Resources
    nodes TEXT NOT NULL DEFAULT '', -- the nodes that it has
    seen_at TEXT, -- when squeue last listed it
    position INTEGER NOT NULL DEFAULT 0, -- bytes of its file of records that are in the store
    sequence INTEGER NOT NULL DEFAULT 0, -- number of its last record in the store
    grown_at TEXT, -- when records last came
    stop_sent_at TEXT -- when its worker was asked to stop
) STRICT"""

COMMANDS = """CREATE TABLE commands ( -- commands of a lab's own scripts that were launched or saved, each once
    id INTEGER PRIMARY KEY, -- its number
    digest TEXT NOT NULL UNIQUE, -- the SHA-256 of its spec
    spec TEXT NOT NULL, -- the command as pasted, with its derived fields, as JSON (engine/script/command.py)
    result TEXT NOT NULL DEFAULT '', -- the metric that ranks its runs; empty until a person chooses one
    better TEXT NOT NULL DEFAULT '' CHECK (better IN ('', 'max', 'min')), -- which of its values is better
    created_at TEXT NOT NULL -- when it was first launched or saved
) STRICT"""

RECIPES = """CREATE TABLE recipes ( -- commands saved under a name; each time that one is saved is a version
    id INTEGER PRIMARY KEY, -- its number
    name TEXT NOT NULL, -- the name, which its runs have as their experiment
    version INTEGER NOT NULL, -- 1, 2 and so on of that name
    title TEXT NOT NULL, -- what its card is called
    description TEXT NOT NULL DEFAULT '', -- what it does, in a sentence or two
    command_id INTEGER NOT NULL REFERENCES commands (id), -- the command, whose values are the defaults
    created_at TEXT NOT NULL, -- when this version was saved
    created_by TEXT NOT NULL, -- by whom
    hidden_by TEXT, -- person who hid the recipe, or null
    UNIQUE (name, version)
) STRICT"""

SCRIPT_METRICS = """CREATE TABLE script_metrics ( -- how metrics of a script's runs are shown, where a person has set it
    experiment TEXT NOT NULL, -- name of the script or recipe
    name TEXT NOT NULL, -- name of the metric
    is_shown INTEGER NOT NULL, -- 0 if it has no chart on run pages and none of the default ones of Compare
    unit TEXT NOT NULL, -- its unit, or empty
    better TEXT NOT NULL CHECK (better IN ('', 'max', 'min')), -- which of its values is better; empty for neither
    PRIMARY KEY (experiment, name)
) STRICT"""

CLONES = """CREATE TABLE clones ( -- runs that were launched with the settings of another one, as a person saw them there
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    origin INTEGER NOT NULL -- id of the other run, which may have been deleted
) STRICT"""

AGENT_LAUNCHES = """CREATE TABLE agent_launches ( -- runs that an agent launched for a person
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    token_id INTEGER, -- the agent's token; null in a lab without accounts
    agent TEXT NOT NULL -- what the agent is called
) STRICT"""

REPORT_WRITERS = """CREATE TABLE report_writers ( -- processes outside of Parallab that report to a run, each with a count of its own
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run
    writer TEXT NOT NULL, -- what the process calls itself
    rows INTEGER NOT NULL, -- rows of its that are in the store: what it sends again up to here is a repetition
    dropped INTEGER NOT NULL, -- rows that it dropped because its buffer was full, as it says
    PRIMARY KEY (run_id, writer)
) STRICT, WITHOUT ROWID"""
FILES = """CREATE TABLE files ( -- files that runs keep; the content is in the home's files/, once, under its hash
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run that made it
    name TEXT NOT NULL, -- its name, unique in the run
    sha256 TEXT NOT NULL, -- the SHA-256 of its content
    bytes INTEGER NOT NULL, -- its size
    at TEXT NOT NULL, -- when it was kept
    who TEXT NOT NULL, -- by whom
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID"""
FILE_USES = """CREATE TABLE file_uses ( -- files of other runs that a run used
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, -- the run that used it
    sha256 TEXT NOT NULL, -- the SHA-256 of its content: runs that keep it have made it
    name TEXT NOT NULL, -- its name then
    at TEXT NOT NULL, -- when
    who TEXT NOT NULL, -- by whom
    PRIMARY KEY (run_id, sha256)
) STRICT, WITHOUT ROWID"""
ONLY_LOST_GOES_ON = """CREATE TRIGGER ends_are_last BEFORE UPDATE OF status ON runs
WHEN OLD.status IN ('finished', 'failed', 'cancelled', 'lost') AND NEW.status <> OLD.status
    AND NOT (OLD.status = 'lost' AND OLD.report_key IS NOT NULL AND NEW.status = 'running')
BEGIN SELECT RAISE(ABORT, 'a run that ended never changes its status'); END"""
"""Replaces the trigger of the first version: a lost run whose program reports again goes on."""

ARRIVALS = """CREATE TABLE arrivals ( -- hidden rows: of imports whose runs are not here yet, and curves on their way into a run that resumes
    first_id INTEGER PRIMARY KEY, -- the first of the run ids reserved for an import; minus the id of a run that resumes
    last_id INTEGER NOT NULL -- the last one
) STRICT"""

EXERCISES = """CREATE TABLE exercises ( -- what teachers set for the exercises of a class
    name TEXT PRIMARY KEY, -- name of its file, without .md
    opened_by TEXT NOT NULL DEFAULT '', -- who opened it last; empty if nobody did
    opened_at TEXT NOT NULL DEFAULT '', -- when
    deadline TEXT, -- after it, attempts and hand-ins are refused; null without one
    closed_by TEXT NOT NULL DEFAULT '', -- who closed it; empty while it is open
    closed_at TEXT, -- when; null while it is open
    changes INTEGER NOT NULL DEFAULT 1 -- number of commands on it, for the change token
) STRICT, WITHOUT ROWID"""

ATTEMPTS = """CREATE TABLE attempts ( -- attempts at an exercise, each with its prediction
    id INTEGER PRIMARY KEY, -- its number
    exercise TEXT NOT NULL, -- name of the exercise's file, without .md
    digest TEXT NOT NULL, -- SHA-256 of the file when it was predicted
    head TEXT NOT NULL, -- the head of the file as it was then, as JSON
    people TEXT NOT NULL, -- names of the person, or of the group that shares it, a JSON list
    prediction TEXT NOT NULL, -- what they predicted, as JSON; it never changes
    predicted_by TEXT NOT NULL, -- who wrote it
    predicted_at TEXT NOT NULL, -- when
    answers TEXT NOT NULL DEFAULT '[]', -- an answer per question, a JSON list; before the hand-in as typed
    handed_in_by TEXT NOT NULL DEFAULT '', -- who handed it in
    handed_in_at TEXT, -- when; null before
    class_ended_at TEXT -- when its class ended; null while it lasts
) STRICT"""

ATTEMPT_RUNS = """CREATE TABLE attempt_runs ( -- runs of attempts, which share their places in the queue in turn
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, -- the run
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) -- the attempt
) STRICT"""

LATER_TABLES = (
    *(
        BUCKETS,
        MACHINE_SAMPLES,
        VIEWS,
        ORIGINS,
        LOOKS,
        *TRACES,
        DUELS,
        DUEL_SWEEPS,
        PEOPLE,
        SIGN_INS,
        TOKENS,
        AUDIT,
        DISK,
        LAUNCH_KEYS,
        LONG_CONFIGS,
        CLUSTER_JOBS,
        ARRIVALS,
        COMMANDS,
        RECIPES,
        SCRIPT_METRICS,
        CLONES,
        AGENT_LAUNCHES,
        REPORT_WRITERS,
        FILES,
        FILE_USES,
        EXERCISES,
        ATTEMPTS,
        ATTEMPT_RUNS,
    ),
    *NOTICE_TABLES,
)
"""Tables added by later steps."""
LATER: dict[str, str] = {
    "runs.time_before_s": "training time of the runs that it resumes",
    "metrics.thinned": "points removed by the gc command; all other columns are about the points before that",
    "exercises.class_first": "1 if, while it is open, queued runs of its class come before others of their priority",
    "runs.priority": "0 low, 1 normal, 2 high: higher ones start first",
    "runs.place": "order within a priority, lowest first",
    "runs.held_by": "person who holds it in the queue; null if it is not held",
    "runs.oversubscribe": "1 if it may share cores with other runs; it is then bound to none",
    "runs.core_ids": "allocated CPU cores, a JSON list",
    "runs.starred_by": "person who starred it, or null",
    "runs.pinned_by": "person who pinned it as the baseline of its experiment or script, or null",
    "runs.archived_by": "person who archived it, or null",
    "runs.seeding": ("seeding rule of its ranks (engine/seeding.py): 1 seed + rank, 2 a stream per purpose and rank"),
    "sweeps.held": "1 while it is paused: its queued runs are held",
    "sweeps.exclusive": "1 if each of its runs runs alone on the machine",
    "sweeps.stop_after": "number of failed cells after which its queued runs are cancelled; null for no limit",
    "sweeps.timing": "when a sweep for timing stops repeating its combinations, as JSON; empty for other sweeps",
    "sweeps.equal_work": "length and varied fields of the config whose total work each run does, as JSON; or empty",
    "sweeps.draw": "count, seed and ranges of a random draw, as JSON; empty for a grid",
    "runs.stop_kind": "how its end was requested: cancel, force or time limit; empty if it was not",
    "runs.max_run_time_s": "run time limit in seconds; null for no limit",
    "runs.max_retries": "number of automatic retries if it is lost",
    "runs.end_when_hung": "1 if it ends as failed when it hangs",
    "runs.target": "cluster that it runs on; empty for the runner's machine",
    "runs.uid": "random id, which its checkpoints name",
    "runs.resumed_uid": "random id of the run whose checkpoint it resumed from; empty if it did not",
    "runs.nodes": "number of the cluster's nodes that its ranks are spread over",
    "runs.attempt": "number of lost runs before it in its chain that the runner retried",
    "runs.resumes": "1 if it continues from its parent's checkpoint, 0 if it repeats its parent from the start",
    "runs.begun_uptime_s": "machine uptime when its worker began it, independent of clock changes",
    "runs.worker_pid_namespace": "PID namespace of its worker's pid; null if it was not recorded",
    "runner.pid_namespace": "PID namespace of its pid; null if it was not recorded",
    "runs.data_folder": (
        "data set folder from the launching process's environment (PARALLAB_DATA); null for the runner's"
    ),
    "sweeps.figure": "published figure that it reproduces, with its size, such as hogwild/full; empty for none",
    "disk.text_bytes": "bytes of its config, its environment and its error in the store",
    "sweeps.fingerprint": ("fingerprint of an imported sweep, the same in every store; empty for a local one"),
    "subscriptions.channel": "the lab's channel, by its name in notices.toml; empty for a webhook of an earlier version",
    "subscriptions.address": "the person's address on the channel; empty if it takes none, or that of the account",
    "subscriptions.webhook": "URL, a secret, of a webhook of an earlier version that no channel has replaced yet",
    "outbox.subscription_id": "where it goes",
    "runs.command_id": "the command that it runs; null for an experiment of Parallab, and for runs of other programs",
    "sweeps.command_id": "the command that its runs run; null for other sweeps",
    "commands.script": "what identifies the script: its path, or the name of the recipe",
    "script_metrics.script": "what identifies the script, as in commands",
    "audit.role": (
        "what they were then: a role, anyone (a lab without accounts), program, or nobody; behind it `via agent` and its "
        "name, if an agent gave the command"
    ),
    "tokens.agent_runs": "most runs queued or running at once of the agent that it is for; null for a script's token",
    "people.runs_commands": "1 if an admin has granted the permission to run commands",
    "runs.report_key": "what the program outside of Parallab calls the run that it reports; null for all other runs",
    "runner.network": "network that ranks listen on: namespace, container or host; empty if unknown",
}
"""Descriptions of columns that later steps added or changed, by 'table.column'."""
RENAMED = {"subscriptions": "channels"}
"""Tables renamed by later steps, with their first names."""
