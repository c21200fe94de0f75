"""Usage of the lab by each person's runs, and the quota check in every command that queues runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.access.agents import ActingAgent, acting_agent
from engine.access.quotas import ALLOW_HOST_NETWORK, GB, Limits, limits, size
from engine.access.rules import Program
from engine.errors import ConfigError, LimitReached
from engine.launch_options import LaunchOptions
from engine.store.access.authorization import AccessReader, is_marked
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE, Demand

_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_OF = "(?1 IS NULL OR owner = ?1)"
_RUNS = (
    "SELECT owner, sum(status <> 'queued' AND report_key IS NULL) AS running, sum(status = 'queued') AS queued, "
    "sum(iif(status = 'queued', 0, cores)) AS cores, count(report_key) AS reported,"
    f" sum(iif(status = 'queued', 0, gpus)) AS gpus FROM runs WHERE status IN ('queued', {_ALIVE}) AND {_OF} "
    "GROUP BY owner"
)
_DISK = (
    "SELECT coalesce(imported_by, runs.owner) AS owner, sum(file_bytes + point_bytes + text_bytes) AS bytes "
    "FROM disk JOIN runs ON runs.id = disk.run_id"
    " LEFT JOIN origins ON origins.run_id = runs.id WHERE ?1 IS NULL OR coalesce(imported_by, runs.owner) = ?1 "
    "GROUP BY 1"
)
_FILES = (
    "SELECT coalesce(imported_by, runs.owner) AS owner, sum(bytes) AS bytes FROM files JOIN runs ON runs.id = "
    "files.run_id LEFT JOIN origins ON origins.run_id = runs.id WHERE ?1 IS NULL OR coalesce(imported_by, "
    "runs.owner) = ?1 GROUP BY 1"
)
ASK = "or ask an admin for a higher quota."
HOST_NETWORK_REFUSED = (
    "This run's ranks would listen on the machine's network, where any local user could run commands as the "
    "runner's user; a lab with accounts refuses that. Choose transport shared_memory or another experiment, enable "
    "network namespaces (python -m engine doctor shows what prevents them), or ask an admin to accept the risk: "
    f"{ALLOW_HOST_NETWORK}"
)
_HELD = f"""
SELECT owner, count(*) AS runs, coalesce(sum(status IN ({_ALIVE})), 0) AS are_on, coalesce(sum(status = 'queued'),
    0) AS wait, coalesce(sum(status = 'stopping'), 0) AS stopping FROM runs GROUP BY owner
"""
_SEEN = """
SELECT name, max(at) AS at FROM (
    SELECT person_id, seen_at AS at FROM sign_ins UNION ALL SELECT person_id, used_at FROM tokens
        WHERE used_at IS NOT NULL
) JOIN people ON people.id = person_id GROUP BY person_id
"""


@dataclass(frozen=True)
class Held:
    """Usage of one person's runs."""

    person: str
    running: int = 0
    """Number of live runs, without reported ones."""
    queued: int = 0
    cores: int = 0
    gpus: int = 0
    disk_bytes: int = 0
    """Bytes of folders and store, as last measured by the runner, and of kept files; includes runs that the person
    imported.
    """
    reported: int = 0
    """Number of runs that programs outside of Parallab report now."""
    file_bytes: int = 0
    """Bytes of the files that the runs keep; what several keep counts for each."""


@dataclass(frozen=True)
class Holding:
    """The runs of one owner."""

    runs: int
    on: int
    queued: int
    stopping: int = 0
    """Those of `on` that are being stopped."""


