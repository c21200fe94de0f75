"""A lab with accounts: a viewer, two members and an admin, each with a run, and one of each other kind of thing that
has an owner.
"""

from dataclasses import dataclass

import pytest

from app.core.visitor import COOKIE
from engine.access.rules import Program, Role
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Store, SweepLaunch
from engine.store.records import Status
from engine.sweep.launch import launch_sweep
from tests.labs import basic

PEOPLE: dict[str, Role] = {"vera": "viewer", "mo": "member", "mia": "member", "ada": "admin"}
PASSWORD = "a quiet winter morning"
SETUP = Program("setup")


@dataclass(frozen=True)
class Lab:
    """The ids of what each member has."""

    running: dict[str, int]
    queued: dict[str, int]
    failed: dict[str, int]
    sweeps: dict[str, int]
    views: dict[str, int]


def people(home: Home, *, passwords: bool = False) -> None:
    """Give everyone an account, with a password where it is asked for: a hash takes its time."""
    with Store.open(home) as store:
        for name, role in sorted(PEOPLE.items(), key=lambda pair: pair[1] != "admin"):
            store.people.add(name, role, by=SETUP, password=PASSWORD if passwords else None, email=f"{name}@lab.org")


def fill(home: Home, *, passwords: bool = False) -> Lab:
    """Add the people, and for each member a run that is on, one that waits, one that failed, a sweep that waits and a
    saved view.
    """
    people(home, passwords=passwords)
    members = ("mo", "mia")
    with Store.open(home) as store:
        running, failed = (
            {name: _driven(store, home, name, status) for name in members} for status in ("running", "failed")
        )
    queued = {
        name: launch(
            home, Launch("hogwild", experiment("hogwild").configure("quick").model_dump(mode="json"), name, "quick")
        )
        for name in members
    }
    sweeps = {
        name: launch_sweep(
            home,
            SweepLaunch(
                Launch("hogwild", experiment("hogwild").preset("quick").settings, name), {"trainers": [1, 2]}, 1
            ),
        )
        for name in members
    }
    with Store.open(home) as store:
        views = {
            name: store.views.save(f"Losses of {name}", "compare", f"runs={running[name]}", owner=name)
            for name in members
        }
    return Lab(running, queued, failed, sweeps, views)


def _driven(store: Store, home: Home, owner: str, status: Status) -> int:
    run_id = basic.add(store, owner)
    basic.drive(store, home, run_id, status)
    return run_id


def sign_in(home: Home, monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """Let pages see the cookie of a new sign-in; return the secret that it holds."""
    with Store.open(home) as store:
        secret = store.sign_ins.begin(name, "password", browser="Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    monkeypatch.setattr("app.ui.current_user._cookies", lambda: {COOKIE: secret})
    return secret
