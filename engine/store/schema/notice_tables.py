"""Tables of notifications: channels, messages and permitted receivers. Descriptions as in first_tables.py."""

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
"""Permitted webhook hosts of a new lab."""
