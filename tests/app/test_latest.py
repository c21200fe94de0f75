from pathlib import Path

from app.latest import Latest
from engine.home import Home
from engine.store import Reader, Store
from tests.app import labs


def test_a_token_is_the_stores_own_at_every_moment(home: Home) -> None:
    latest = Latest()
    assert latest.token(home, 1) == latest.token(home) == 0
    with Store.open(home) as store, Reader.open(home) as reader:
        for _ in range(3):
            run_id = labs.add(store, "Ada")
            store.set_note(1, f"after run {run_id}", by="Ada")
            assert latest.token(home, 1) == reader.token(1)
            assert latest.token(home) == reader.token()
    assert latest.token(home, 99) == 0
    latest.close()


def test_a_store_put_in_the_place_of_another_is_the_one_that_is_read(home: Home, tmp_path: Path) -> None:
    latest, other = Latest(), Home(tmp_path / "other").create()
    for one, runs in ((home, 1), (other, 3)):
        with Store.open(one) as store:
            for _ in range(runs):
                labs.add(store, "Ada")
            store.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    before = latest.token(home)
    expected = latest.token(other)
    assert latest.token(home) == before != expected
    other.database.replace(home.database)
    assert latest.token(home) == expected
    latest.close()
