"""The whole matrix of roles and commands, made from the rules themselves: what each role may do to its own and to
others', really given to a store.
"""

import inspect
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import Literal, cast

import pytest
from hypothesis import strategies as st

from engine.access.rules import COMMANDS, ROLES, PersonStanding, Program, Role
from engine.errors import ConfigError, Forbidden
from engine.home import Home
from engine.launch_options import Priority
from engine.script.command import read_command
from engine.store import Demand, Launch, Reader, Store, StrategyLaunch, SweepLaunch
from engine.store.access.authorization import Authorization, Entry
from engine.store.imports.reports import Report, ReportedEnd, ReportedRun
from engine.store.queue.queue import End
from engine.store.runs.files import arriving_content
from tests.inputs import drawn

PEOPLE: dict[str, Role] = {"vera": "viewer", "mo": "member", "mia": "member", "ada": "admin", "abe": "admin"}
SIZE = Demand(1, 0, 1, 1)
RUN = Launch("hogwild", {"learning_rate": 0.1, "seed": 1}, name="one", demand=SIZE)
GRID = {"seed": [1]}
COMMAND = read_command("python train.py")
NO_COMMANDS = {"permit", "note_restored"}
"""`permit` is the rule itself; `note_restored` keeps what `permit` let pass."""


@dataclass
class Lab:
    """A store with people, and one of each kind of thing for each owner."""

    store: Store

    def run(self, owner: str, ended: bool = False) -> int:
        run_id = self.store.runs.add(Launch("hogwild", {"seed": 1}, Program(owner), demand=SIZE))
        if ended:
            self.store.runs.cancel(run_id, by=Program("runner"))
        return run_id

    def reported(self, owner: str) -> int:
        return self.store.reports.begin(ReportedRun("outside", "another key"), by=Program(owner))

    def keep(self, run_id: int, by: str) -> None:
        with arriving_content(self.store.db.home, BytesIO(b"weights")) as content:
            self.store.files.keep(run_id, "kept", content, by=by)

    def keeping(self, owner: str) -> int:
        run_id = self.run(owner, ended=True)
        self.keep(run_id, Program("runner"))
        return run_id

    def sweep(self, owner: str, held: bool = False) -> int:
        sweep_id = self.store.sweeps.add(SweepLaunch(Launch("hogwild", {}, Program(owner)), GRID), [RUN])
        if held:
            self.store.sweeps.hold(sweep_id, by=Program("runner"))
        return sweep_id

    def lost_sweep(self, owner: str) -> int:
        sweep_id = self.sweep(owner)
        self.store.db.connection.execute(
            "UPDATE runs SET status = 'failed', ended_at = created_at WHERE sweep_id = ?", [sweep_id]
        )
        return sweep_id

    def running(self, owner: str) -> int:
        run_id = self.run(owner)
        self.store.db.connection.execute("UPDATE runs SET status = 'running' WHERE id = ?", [run_id])
        return run_id

    def member(self, name: str) -> str:
        if self.store.read.people.one(name).role == "viewer":
            self.store.people.set_role(name, "member", by=Program("runner"))
        return name

    def recipe(self, owner: str) -> str:
        self.store.recipes.save(f"of-{owner}", COMMAND, by=Program(owner))
        return f"of-{owner}"

    def scripted(self, owner: str) -> int:
        run_id = self.store.runs.add(Launch("train.py", {}, Program(owner), demand=SIZE, command=COMMAND))
        sql = "INSERT INTO metrics (run_id, name, count, nonfinite) VALUES (?, 'loss', 0, 0)"
        self.store.db.connection.execute(sql, [run_id])
        return run_id

    def view(self, owner: str) -> int:
        return self.store.views.save("a view", "compare", "x=1", owner=Program(owner))

    def subscription(self, owner: str) -> int:
        return self.store.subscriptions.add("team", owner=Program(owner))

    def token(self, owner: str) -> int:
        self.store.tokens.make(owner, "a token", "read", by=Program("runner"))
        return int(self.store.db.rows("SELECT max(id) FROM tokens")[0][0])

    def attempt(self, owner: str) -> int:
        """One that can be handed in."""
        attempt_id = self.store.exercises.predict("bubble", "", {}, 1.0, people=[owner], by=Program(owner))
        self.store.db.insert("attempt_runs", {"run_id": self.run(owner, ended=True), "attempt_id": attempt_id})
        return attempt_id

    def starred(self, owner: str) -> int:
        run_id = self.run(owner, ended=True)
        for give in (self.store.annotations.star, self.store.annotations.archive):
            give([run_id], by=Program("runner"))
        self.store.annotations.pin(run_id, by=Program("runner"))
        return run_id


