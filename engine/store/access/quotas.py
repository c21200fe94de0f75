"""What each person's runs hold of the lab at this moment, and the check of their limits that stands in every command
that queues runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.access.quotas import ALLOW_HOST_NETWORK, GB, Limits, limits
from engine.access.rules import Program
from engine.errors import ConfigError, LimitReached
from engine.launch_options import Terms
from engine.store.access.accounts_mark import is_marked
from engine.store.access.standing import AccessReader
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE, Demand

_ALIVE = ", ".join(f"'{status}'" for status in ALIVE)
_OF = "(?1 IS NULL OR owner = ?1)"
_RUNS = (
    "SELECT owner, sum(status <> 'queued') AS running, sum(status = 'queued') AS queued, sum(iif(status = "
    "'queued', 0, cores)) AS cores,"
    f" sum(iif(status = 'queued', 0, gpus)) AS gpus FROM runs WHERE status IN ('queued', {_ALIVE}) AND {_OF} "
    "GROUP BY owner"
)
_DISK = (
    "SELECT coalesce(imported_by, runs.owner) AS owner, sum(file_bytes + point_bytes + text_bytes) AS bytes "
    "FROM disk JOIN runs ON runs.id = disk.run_id"
    " LEFT JOIN origins ON origins.run_id = runs.id WHERE ?1 IS NULL OR coalesce(imported_by, runs.owner) = ?1 "
    "GROUP BY 1"
)
ASK = "or ask an admin of this lab for more."
HOST_NETWORK_REFUSED = (
    "Ranks of this run would listen on the machine's network, where any user of the machine can run commands "
    "as the runner's user, "
    "and this lab has accounts. Choose transport shared_memory or another experiment, let the machine make "
    "network namespaces "
    f"(python -m engine doctor says what stops it), or ask an admin to accept the risk: {ALLOW_HOST_NETWORK}"
)


@dataclass(frozen=True)
class Held:
    """What one person's runs hold."""

    person: str
    running: int = 0
    """Runs that are on."""
    queued: int = 0
    cores: int = 0
    gpus: int = 0
    disk_bytes: int = 0
    """Of folders and store, as the runner last measured them; runs that the person imported count too."""


class QuotaReader:
    """The questions about what people hold, and what the lab allows."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self._access = AccessReader(db)

    def why_no_listening(self, level: str | None = None) -> str:
        """Return why ranks may not listen on a network of that level (default: the runner's, as it last said); empty
        where they may.
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
        """Return what one person holds."""
        return self._held(str(person)).get(person, Held(person))

    def all_held(self) -> list[Held]:
        """Return what everyone holds who holds something, by name."""
        return [held for _, held in sorted(self._held(None).items())]

    def _held(self, person: str | None) -> dict[str, Held]:
        found = {row["owner"]: _as_held(row) for row in self.db.rows(_RUNS, [person])}
        for row in self.db.rows(_DISK, [person]):
            found[row["owner"]] = replace(found.get(row["owner"], Held(row["owner"])), disk_bytes=row["bytes"])
        return found


class QuotaChecks:
    """Checks of people's limits inside a change that queues runs."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._quotas = QuotaReader(db)

    def require(self, owner: str, demands: Sequence[Demand], wanted_s: float | None = None) -> None:
        """Raise LimitReached where so many runs more are not to be queued, inside a change; parts of Parallab are held
        to no limit here.

        `wanted_s` is the time limit that was asked for; None where it is an older run's, which is cut to what is
        allowed.
        """
        if isinstance(owner, Program):
            return
        if any(each.listens for each in demands) and (why := self._quotas.why_no_listening()):
            raise LimitReached(why)
        mine = limits(self.db.home).of(owner)
        if sentence := refusal(
            mine, owner, self._quotas.held(owner) if _needs(mine) else Held(owner), demands, wanted_s
        ):
            raise LimitReached(sentence)

    def cut(self, terms: Terms, owner: str) -> Terms:
        """Return the terms with a time limit that is at most the owner's; one without gets that.

        Limits that can't be read bound nothing here: they stop whoever launches before this, and the runner, which
        queues lost runs anew, must go on.
        """
        try:
            most = limits(self.db.home).of(owner).max_run_time_s
        except ConfigError:
            return terms
        if most is None or (terms.max_run_time_s is not None and terms.max_run_time_s <= most):
            return terms
        return replace(terms, max_run_time_s=most)


def refusal(mine: Limits, person: str, held: Held, demands: Sequence[Demand], wanted_s: float | None = None) -> str:
    """Return why a person may not queue so many runs more, with what they hold, the limit and the cure; empty where
    they may.
    """
    most_s = mine.max_run_time_s
    if most_s is not None and wanted_s is not None and wanted_s > most_s:
        return (
            f"max_run_time_s is {wanted_s:,g} s, and {person}'s runs may be on for {most_s:,g} s at most. Give at "
            f"most that, {ASK}"
        )
    for kind, cure, asked, most in (
        (
            "CPU cores",
            "Choose fewer ranks or threads_per_rank",
            max((each.cores for each in demands), default=0),
            mine.max_cores_per_person,
        ),
        ("GPUs", "Choose device cpu", max((each.gpus for each in demands), default=0), mine.max_gpus_per_person),
    ):
        if most is not None and asked > most:
            return (
                f"The run asks for {asked:,} {kind}, and {person} may hold {most:,} at a time, so it would never "
                f"start. {cure}, {ASK}"
            )
    most_queued = mine.max_queued_per_person
    if most_queued is not None and held.queued + len(demands) > most_queued:
        more = "another one" if len(demands) == 1 else f"{len(demands):,} more"
        return (
            f"{person} holds {held.queued:,} of {most_queued:,} queued runs, so {more} can't be queued. "
            f"Wait until some have started, cancel some, queue fewer, {ASK}"
        )
    return over_disk(mine, person, held)


def over_disk(mine: Limits, person: str, held: Held, more_bytes: int = 0) -> str:
    """Return why a person may have nothing more, or not so many bytes more, kept; empty where they may."""
    if mine.max_disk_gb is None or held.disk_bytes + more_bytes < mine.max_disk_gb * GB:
        return ""
    if held.disk_bytes < mine.max_disk_gb * GB:
        return (
            f"{person}'s runs take {held.disk_bytes / GB:,.3g} of {mine.max_disk_gb:,g} GB of disk, and this "
            f"would take about {more_bytes / GB:,.3g} GB more. "
            "Import fewer runs, ask an admin of this lab to thin or delete old runs (the gc command), or for more."
        )
    return (
        f"{person}'s runs take {held.disk_bytes / GB:,.3g} of {mine.max_disk_gb:,g} GB of disk, so no more can "
        "be kept. "
        f"Ask an admin of this lab to thin or delete old runs (the gc command), or for more."
    )


def _needs(mine: Limits) -> bool:
    return mine.max_queued_per_person is not None or mine.max_disk_gb is not None


def _as_held(row: Row) -> Held:
    return Held(row["owner"], row["running"], row["queued"], row["cores"], row["gpus"])