class QuotaReader:
    """Queries of usage, of the lab's quotas, and of what each person owns, including owners without an account."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self._access = AccessReader(db)

    def why_no_listening(self, level: str | None = None) -> str:
        """Return why ranks may not listen on a network of this level (default: the runner's last reported level); empty
        if they may.
        """
        if level is None:
            runner = self.db.row("SELECT network FROM runner")
            level = runner["network"] if runner else ""
        if level != "host" or not (self._access.has_people() or is_marked(self.db.home)):
            return ""
        try:
            return "" if limits(self.db.home).host_network else HOST_NETWORK_REFUSED
        except ConfigError:
            return HOST_NETWORK_REFUSED

    def held(self, person: str) -> Held:
        """Return the usage of one person."""
        return self._held(str(person)).get(person, Held(person))

    def held_by_agents(self, person: str, agent: ActingAgent | None = None) -> int:
        """Return the number of a person's queued and live runs that agents launched, or one of them."""
        sql = (
            "SELECT count(*) FROM agent_launches JOIN runs ON runs.id = run_id WHERE owner = ?1 AND status IN "
            f"('queued', {_ALIVE}) AND report_key IS NULL AND (?2 OR token_id IS ?3)"
        )
        return self.db.number(sql, [person, agent is None, agent and agent.token_id])

    def all_held(self) -> list[Held]:
        """Return the usage of everyone with usage, by name."""
        return [held for _, held in sorted(self._held(None).items())]

    def holdings(self) -> dict[str, Holding]:
        """Return the holdings of each owner."""
        return {
            row["owner"]: Holding(row["runs"], row["are_on"], row["wait"], row["stopping"])
            for row in self.db.rows(_HELD)
        }

    def active_runs(self, owner: str) -> list[int]:
        """Return the queued and live runs of an owner, without reported ones, which nobody can cancel here."""
        sql = (
            f"SELECT id FROM runs WHERE owner = ? AND status IN ('queued', {_ALIVE}) AND report_key IS NULL ORDER BY id"
        )
        return self.db.column(sql, [owner])

    def last_seen(self) -> dict[str, str]:
        """Return the last request of each person's browsers and scripts, accurate to a minute; people without
        requests are omitted.
        """
        return {row["name"]: row["at"] for row in self.db.rows(_SEEN)}

    def file_bytes(self) -> int:
        """Return the bytes of all files that runs keep, each content once."""
        return self.db.number("SELECT coalesce(sum(bytes), 0) FROM (SELECT DISTINCT sha256, bytes FROM files)")

    def folder_bytes(self) -> int:
        """Return the bytes of all runs' folders, as the runner last measured them."""
        return int(self.db.rows("SELECT coalesce(sum(file_bytes), 0) FROM disk")[0][0])

    def _held(self, person: str | None) -> dict[str, Held]:
        found = {row["owner"]: _as_held(row) for row in self.db.rows(_RUNS, [person])}
        for row in self.db.rows(_DISK, [person]):
            found[row["owner"]] = replace(found.get(row["owner"], Held(row["owner"])), disk_bytes=row["bytes"])
        for row in self.db.rows(_FILES, [person]):
            held = found.get(row["owner"], Held(row["owner"]))
            more = held.disk_bytes + row["bytes"]
            found[row["owner"]] = replace(held, file_bytes=row["bytes"], disk_bytes=more)
        return found


class QuotaChecks:
    """Quota checks within a change that queues runs."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._quotas = QuotaReader(db)

    def require(self, owner: str, demands: Sequence[Demand], wanted_s: float | None = None) -> None:
        """Raise LimitReached if these additional runs may not be queued, within a change; parts of Parallab have no
        quota.

        `wanted_s` is the requested time limit; None for that of an older run, which is reduced to the quota.
        """
        if isinstance(owner, Program):
            return
        if any(each.listens for each in demands) and (why := self._quotas.why_no_listening()):
            raise LimitReached(why)
        mine = limits(self.db.home).of(owner)
        held = self._quotas.held(owner) if _needs(mine) else Held(owner)
        if sentence := refusal(mine, owner, held, demands, wanted_s):
            raise LimitReached(sentence)
        if (agent := acting_agent()) and (sentence := self._agent_refusal(mine, owner, agent, len(demands))):
            raise LimitReached(sentence)

    def _agent_refusal(self, mine: Limits, owner: str, agent: ActingAgent, more: int) -> str:
        """Return why an agent may not queue that many more runs; empty if it may."""
        most, held = mine.max_agent_runs_per_person, self._quotas.held_by_agents(owner)
        if most is not None and held + more > most:
            return (
                f"Quota of the agents of {owner}: {held:,} of {most:,} runs are queued or running; {more:,} more can't "
                f"be queued. Wait until some end, {ASK}"
            )
        held = self._quotas.held_by_agents(owner, agent)
        if held + more > agent.runs:
            return (
                f"Quota of agent {agent.name}: {held:,} of {agent.runs:,} runs are queued or running; {more:,} more "
                "can't be queued. Wait until some end, or ask the person for a token with a higher number."
            )
        return ""

    def require_reported(self, owner: str) -> None:
        """Raise LimitReached if a person may not report another run, within a change."""
        mine = self._mine(owner)
        most, held = mine.max_reported_per_person, self._quotas.held(owner)
        if most is not None and held.reported >= most:
            used = f"{held.reported:,} of {most:,} reported runs"
            raise LimitReached(f"Quota of {owner}: {used}; another one can't begin. Wait until one has ended, {ASK}")
        self.require_disk(owner)

    def require_disk(self, owner: str, more_bytes: int = 0) -> None:
        """Raise LimitReached if a person may not store so many bytes more than the runner has measured, within a
        change.
        """
        mine = self._mine(owner)
        if mine.max_disk_gb is not None and (sentence := over_disk(mine, owner, self._quotas.held(owner), more_bytes)):
            raise LimitReached(sentence)

    def require_files(self, owner: str, more_bytes: int) -> None:
        """Raise LimitReached if a person's runs may not keep files of so many bytes more, within a change."""
        mine = self._mine(owner)
        if mine.max_files_gb is not None:
            held, most = self._quotas.held(owner).file_bytes, mine.max_files_gb * GB
            if held + more_bytes > most:
                used = f"{size(held)} of {size(most)} used, and this needs {size(more_bytes)} more"
                raise LimitReached(f"Quota of files of {owner}: {used}. Remove files that are no longer needed, {ASK}")
        self.require_disk(owner, more_bytes)

    def _mine(self, owner: str) -> Limits:
        return Limits() if isinstance(owner, Program) else limits(self.db.home).of(owner)

    def cut(self, terms: LaunchOptions, owner: str) -> LaunchOptions:
        """Return the terms with a time limit of at most the owner's quota, which is also the default.

        Unreadable quotas are ignored here: launches fail earlier, and the runner, which retries lost runs, must
        continue.
        """
        try:
            most = limits(self.db.home).of(owner).max_run_time_s
        except ConfigError:
            return terms
        if most is None or (terms.max_run_time_s is not None and terms.max_run_time_s <= most):
            return terms
        return replace(terms, max_run_time_s=most)


def refusal(mine: Limits, person: str, held: Held, demands: Sequence[Demand], wanted_s: float | None = None) -> str:
    """Return why a person may not queue these additional runs, with usage, quota and cure; empty if they may."""
    most_s = mine.max_run_time_s
    if most_s is not None and wanted_s is not None and wanted_s > most_s:
        return (
            f"Time limit must be at most {most_s:,.12g} s (quota of {person}); got {wanted_s:,.12g} s. Lower it, {ASK}"
        )
    cores, gpus = (max((getattr(each, slot) for each in demands), default=0) for slot in ("cores", "gpus"))
    for kind, cure, asked, most in (
        ("CPU cores", "Choose fewer ranks or threads per rank", cores, mine.max_cores_per_person),
        ("GPUs", "Choose device cpu", gpus, mine.max_gpus_per_person),
    ):
        if most is not None and asked > most:
            return (
                f"The run needs {asked:,} {kind} but the quota of {person} is {most:,}, so it would never start. "
                f"{cure}, {ASK}"
            )
    most_queued = mine.max_queued_per_person
    if most_queued is not None and held.queued + len(demands) > most_queued:
        more = "another one" if len(demands) == 1 else f"{len(demands):,} more"
        first = "Wait until some start, cancel some, queue" if held.queued else "Queue"
        return (
            f"Quota of {person}: {held.queued:,} of {most_queued:,} queued runs; {more} can't be queued. "
            f"{first} fewer, {ASK}"
        )
    return over_disk(mine, person, held)


def over_disk(mine: Limits, person: str, held: Held, more_bytes: int = 0) -> str:
    """Return why a person may not store more, or `more_bytes` more; empty if they may."""
    if mine.max_disk_gb is None or held.disk_bytes + more_bytes < mine.max_disk_gb * GB:
        return ""
    used = f"{size(held.disk_bytes)} of {size(mine.max_disk_gb * GB)} used"
    if held.disk_bytes < mine.max_disk_gb * GB:
        return (
            f"Disk quota of {person}: {used}, and this needs about {size(more_bytes)} more. Import fewer runs or log "
            "fewer points, or ask an admin to thin or delete old runs (the gc command) or to raise the quota."
        )
    return (
        f"Disk quota of {person} exceeded: {used}. Ask an "
        "admin to thin or delete old runs (the gc command) or to raise the quota."
    )


def _needs(mine: Limits) -> bool:
    return mine.max_queued_per_person is not None or mine.max_disk_gb is not None


def _as_held(row: Row) -> Held:
    return Held(row["owner"], row["running"], row["queued"], row["cores"], row["gpus"], reported=row["reported"])