Given = Callable[[Lab, str, str], partial[object]]
"""Prepares what belongs to its third argument, and returns the command that its second gives to that."""


def _sweep_more(lab: Lab, by: str, owner: str) -> partial[object]:
    return partial(
        lab.store.sweeps.extend,
        lab.sweep(owner),
        GRID,
        {"seed": [1, 2]},
        [Launch("hogwild", {"seed": 2}, name="two", demand=SIZE)],
        by=by,
    )


def _duel(lab: Lab, by: str, owner: str) -> partial[object]:
    return partial(
        lab.store.duels.add, {}, [StrategyLaunch(0, "one", replace(RUN, owner=by))], owner=by, name="", exclusive=False
    )


GIVEN: dict[str, Given] = {
    "launch": lambda lab, by, _: partial(lab.store.runs.add, Launch("hogwild", {}, by, demand=SIZE)),
    "record": lambda lab, by, _: partial(lab.store.reports.begin, ReportedRun("outside", "a key"), by=by),
    "report": lambda lab, by, owner: partial(
        lab.store.reports.report, lab.reported(owner), Report(end=ReportedEnd("finished")), by=by
    ),
    "retry": lambda lab, by, owner: partial(
        lab.store.runs.add, Launch("hogwild", {}, by, demand=SIZE, parent_id=lab.run(owner, True), resumes=False)
    ),
    "cancel": lambda lab, by, owner: partial(lab.store.runs.cancel, lab.run(owner), by=by),
    "trace": lambda lab, by, owner: partial(lab.store.runs.trace, lab.running(owner), 1.0, by=by),
    "delete": lambda lab, by, owner: partial(lab.store.runs.permit_deletion, [lab.run(owner, True)], by=by),
    "keep file": lambda lab, by, owner: partial(lab.keep, lab.run(owner), by),
    "remove file": lambda lab, by, owner: partial(lab.store.files.remove, lab.keeping(owner), "kept", by=by),
    "use file": lambda lab, by, owner: partial(
        lab.store.files.use, lab.run(owner), lab.store.read.files.one(lab.keeping("ada"), "kept").sha256, by=by
    ),
    "hold": lambda lab, by, owner: partial(lab.store.queue.hold, lab.run(owner), by=by),
    "release": lambda lab, by, owner: partial(lab.store.queue.release, lab.run(owner), by=by),
    "yield": lambda lab, by, owner: partial(lab.store.queue.move, lab.run(owner), cast(End, "back"), by=by),
    "prefer": lambda lab, by, owner: partial(
        lab.store.queue.set_priority, lab.run(owner), cast(Priority, "high"), by=by
    ),
    "tag": lambda lab, by, owner: partial(lab.store.annotations.tag, [lab.run(owner)], "a", by=by),
    "untag": lambda lab, by, owner: partial(lab.store.annotations.untag, [lab.run(owner)], "a", by=by),
    "note": lambda lab, by, owner: partial(lab.store.annotations.set_note, lab.run(owner), "a", by=by),
    "rename": lambda lab, by, owner: partial(lab.store.annotations.rename, lab.run(owner), "a", by=by),
    "star": lambda lab, by, owner: partial(lab.store.annotations.star, [lab.run(owner)], by=by),
    "unstar": lambda lab, by, owner: partial(lab.store.annotations.unstar, [lab.starred(owner)], by=by),
    "archive": lambda lab, by, owner: partial(lab.store.annotations.archive, [lab.run(owner, True)], by=by),
    "unarchive": lambda lab, by, owner: partial(lab.store.annotations.unarchive, [lab.starred(owner)], by=by),
    "pin": lambda lab, by, owner: partial(lab.store.annotations.pin, lab.run(owner), by=by),
    "unpin": lambda lab, by, owner: partial(lab.store.annotations.unpin, lab.starred(owner), by=by),
    "launch sweep": lambda lab, by, _: partial(
        lab.store.sweeps.add, SweepLaunch(Launch("hogwild", {}, by), GRID), [RUN]
    ),
    "extend sweep": _sweep_more,
    "pause sweep": lambda lab, by, owner: partial(lab.store.sweeps.hold, lab.sweep(owner), by=by),
    "go on with sweep": lambda lab, by, owner: partial(lab.store.sweeps.release, lab.sweep(owner, True), by=by),
    "retry sweep": lambda lab, by, owner: partial(lab.store.sweeps.retry, lab.lost_sweep(owner), by=by),
    "cancel sweep": lambda lab, by, owner: partial(lab.store.sweeps.cancel, lab.sweep(owner), by=by),
    "launch duel": _duel,
    "save recipe": lambda lab, by, owner: partial(lab.store.recipes.save, lab.recipe(owner), COMMAND, by=by),
    "rank by": lambda lab, by, owner: partial(lab.store.recipes.rank_by, lab.scripted(owner), "loss", "min", by=by),
    "set metric": lambda lab, by, owner: partial(
        *(lab.store.recipes.set_metric, lab.scripted(owner), "loss"), is_shown=False, unit="", better="min", by=by
    ),
    "hide recipe": lambda lab, by, owner: partial(lab.store.recipes.hide, lab.recipe(owner), by=by),
    "predict": lambda lab, by, _: partial(lab.store.exercises.predict, "bubble", "", {}, 1.0, people=[by], by=by),
    "hand in": lambda lab, by, _: partial(lab.store.exercises.hand_in, lab.attempt(by), ["It waits."], by=by),
    "open exercise": lambda lab, by, _: partial(lab.store.exercises.open, "bubble", by=by),
    "close exercise": lambda lab, by, _: partial(lab.store.exercises.close, "bubble", by=by),
    "end class": lambda lab, by, _: partial(lab.store.exercises.end_class, by=by),
    "save view": lambda lab, by, _: partial(lab.store.views.save, "mine", "compare", "x=1", owner=by),
    "rename view": lambda lab, by, owner: partial(lab.store.views.rename, lab.view(owner), "other", by=by),
    "delete view": lambda lab, by, owner: partial(lab.store.views.delete, lab.view(owner), by=by),
    "add person": lambda lab, by, _: partial(lab.store.people.add, "New", "viewer", by=by),
    "set role": lambda lab, by, owner: partial(lab.store.people.set_role, owner, "admin", by=by),
    "allow": lambda lab, by, owner: partial(lab.store.people.allow, lab.member(owner), "run commands", by=by),
    "forbid": lambda lab, by, owner: partial(lab.store.people.forbid, owner, "run commands", by=by),
    "set email": lambda lab, by, owner: partial(lab.store.people.set_email, owner, "it@lab.org", by=by),
    "disable": lambda lab, by, owner: partial(lab.store.people.disable, owner, by=by),
    "enable": lambda lab, by, owner: partial(lab.store.people.enable, owner, by=by),
    "unlink": lambda lab, by, owner: partial(lab.store.people.unlink, owner, by=by),
    "set password": lambda lab, by, owner: partial(lab.store.people.set_password, owner, "a long enough one", by=by),
    "end sign-ins": lambda lab, by, owner: partial(lab.store.people.end_sign_ins, owner, by=by),
    "make token": lambda lab, by, owner: partial(lab.store.tokens.make, owner, "a", "read", by=by),
    "revoke token": lambda lab, by, owner: partial(lab.store.tokens.revoke, lab.token(owner), by=by),
    "add subscription": lambda lab, by, _: partial(lab.store.subscriptions.add, "team", owner=by),
    "set subscription": lambda lab, by, owner: partial(
        lab.store.subscriptions.change, lab.subscription(owner), ends="bad", reach="runs", by=by
    ),
    "test subscription": lambda lab, by, owner: partial(lab.store.subscriptions.test, lab.subscription(owner), by=by),
    "pause subscription": lambda lab, by, owner: partial(lab.store.subscriptions.pause, lab.subscription(owner), by=by),
    "delete subscription": lambda lab, by, owner: partial(
        lab.store.subscriptions.delete, lab.subscription(owner), by=by
    ),
}
ELSEWHERE = {
    "import",
    "clean up",
    "collect",
    "back up",
    "restore",
    "mend",
    "stop runner",
    "start runner",
    "set limits",
    "extend catalogue",
    "approve experiment",
    "run commands",
}
"""Commands that are carried out beside the store's tables; `permit` stands before each."""
for _name in ELSEWHERE:
    GIVEN[_name] = lambda lab, by, _, name=_name: partial(lab.store.access.permit, name, by=by)  # type: ignore[misc]
