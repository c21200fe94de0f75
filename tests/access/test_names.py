"""Names: nobody looks like somebody else, and what a file says of owners is nobody's order here."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.access.confusables import sort_key
from engine.errors import ConfigError, EngineError, ImportRefused
from engine.home import Home
from engine.registry import experiment
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.sweep.launch import launch_sweep
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.access.people import settle
from tests.labs import basic
from tests.waiting import PATIENCE_S

CYRILLIC_A, GREEK_O = "\u0430", "\u03bf"


@pytest.mark.parametrize(
    "name",
    [
        f"{CYRILLIC_A}da",
        "ADA",
        "\uff41da",
        "a\u0323da",
        f"ad{CYRILLIC_A} ",
        "\u200bada",
        "ada\u3164",
        "\u2066ada",
        "a\u00adda",
    ],
)
def test_nobody_gets_a_name_that_looks_like_somebody_elses(home: Home, name: str) -> None:
    settle(home)
    with Store.open(home) as store:
        with pytest.raises(ConfigError, match=r"looks like|already|printable"):
            store.people.add(name, "viewer", by="ada")
        assert [row["name"] for row in store.db.rows("SELECT name FROM people")] == ["ada"]


def test_names_that_only_resemble_each_other_may_stand_side_by_side(home: Home) -> None:
    settle(home)
    names = [
        "Adam",
        "Adad",
        "\u0410\u043d\u043d\u0430",
        "\u0394\u03ae\u03bc\u03bf\u03c2",
        "\u674e\u96f7",
        "Mo O'Neil",
        "student 1",
        "student 2",
    ]
    with Store.open(home) as store:
        assert [store.people.add(name, "viewer", by="ada") for name in names] == names
        with pytest.raises(ConfigError, match="looks like"):
            store.people.add("student l", "viewer", by="ada")


@pytest.mark.parametrize("name", ["Runner", "c\u043ens\u043ele", "w\u03bfrker", "some\uff4fne"])
def test_a_name_of_a_part_of_parallab_is_nobodys(home: Home, name: str) -> None:
    with Store.open(home) as store, pytest.raises(ConfigError, match="is reserved by Parallab"):
        store.people.add(name, "admin", by="root")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Give a bundle of another lab whose runs, one of them of a sweep, are said to be ada's."""
    theirs = Home(tmp_path / "theirs").create()
    with Store.open(theirs) as store:
        for run_id in (basic.add(store, "ada"), basic.add(store, "ada")):
            basic.drive(store, theirs, run_id, "finished")
    with Reader.open(theirs) as reader:
        write_bundle(reader, [1, 2], tmp_path / "runs.zip", by="eve")
    return tmp_path / "runs.zip"


def test_imported_runs_are_those_of_whoever_brings_them(home: Home, bundle: Path) -> None:
    settle(home, "mo")
    with Store.open(home) as store:
        ids = import_path(store, bundle, by="mo").ids
        assert [row["owner"] for row in store.db.rows("SELECT owner FROM runs")] == ["mo"] * len(ids)
        assert {row["owner"] for row in store.db.rows("SELECT owner FROM origins")} == {"ada"}
        store.annotations.rename(ids[0], "mine", by="mo")


def test_nobody_adds_runs_to_anothers_sweep_by_a_file(home: Home, tmp_path: Path) -> None:
    settle(home, "mo", "mia")
    sweep = launch_sweep(
        home,
        SweepLaunch(
            Launch("hogwild", experiment("hogwild").preset("quick").settings, "mia", "quick"), {"trainers": [1, 2]}, 1
        ),
    )
    with Store.open(home) as store:
        for run in store.db.rows("SELECT id FROM runs WHERE sweep_id = ?", [sweep]):
            basic.drive(store, home, run["id"], "finished")
        store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    other = Home(tmp_path / "other").create()
    other.database.write_bytes(home.database.read_bytes())
    with Store.open(other) as store, Reader.open(other) as reader:
        write_bundle(reader, [1, 2], tmp_path / "sweep.zip", by="mia")
    with Store.open(home) as store:
        store.db.connection.execute("DELETE FROM runs WHERE id = 2")
        before = [tuple(row) for row in store.db.rows("SELECT * FROM sweeps")]
        with pytest.raises(ImportRefused, match=r"owned by mia\. Ask mia or an admin"):
            import_path(store, tmp_path / "sweep.zip", by="mo")
        assert [tuple(row) for row in store.db.rows("SELECT * FROM sweeps")] == before
        assert len(import_path(store, tmp_path / "sweep.zip", by="mia").ids) == 1


def test_of_first_accounts_made_at_once_one_stands(home: Home, reader: Reader) -> None:
    started = threading.Barrier(6)
    with Store.open(home):
        pass

    def claim(number: int) -> str:
        with Store.open(home) as store:
            started.wait(PATIENCE_S)
            try:
                return store.people.add(
                    f"claimant {chr(97 + number)}",
                    "admin",
                    by=f"claimant {chr(97 + number)}",
                    password="a fine long sentence",
                )
            except EngineError as error:
                return str(error)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(claim, range(6)))
    (first,) = reader.people.everyone()
    assert found.count(first.name) == 1
    assert sum("has no active account in this lab" in each for each in found) == 5


def test_names_are_sorted_by_their_letters_in_all_lists(home: Home) -> None:
    names = ["ada", "Émile", "Eva", "Öz", "olga", "Zoe", "ångström"]
    by_letters = ["ada", "ångström", "Émile", "Eva", "olga", "Öz", "Zoe"]
    assert sorted(names, key=sort_key) == by_letters
    with Store.open(home) as store:
        for name in names:
            store.people.add(name, "admin", by="ada")
            run_id = basic.add(store, name)
            store.annotations.rename(run_id, name, by="ada")
            store.views.save(name, "runs", "show=all", owner=name)
    with Reader.open(home) as reader:
        assert [one.name for one in reader.people.everyone()] == by_letters
        assert reader.runs.owners() == by_letters
        assert [view.name for view in reader.views.find()] == by_letters
        for field in ("owner", "name"):
            assert [run.owner for run in reader.runs.find(order=reader.fields.order(field))] == by_letters
