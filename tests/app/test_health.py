"""What /healthz says to whom: the same facts to everybody, and no path to strangers."""

import json
from pathlib import Path

import pytest

from engine import __version__
from engine.access.rules import Program
from engine.access.signing_in import sign_in
from engine.home import Home
from engine.store import Store
from engine.store.schema import newest
from tests.app.browsing import Client

PASSWORD = "seven brown foxes"


def health(**options: object) -> tuple[int, dict[str, object]]:
    answer = Client().get("/healthz", **options)
    return answer.status_code, answer.json()


@pytest.fixture
def cookie(home: Home) -> dict[str, str]:
    """Give the lab an account, and the cookie of its sign-in."""
    with Store.open(home) as store:
        store.add_person("ada", "admin", by=Program("first"), password=PASSWORD)
    return {"cookie": f"parallab_session={sign_in(home, 'ada', PASSWORD)}"}


def damage(home: Home) -> None:
    for name in ("-wal", "-shm"):
        home.database.with_name(home.database.name + name).unlink(missing_ok=True)
    home.database.write_bytes(b"this is no database " * 500)


def test_an_empty_home_is_well_but_has_no_runner(home: Home) -> None:
    status, told = health()
    assert (status, told.pop("disk_free_bytes", 0) > 0) == (200, True)  # type: ignore[operator]
    assert told == {"console": "parallab", "version": __version__, "store": "ok", "schema": newest(), "runner": "absent"}


def test_strangers_are_told_whether_it_lives_and_no_path(home: Home, cookie: dict[str, str]) -> None:
    assert (health()[0], health()[1]["store"]) == (200, "ok")
    damage(home)
    status, told = health()
    assert (status, told["store"], told["runner"], told["schema"]) == (
        503,
        "The store is not an SQLite database. Move that file away, or name another PARALLAB_HOME.",
        "unknown",
        None,
    )
    assert str(home.path) not in json.dumps(told)
    for path in ("/", "/signin", "/api/token", "/api/v1/runs", "/metrics"):
        answer = Client().get(path, headers=cookie)
        assert (answer.status_code, str(home.path) in answer.text, answer.headers["retry-after"]) == (503, False, "1")


def test_a_store_that_is_newer_is_no_reason_to_name_it(home: Home, cookie: dict[str, str]) -> None:
    with Store.open(home) as store:
        store.connection.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('parallab', 'from_the_future', '2099')")
    status, told = health()
    assert (status, "written by a newer Parallab" in str(told["store"]), str(home.path) in str(told)) == (503, True, False)


def test_sentences_lose_the_homes_paths_and_nothing_else(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    assert home.unnamed(f"No run has the id 9 in {home.database}. The list command shows which there are.") == (
        "No run has the id 9. The list command shows which there are."
    )
    assert home.unnamed(f"See {home.runner_log}.") == "See the home/runner.log."
    assert home.unnamed(f"The home {home.path} can't be made.") == "The home can't be made."