KEPT = (
    "runs",
    "sweeps",
    "duels",
    "duel_sweeps",
    "exercises",
    "attempts",
    "views",
    "recipes",
    "commands",
    "script_metrics",
    "people",
    "tokens",
    "sign_ins",
    "tags",
    "notes",
    "events",
    "subscriptions",
    "outbox",
)
"""All tables that commands write, but the audit log."""


@pytest.fixture
def lab(home: Home) -> Iterator[Lab]:
    with Store.open(home) as store:
        home.notices.write_text("[team]\nurl = 'slack://T/B/secret12345'")
        home.notices.chmod(0o600)
        first = Program("first")
        store.people.add("ada", "admin", by=first)
        for name, role in PEOPLE.items():
            if name != "ada":
                store.people.add(name, role, by=first)
        yield Lab(store)


def expected(command: str, by: str, owner: str, role: Role | Literal["as it was"] | None = "as it was") -> bool:
    """Say who may, in other words than the rules do: a viewer reads, a member has their own, an admin everything."""
    role = PEOPLE[by] if role == "as it was" else role
    if role is None:
        return False
    if command in (
        "set password",
        "end sign-ins",
        "make token",
        "revoke token",
        "pause subscription",
        "delete subscription",
    ):
        return role == "admin" or by == owner
    if role == "viewer":
        return False
    if role == "admin":
        return True
    if command in (
        *("launch", "record", "launch sweep", "launch duel", "save view", "import", "add subscription"),
        *("predict", "hand in"),
    ):
        return True
    if command in ELSEWHERE | {
        "prefer",
        "delete",
        "open exercise",
        "close exercise",
        "end class",
        "save recipe",  # a member needs the permission to run commands, too
        "add person",
        "set role",
        "set email",
        "allow",
        "forbid",
        "disable",
        "enable",
        "unlink",
    }:
        return False
    return by == owner


