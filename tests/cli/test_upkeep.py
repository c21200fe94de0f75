"""backup, restore, fsck and gc as a person runs them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.doctor import Finding
from engine.home import ROOT, Home
from engine.store import Reader, Store
from engine.upkeep.backups import NOT_IN_A_BACKUP
from tests.cli.conftest import Parallab


def test_a_backup_and_the_way_back(
    home: Home, parallab: Parallab, store: Store, ended: int, queued: Callable[..., int]
) -> None:
    made = json.loads(parallab("backup", "--json").stdout)
    assert [each["path"] for each in json.loads(parallab("backup", "--list", "--json").stdout)] == [made["path"]]
    names, row = (line.split() for line in parallab("backup", "--list").stdout.splitlines())
    assert (names, row[-1], float(row[-2])) == (
        ["MADE", "MB", "FILE"],
        made["path"],
        pytest.approx(made["size"] / 1e6, rel=1e-3),
    )
    queued()
    store.close()
    done = parallab("restore", made["path"])
    assert done.returncode == 0, done.stderr
    assert "1 run.\nThe previous store is in" in done.stdout
    with Reader.open(home) as reader:
        assert [row.id for row in reader.runs.find()] == [ended]


def test_a_restore_into_an_empty_home_speaks_of_no_previous_store_and_leaves_no_empty_folder(
    home: Home, parallab: Parallab, store: Store, ended: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(parallab("backup", "--json").stdout)["path"]
    new = Home(tmp_path / "new")
    monkeypatch.setenv("PARALLAB_HOME", str(new.path))
    done = parallab("restore", made)
    assert done.returncode == 0, done.stderr
    assert "previous store" not in done.stdout and not list(new.aside.glob("*"))
    with Reader.open(new) as reader:
        assert [row.id for row in reader.runs.find()] == [ended]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [(("restore", "none.db"), 3, "doesn't exist"), (("gc",), 2, "needs --thin-after-days")],
)
def test_what_can_not_be_done_is_a_sentence_and_a_code(
    parallab: Parallab, ended: int, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = parallab(*words)
    assert (done.returncode, sentence in done.stderr) == (code, True), done


def test_fsck_says_mends_and_ends_with_its_code(home: Home, parallab: Parallab, store: Store, ended: int) -> None:
    with store.db.change() as connection:
        connection.execute("UPDATE metrics SET count = 7 WHERE name = 'test/accuracy'")
    told = parallab("fsck")
    assert (told.returncode, "summary: The summary of test/accuracy of run 1 has 7 points" in told.stdout) == (
        1,
        True,
    ), told
    assert "python -m engine fsck --mend" in told.stdout
    mended = json.loads(parallab("fsck", "--mend", "--json").stdout)
    assert (mended["sound"], [each["state"] for each in mended["findings"]]) == (True, ["mended"])
    assert parallab("fsck").stdout == "No problems found.\n"


def test_a_backup_is_checked_as_a_restore_would_without_a_change(
    home: Home, parallab: Parallab, store: Store, ended: int, tmp_path: Path
) -> None:
    none = parallab("backup", "--check")
    assert (none.returncode, "Make one with: python -m engine backup" in none.stderr) == (3, True), none
    made = Path(json.loads(parallab("backup", "--json").stdout)["path"])
    before = {path: path.read_bytes() for path in home.backups.iterdir()}
    told = parallab("backup", "--check")
    assert (told.returncode, told.stdout) == (
        0,
        f"{made} is sound: 1 run; its checksum, schema and integrity are right.\n",
    )
    assert json.loads(parallab("backup", "--check", str(made), "--json").stdout) == {
        "path": str(made),
        "sound": True,
        "runs": 1,
    }
    assert {path: path.read_bytes() for path in home.backups.iterdir()} == before
    made.write_bytes(before[made][:-1] + b"?")
    broken = parallab("backup", "--check")
    assert (broken.returncode, "SHA-256 doesn't match" in broken.stderr) == (3, True), broken
    refused = parallab("backup", "copy.db").stderr
    assert f"A backup goes into {home.backups}, not to copy.db: make one" in " ".join(refused.split())
    assert "backup [OPTIONS] [--check FILE]" in parallab("backup", "--help").stdout
    for words in (("backup", str(made)), ("fsck", str(made))):
        refused = parallab(*words)
        assert (refused.returncode, f"python -m engine backup --check {made}" in refused.stderr) == (2, True), refused


def test_the_help_of_backup_names_all_that_it_leaves_out(parallab: Parallab) -> None:
    said = parallab("backup", "--help").stdout
    names = re.findall(r"\w+(?:/|\.json|\.toml)", NOT_IN_A_BACKUP)
    assert [each for each in names if each not in said] == []
    table = (ROOT / "docs" / "operations.md").read_text().partition("| In a backup? |")[2].partition("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines() if "no: copy it" in row]
    to_copy = {name.replace("<id>/", "") for row in rows for name in re.findall(r"`([\w/<>.]+)`", row[0])}
    assert len(to_copy) >= 7 and to_copy - {"catalogue.lock"} <= set(names), "the document asks to copy no more"


def test_gc_says_before_what_it_would_do(home: Home, parallab: Parallab, store: Store, ended: int) -> None:
    told = parallab("gc", "--delete-after-days", "0", "--dry-run")
    assert "Would delete 1 run: 1" in told.stdout
    told = json.loads(parallab("gc", "--delete-after-days", "0", "--dry-run", "--json").stdout)
    assert (told["dry_run"], [run["run_id"] for run in told["deleted"]], told["thinned"]) == (True, [ended], [])
    assert "Deleted 1 run: 1" in parallab("gc", "--delete-after-days", "0").stdout
    with Reader.open(home) as reader:
        assert reader.runs.count() == 0
    assert "no run is old enough" in parallab("gc", "--thin-after-days", "0").stdout


def test_a_restore_names_the_queued_runs_how_to_stop_them_and_what_is_missing(
    parallab: Parallab, home: Home, store: Store, queued: Callable[..., int]
) -> None:
    first, second = queued(), queued()
    told = parallab("backup").stdout
    assert "In a backup: runs with curves" in told and "Not in a backup: logs and checkpoints (runs/)" in told
    made = json.loads(parallab("backup", "--json").stdout)
    store.close()
    said = parallab("restore", made["path"]).stdout
    assert "The next runner starts 2 queued runs." in said
    assert f"python -m engine hold {first} {second}\n    python -m engine cancel {first} {second}\n" in said
    assert "Not in a backup: logs and checkpoints (runs/)" in said and "notices.toml" in said
    assert parallab("hold", str(first), str(second)).returncode == 0
    refused = parallab("cancel", str(first), "99")
    assert (refused.returncode, refused.stdout) == (2, "")
    cancelled = f"Run {first} is cancelled.\nRun {second} is cancelled.\n"
    assert parallab("cancel", str(first), str(second)).stdout == cancelled, "the refused one cancelled none"


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("permissions", "This machine can execute runs, but other users can read files of the lab: see permissions."),
        ("home", "This machine cannot execute runs yet."),
    ],
)
def test_the_doctor_says_that_runs_are_stopped_only_by_what_stops_them(
    parallab: Parallab, monkeypatch: pytest.MonkeyPatch, failing: str, said: str
) -> None:
    monkeypatch.setattr("engine.doctor.examine", lambda home: [Finding(failing, "fail", "It is so.")])
    done = parallab("doctor")
    assert done.returncode == 1 and done.stdout.endswith(f"{said}\n")


def test_delete_names_what_is_gone_and_what_is_kept(
    home: Home, parallab: Parallab, store: Store, ended: int, queued: Callable[..., int]
) -> None:
    waiting = queued()
    told = parallab("delete", str(ended), str(waiting), "--dry-run").stdout
    assert told.startswith(f"Would delete 1 run: {ended}. Kept 1 run. Runs that have not ended,")
    done = json.loads(parallab("delete", "--filter", f"id == {ended}", "--json").stdout)
    assert done == {"dry_run": False, "deleted": [ended], "kept": []}
    assert [row.id for row in store.read.runs.find()] == [waiting]
