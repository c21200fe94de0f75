"""The `users` command: the commands of the pages about accounts work as printed, and a refusal prints the cure."""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.access import passwords
from engine.cli import main
from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.store import Reader, Store
from engine.system.runner_process import console_presence
from tests.labs import basic

PASSWORD = "a quiet winter morning\n"
LINE = re.compile(r"^ {4,}(?:export (\w+)=(\S+)|python -m engine ((?:users|audit|limits) .+?))(?: +#.*)?$", re.M)


def told(*words: str, owner: str | None = None, typed: str = PASSWORD * 2) -> Result:
    """Give a command under a login name without an account."""
    env = {"PARALLAB_OWNER": owner, "LOGNAME": "dora"}
    return CliRunner().invoke(main, words, typed, prog_name="python -m engine", env=env)


@pytest.mark.parametrize("page", ["first-hour", "signing-in", "people", "operations"])
def test_the_commands_of_a_page_about_accounts_work_in_their_order(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("Grace Hopper, grace@example.org\nBen\nCleo\n")
    owner, done = None, 0
    for variable, value, line in LINE.findall((ROOT / "docs" / f"{page}.md").read_text()):
        owner = value if variable == "PARALLAB_OWNER" else owner
        if line:
            found = told(*shlex.split(line), owner=owner)
            assert found.exit_code == 0, f"{line}: {found.output}"
            done += 1
    assert done >= 3


def test_a_refusal_prints_the_ready_command(home: Home) -> None:
    assert told("users", "add", "Ada Lovelace", "--role", "admin").exit_code == 0
    refused = told("users", "add", "mia", "--role=member", "--email", "mia@example.org", "--owner", "mia")
    assert refused.exit_code == 2 and "mia has no active account in this lab" in refused.stderr
    (ready,) = re.findall(r"^    python -m engine (.+)$", refused.stderr, re.MULTILINE)
    assert ready == "users add mia --role=member --email mia@example.org --owner 'Ada Lovelace'"
    assert told(*shlex.split(ready)).exit_code == 0
    assert "Other accounts" not in refused.stderr


def test_runs_from_before_accounts_under_another_spelling_are_told_and_all_accounts_have_their_limits(
    home: Home, store: Store
) -> None:
    basic.add(store, "Ada")
    added = told("users", "add", "ada", "--role", "admin")
    assert added.exit_code == 0 and "the runs of 'Ada' stay under that spelling" in added.stderr
    assert "Caution" not in told("users", "add", "mo", "--role", "member", "--owner", "ada").stderr
    listed = [line.split()[0] for line in told("limits").stdout.splitlines() if line[:2] in ("Ad", "ad", "mo")]
    assert sorted(listed) == ["Ada", "ada", "mo"], "also those without a run"
    told("limits", "set", "--running", "2", "--owner", "ada")
    assert told("limits", "set", "--person", "mo", "--running", "1", "--owner", "ada").exit_code == 0
    assert "Running runs per person: 2; another limit for mo (see `limits`)." in told("queue").stdout


LIST = "\ufeffGrace Hopper; grace@lab.org\n\nMo\nmia,mia@lab.org\n"


def test_a_list_of_names_becomes_accounts_with_printable_passwords(home: Home, tmp_path: Path) -> None:
    names, sheet = tmp_path / "names.txt", tmp_path / "slips.html"
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    add = ("users", "add-list", str(names), "--role", "member", "--owner", "ada")
    for text, sentence in (
        ("", "A list must have 1 to 200 names, one per line; got 0."),
        ("x\n" * 201, "got 201"),
        ("Mo\nADA\nmo\nzoe, zoe\n", "Line 2: The name 'ada' is already taken"),
    ):
        names.write_text(text)
        refused = told(*add)
        assert refused.exit_code == 2 and sentence in refused.stderr, refused.output
    assert "Line 3: The name 'Mo' is already taken" in refused.stderr and "Line 4: An e-mail" in refused.stderr
    assert refused.stderr.count("A name is written without a comma") == 1
    names.write_bytes("Jos\xe9\n".encode("latin-1"))
    assert "must be text in UTF-8" in told(*add).stderr
    names.write_text(LIST)
    sheet.write_text("another file")
    refused = told(*add, "--sheet", str(sheet), "--address", "http://lab")
    assert refused.exit_code == 2 and "it exists already" in refused.stderr
    with Reader.open(home) as reader:
        assert [one.name for one in reader.people.everyone()] == ["ada"], "all or none"
    sheet.unlink()
    done = told(*add, "--sheet", str(sheet), "--address", "https://lab.example.org/<b>")
    assert "Created 3 accounts with role member." in done.output and sheet.stat().st_mode & 0o777 == 0o600
    page = sheet.read_text()
    made = dict(re.findall(r"<dt>Name</dt><dd>(.+?)</dd>.*?<dd class=\"password\">(.+?)</dd>", page))
    assert list(made) == ["Grace Hopper", "Mo", "mia"] and page.count("https://lab.example.org/&lt;b&gt;") == 3
    assert all(re.fullmatch(r"([a-hjkmnp-z2-9]{4}-){3}[a-hjkmnp-z2-9]{4}", password) for password in made.values())
    with Reader.open(home) as reader:
        assert {one.name: (one.role, one.email) for one in reader.people.everyone()} == {
            "ada": ("admin", ""),
            "Grace Hopper": ("member", "grace@lab.org"),
            "Mo": ("member", ""),
            "mia": ("member", "mia@lab.org"),
        }
        for name, password in made.items():
            assert password not in done.output and passwords.fits(password, reader.sign_ins.password_of(name)[1])
        entry = reader.audit.entries(command="add person")[0]
        assert (entry.who, entry.targets) == ("ada", ("Grace Hopper", "Mo", "mia"))
        assert "person Grace Hopper, Mo, mia" in told("audit", "--limit", "1").stdout
        assert not [password for password in made.values() if password in str(reader.audit.entries())]
    again = told("users", "add-list", "-", "--role", "viewer", "--owner", "ada", "--json", typed="vera\n")
    (slip,) = json.loads(again.stdout)
    with Reader.open(home) as reader:
        assert passwords.fits(slip["password"], reader.sign_ins.password_of("vera")[1])


def test_a_refused_list_and_a_refused_end_of_an_account_are_in_the_audit_log(home: Home, tmp_path: Path) -> None:
    """Both are changes of several commands, which a refusal undoes; its row stays."""
    names = tmp_path / "names.txt"
    names.write_text("zoe\n")
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    assert told("users", "add", "mo", "--role", "member", "--owner", "ada").exit_code == 0
    with Store.open(home) as store:
        basic.add(store, "ada")
    assert told("users", "add-list", str(names), "--role", "viewer", "--owner", "mo").exit_code == 2
    assert told("users", "disable", "ada", "--cancel-runs", "--owner", "mo").exit_code == 2
    with Reader.open(home) as reader:
        found = [(entry.command, entry.who, entry.role) for entry in reader.audit.entries(refused=True)]
        assert [one.name for one in reader.people.everyone()] == ["ada", "mo"]
    assert found == [("cancel", "mo", "member"), ("add person", "mo", "member")]


def test_an_address_is_given_to_an_account_and_taken_from_it(home: Home) -> None:
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    done = told("users", "email", "ada", " ada@lab.org ", "--owner", "ada")
    assert done.stdout == "ada now has the e-mail address ada@lab.org.\n"
    refused = told("users", "email", "ada", "lab", "--owner", "ada")
    assert (refused.exit_code, "must look like ada@lab.org" in refused.stderr) == (2, True)
    with Reader.open(home) as reader:
        assert reader.people.one("ada").email == "ada@lab.org"
        entry = reader.audit.entries(command="set email")[0]
    assert (entry.who, entry.targets, entry.detail) == ("ada", ("ada",), "email= ada@lab.org ")
    assert told("users", "email", "ada", "", "--owner", "ada").stdout == "ada now has no e-mail address.\n"
    with Reader.open(home) as reader:
        assert reader.people.one("ada").email == ""


def test_slips_without_the_consoles_address_are_refused_before_any_account(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARALLAB_PUBLIC_URL", raising=False)
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    add = ("users", "add-list", "-", "--role", "viewer", "--owner", "ada", "--sheet")
    refused = told(*add, str(tmp_path / "a.html"), typed="mia\n")
    assert refused.exit_code == 2 and "add --address URL, or set PARALLAB_PUBLIC_URL" in refused.stderr
    with Reader.open(home) as reader:
        assert [one.name for one in reader.people.everyone()] == ["ada"]
    given = told(*add, str(tmp_path / "a.html"), "--address", "http://lab", typed="mia\n")
    own = told(*add, str(tmp_path / "b.html"), "--address", "http://127.0.0.1:8501/", typed="zoe\n")
    assert given.exit_code == own.exit_code == 0
    assert "this machine only" in own.stdout and "this machine only" not in given.stdout


def test_what_a_command_refuses_it_refuses_once_and_before_it_asks_for_a_password(home: Home) -> None:
    for words in (("add", "mia", "--role", "member"), ("add-list", "-", "--role", "member")):
        refused = told("users", *words, typed="mia\nmo\n")
        assert refused.exit_code == 2 and "Password" not in refused.stderr
        assert refused.stderr.count("The first account must be an admin") == 1
        assert "users add NAME --role admin" in refused.stderr
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    for words in (("add", "ADA", "--role", "viewer"), ("password", "nobody")):
        refused = told("users", *words, "--owner", "ada")
        assert refused.exit_code and "Password" not in refused.stderr, refused.output


def test_the_first_account_names_the_next_steps_and_later_ones_do_not(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_PUBLIC_URL", "https://lab.example.org/")
    first = told("users", "add", "Ada L", "--role", "admin").stdout
    assert "Sign-in is on now: open the console at https://lab.example.org" in first
    assert "export PARALLAB_OWNER='Ada L'" in first and "users add-list" in first
    assert "PARALLAB_OWNER" not in told("users", "add", "mo", "--role", "member", "--owner", "Ada L").stdout


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [([], "queued", "disabled.\n"), (["--cancel-runs"], "cancelled", "disabled; 2 runs being cancelled.\n")],
)
def test_a_disabled_account_keeps_its_runs_unless_they_are_cancelled_too(
    home: Home, options: list[str], status: str, said: str
) -> None:
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="root")
        store.people.add("mo", "member", by="ada")
        queued, running, other = basic.add(store, "mo"), basic.add(store, "mo"), basic.add(store, "ada")
        basic.drive(store, home, running, "running")
    assert said in told("users", "disable", "MO", "--owner", "ada", *options).output
    with Reader.open(home) as reader:
        assert reader.runs.one(queued).status == status
        assert reader.runs.one(running).status == ("stopping" if options else "running")
        assert reader.runs.one(other).status == "queued"
        assert not reader.people.one("mo").active
        found = [
            (entry.command, entry.who) for entry in reader.audit.entries() if entry.command in ("cancel", "disable")
        ]
    assert found == [("disable", "ada"), *([("cancel", "ada")] * 2 if options else [])]


def test_the_unix_user_of_the_home_maintains_it_without_an_account(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told("users", "add", "ada", "--role", "admin").exit_code == 0
    assert told("users", "add", "mo", "--role", "member", "--owner", "ada").exit_code == 0
    assert told("stop").exit_code == 0
    done = told("backup", "--json")
    assert done.exit_code == 0, done.output
    with Reader.open(home) as reader:
        entry = reader.audit.entries(command="back up")[0]
        assert (entry.who, entry.role, entry.refused) == ("dora on the command line", "program", "")
    path = json.loads(done.stdout)["path"]
    with console_presence(home):
        refused = told("restore", path)
        assert refused.exit_code == 4 and "Ctrl-C in its terminal, or systemctl stop parallab-console" in refused.stderr
    assert told("restore", path).exit_code == 0
    for owner in ("dora", "mo"):
        assert told("backup", owner=owner).exit_code == 2, "a name that is given counts"
    monkeypatch.setenv("LOGNAME", "mo")
    assert CliRunner().invoke(main, ["backup"]).exit_code == 2, "so does an account"
    assert told("users", "role", "mo", "admin").exit_code == 2, "other commands need an account"
    monkeypatch.setattr("os.geteuid", lambda: home.path.stat().st_uid + 1)
    refused = told("backup")
    assert refused.exit_code == 2 and "    python -m engine backup --owner ada\n" in refused.stderr


def test_a_lab_without_accounts_says_that_scripts_need_no_token(store: Store) -> None:
    with pytest.raises(ConfigError, match="This lab has no accounts, so scripts need no token"):
        store.tokens.make("ada", "nightly", "read", by="ada")