class Undone(Exception):
    """Ends a change that is not to stay."""


@contextmanager
def undone(lab: Lab) -> Iterator[None]:
    """Take back what the block changes."""
    with suppress(Undone), lab.store.db.change():
        yield
        raise Undone


def dump(lab: Lab) -> dict[str, list[tuple[object, ...]]]:
    return {name: [tuple(row) for row in lab.store.db.rows(f"SELECT * FROM {name}")] for name in KEPT}


def newest(lab: Lab) -> Entry:
    row = lab.store.db.row("SELECT * FROM audit ORDER BY id DESC LIMIT 1")
    assert row is not None
    return Entry(**{**dict(row), "targets": tuple(json.loads(row["targets"]))})


def attempt(lab: Lab, command: str, by: str, owner: str) -> bool:
    """Give a command and return whether it was carried out; hold what either answer promises, and take
    everything back.
    """
    with undone(lab):
        act, role = GIVEN[command](lab, by, owner), lab.store.read.access.standing(by).role or "nobody"
        before = dump(lab)
        refused = ""
        try:
            act()
        except Forbidden as error:
            refused = str(error)
        done = not refused
        assert done or dump(lab) == before, "a refused command changed something"
        assert done or by in refused or owner in refused
        assert newest(lab).refused == refused
        assert (newest(lab).who, newest(lab).role, newest(lab).command) == (by, role, command)
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_each_role_may_do_what_the_matrix_says_and_nothing_else(lab: Lab, command: str) -> None:
    for by in ("vera", "mo", "ada"):
        for owner in (by, "mia", "vera"):
            assert attempt(lab, command, by, owner) == expected(command, by, owner), (
                f"{by} ({PEOPLE[by]}) gives {command} to what is {owner}'s"
            )


@drawn(
    100,
    command=st.sampled_from(list(COMMANDS)),
    by=st.sampled_from(["vera", "mo", "mia", "eve"]),
    owner=st.sampled_from(list(PEOPLE)),
    data=st.data(),
)
def test_no_order_of_roles_and_owners_opens_a_hole(
    lab: Lab, command: str, by: str, owner: str, data: st.DataObject
) -> None:
    """Roles change at random first; `eve` has no account, and people may be shut out."""
    with undone(lab):
        now: dict[str, Role | None] = {"eve": None}
        for name in ("vera", "mo", "mia"):
            role = data.draw(st.sampled_from([*ROLES, None]), label=name)
            lab.store.people.set_role(name, role or "viewer", by=Program("first"))
            if role is None:
                lab.store.people.disable(name, by=Program("first"))
            now[name] = role
        if command in ("make token", "revoke token") and now.get(owner, "admin") is None:
            return  # nobody has a token to be revoked, or can be given one
        assert attempt(lab, command, by, owner) == expected(command, by, owner, now[by])


