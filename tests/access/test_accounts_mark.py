"""A lab that has had an account never opens again by losing its store: a mark beside the store says so, and no crash
leaves an account without it.
"""

import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.auth.middleware import CLOSED
from app.core.console_address import ConsoleAddress, refusal
from engine.access.rules import LOST
from engine.cli import main
from engine.cli.frame import BAD_INPUT, NO_STORE
from engine.doctor.storage import store as examine_store
from engine.errors import Forbidden, SignInRefused, StoreError
from engine.home import ROOT, Home
from engine.store import Reader, Store
from engine.upkeep.backups import back_up, restore
from tests.access.test_middleware import BROKEN
from tests.app.browsing import Client
from tests.waiting import PATIENCE_S

CRASHES = """
import os, sys
from pathlib import Path
from engine.home import Home
from engine.store import Store

def make_account(home, dies_at):
    seen = 0
    def statement(_):
        nonlocal seen
        seen += 1
        if seen > dies_at:
            os._exit(9)
    with Store.open(home) as store:
        store.db.connection.set_trace_callback(statement)
        store.people.add("ada", "admin", by="ada")
    os._exit(0)

for dies_at in range(100):
    home = Home(Path(sys.argv[1]) / str(dies_at))
    with Store.open(home):
        pass
    child = os.fork()
    if child == 0:
        make_account(home, dies_at)
    if os.waitpid(child, 0)[1] == 0:
        break
print(dies_at)
"""


@pytest.mark.processes
def test_a_crash_at_any_statement_of_the_first_account_leaves_no_account_without_its_mark(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CRASHES, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    statements = int(ended.stdout)
    assert 3 < statements < 99
    homes = [Home(tmp_path / str(number)) for number in range(statements + 1)]
    found = [(_has_people(home), home.accounts.exists()) for home in homes]
    assert found[0] == (False, False)
    assert (False, True) in found, "the mark is there before the account is"
    assert found[-1] == (True, True)
    assert (True, False) not in found


def _has_people(home: Home) -> bool:
    with Reader.open(home) as reader:
        return reader.access.has_people()


@pytest.fixture(params=["gone", "without its people"])
def lost(home: Home, request: pytest.FixtureRequest) -> Home:
    """A lab with an account, and a backup, whose store was emptied or deleted."""
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada")
    back_up(home, by="ada")
    BROKEN[request.param](home.database)
    return home


def test_a_restart_with_an_emptied_store_opens_nothing_until_the_accounts_are_back(lost: Home) -> None:
    page, far = {"accept": "text/html"}, {"x-forwarded-for": "10.1.1.1"}
    assert [Client().get(path).status_code for path in ("/", "/signin", "/api/token", "/api/v1/runs", "/metrics")] == [
        503
    ] * 5
    assert LOST in unescape(Client().get("/", headers=page).text)
    assert CLOSED in unescape(Client().get("/", headers=page | far).text)
    well = Client().get("/healthz")
    assert (well.status_code, well.json()["store"]) == (503, LOST)
    with pytest.raises(StoreError, match="Account database missing"):
        refusal(ConsoleAddress(address="0.0.0.0"))
    with Store.open(lost) as store:
        store.people.add("ada", "admin", by="ada")
    assert [Client().get(path).status_code for path in ("/signin", "/api/token", "/healthz")] == [200, 401, 200]


def test_a_store_that_lost_its_accounts_takes_no_command_but_those_that_bring_them_back(lost: Home) -> None:
    with Store.open(lost) as store:
        for name in ("ada", "mallory"):
            with pytest.raises(Forbidden, match=r"Account database missing.* restore .* users add NAME --role admin"):
                store.views.save("mine", "results", "metric=loss", owner=name)
        with pytest.raises(SignInRefused, match="Account database missing"):
            store.people.known_by_provider("https://id.example.org", "1", "Eve", "eve@example.org", "admin")
        store.access.permit("stop runner", by="ada")
        store.people.add("ada", "admin", by="ada")
        assert (store.read.access.standing("ada").role, store.read.access.standing("mallory").role) == ("admin", None)


def test_a_restore_brings_the_accounts_back_and_the_doctor_names_the_cure(lost: Home) -> None:
    found = examine_store(lost)
    assert (found.state, found.sentence) == ("fail", LOST)
    assert _parallab("users", "list") == (NO_STORE, f"{LOST}\n")
    assert _parallab("star", "1", "--owner", "ada") == (BAD_INPUT, f"{LOST}\n")
    assert _parallab("users", "add", "ada", "--role", "admin", "--email", "ada@lab.org", "--no-password")[0] == 0
    assert "ada@lab.org" in _parallab("users", "list")[1]
    restore(lost, next(lost.backups.glob("*.db")), by="ada")
    assert _has_people(lost)
    assert Client().get("/api/token").status_code == 401


def _parallab(*words: str) -> tuple[int, str]:
    told = CliRunner().invoke(main, words)
    return told.exit_code, told.output


def test_a_lab_of_an_older_version_and_one_that_is_restored_elsewhere_get_their_mark(
    home: Home, tmp_path: Path
) -> None:
    with Store.open(home) as store:
        assert not home.accounts.exists()
        store.people.add("ada", "admin", by="ada")
    home.accounts.unlink()
    with Store.open(home):
        assert home.accounts.exists()
    elsewhere = Home(tmp_path / "elsewhere")
    restore(elsewhere, back_up(home, by="ada").path, by="ada")
    assert elsewhere.accounts.exists()


def test_a_mark_that_is_a_broken_link_still_counts(home: Home) -> None:
    with Store.open(home):
        pass
    home.accounts.symlink_to(home.path / "nowhere")
    assert Client().get("/api/token").status_code == 503
