"""The `users` command: the commands of the pages about accounts work as printed, and a refusal prints the cure."""

import re
import shlex

import pytest
from click.testing import CliRunner, Result

from engine.cli import main
from engine.home import ROOT, Home

PASSWORD = "a quiet winter morning\n"
LINE = re.compile(r"^    (?:export (\w+)=(\S+)|python -m engine ((?:users|audit|limits) .+?))(?: +#.*)?$", re.MULTILINE)


def told(*words: str, owner: str | None = None, typed: str = PASSWORD * 2) -> Result:
    """Give a command under a login name without an account."""
    env = {"PARALLAB_OWNER": owner, "LOGNAME": "dora"}
    return CliRunner().invoke(main, words, typed, prog_name="python -m engine", env=env)


@pytest.mark.parametrize("page", ["signing-in", "people", "operations"])
def test_the_commands_of_a_page_about_accounts_work_in_their_order(home: Home, page: str) -> None:
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