def test_rows_of_earlier_versions_are_shown_under_the_present_names_of_their_commands(lab: Lab) -> None:
    with undone(lab):
        for name in ("shut out", "let in", "disable"):
            Authorization(lab.store.db).audit(name, "ada", "admin", "person", ["mo"], "")
        found = [entry.command for entry in lab.store.read.audit.entries(limit=3)]
        assert found == ["disable", "enable", "disable"]
        for name in ("disable", "shut out"):
            assert len(lab.store.read.audit.entries(command=name)) == 2
        assert len(lab.store.read.audit.entries(command="enable")) == 1


def test_the_audit_log_keeps_what_was_given_beside_whom_it_was_done_to(lab: Lab) -> None:
    with undone(lab):
        lab.store.tokens.make("mia", "nightly", "read", by="mia", days=365)
        assert (newest(lab).targets, newest(lab).detail) == (("mia",), "name=nightly, scope=read, days=365")
        lab.store.people.add("olga", "viewer", by="ada", email="olga@lab.org")
        assert (newest(lab).targets, newest(lab).detail) == (("olga",), "name=olga, role=viewer, email=olga@lab.org")
        for days in (0, 366):
            with pytest.raises(ConfigError, match=f"1 to 365 days; got {days}"):
                lab.store.tokens.make("mia", "nightly", "read", by="mia", days=days)
        assert lab.store.tokens.make("mia", "short", "read", by="mia", days=1)


def test_what_an_admin_made_pass_others_is_not_made_more_of_by_its_owner(lab: Lab) -> None:
    sweep_id = lab.lost_sweep("mo")
    lab.store.db.connection.execute("UPDATE runs SET priority = 2 WHERE sweep_id = ?", [sweep_id])
    for act in (
        partial(lab.store.sweeps.retry, sweep_id),
        partial(
            lab.store.sweeps.extend,
            sweep_id,
            GRID,
            {"seed": [1, 2]},
            [Launch("hogwild", {"seed": 2}, name="two", demand=SIZE)],
        ),
    ):
        before = dump(lab)
        with pytest.raises(Forbidden, match="move a run to the front of the queue"):
            act(by="mo")
        assert dump(lab) == before
        with undone(lab):
            assert act(by="ada")


def test_the_first_person_and_the_last_one_left_are_admins(home: Home) -> None:
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("hogwild", {}, "mia", demand=SIZE))
        store.runs.cancel(run_id, by="somebody else")
        assert [(each.who, each.role, each.command) for each in _audit(home)] == [
            ("somebody else", "anyone", "cancel"),
            ("mia", "anyone", "launch"),
        ]
    with Store.open(home) as store:
        with pytest.raises(ConfigError, match="must be an admin"):
            store.people.add("mo", "member", by="root")
        store.people.add("ada", "admin", by="root")
        for change in (partial(store.people.set_role, "ada", "viewer"), partial(store.people.disable, "ada")):
            with pytest.raises(ConfigError, match="the only admin"):
                change(by="ada")
        assert store.read.access.standing("ada").may("restore")


def test_the_audit_log_can_only_grow(lab: Lab) -> None:
    for sql in ("DELETE FROM audit", "UPDATE audit SET who = 'nobody'"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
            lab.store.db.connection.execute(sql)


def test_a_program_is_never_made_of_what_comes_from_outside(lab: Lab) -> None:
    with pytest.raises(Forbidden):
        lab.store.access.permit("restore", by="runner")
    assert PersonStanding(Program("runner"), None).role is None


def test_a_name_is_one_persons_whatever_its_letters(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="is already taken"):
        lab.store.people.add("ADA", "viewer", by="abe")
    with pytest.raises(
        Forbidden, match=r"^ADA has no active account"
    ):  # 'ADA' is not how ada's name is kept, so it is nobody's
        lab.store.access.permit("restore", by="ADA")
    with pytest.raises(ConfigError, match="is reserved by Parallab"):
        lab.store.people.add("Runner", "viewer", by="ada")


def test_no_method_that_people_can_call_is_without_a_rule(lab: Lab) -> None:
    public = {
        name: method
        for part in vars(lab.store).values()
        for name, method in inspect.getmembers(type(part), inspect.isfunction)
        if not name.startswith("_") and {"by", "owner"} & set(inspect.signature(method).parameters)
    }
    assert len(public) > 30
    assert {name for name, method in public.items() if not hasattr(method, "command_name")} == NO_COMMANDS
    assert set(GIVEN) == set(COMMANDS)


def _audit(home: Home) -> list[Entry]:
    with Reader.open(home) as reader:
        return reader.audit.entries()
