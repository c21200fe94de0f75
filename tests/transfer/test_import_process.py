"""An import goes on in a process of its own, with limits of memory and time; however that ends, the lab is as it was,
or has all of the runs.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from engine.errors import EngineError, Forbidden, ImportRefused
from engine.home import ROOT, Home
from engine.store import Store
from engine.transfer import import_process
from engine.transfer.import_child import import_path
from engine.transfer.import_process import Allowance, import_in_child
from tests.test_architecture import imports, modules
from tests.transfer.bundles.bundle_files import counts, told
from tests.transfer.test_import_bounds import noise, zipped
from tests.waiting import wait_until

MB = 1 << 20

pytestmark = pytest.mark.processes


def refusal(home: Home, path: Path, **allowed: float) -> str:
    """Return why an import is refused; the store has to be as it was, and no process left."""
    with Store.open(home) as store:
        before = counts(store)
        with pytest.raises(ImportRefused) as refused:
            import_in_child(home, path, by="Lin", allowance=Allowance(**allowed))  # type: ignore[arg-type]
        assert counts(store) == before
    assert not importers()
    assert not list(home.path.glob("runs/*"))
    return str(refused.value)


def importers() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # one that has ended meanwhile has no command line
            found += [each] if "engine.transfer.import_child" in each.cmdline() else []
    return found


def test_what_comes_of_it_is_what_an_import_gives(bundle: Path, ours: Store, tmp_path: Path) -> None:
    with Store.open(Home(tmp_path / "another")) as another:
        wanted = import_path(another, bundle, by="Lin")
        found = import_in_child(ours.db.home, bundle, by="Lin")
        assert (len(found.ids), found.notes, found.sweeps) == (len(wanted.ids), wanted.notes, wanted.sweeps)
        for here, there in zip(found.ids, wanted.ids, strict=True):
            assert told(ours.db.home, here) == told(another.db.home, there)
    again = import_in_child(ours.db.home, bundle, by="Lin")
    assert (again.ids, again.found) == ((), found.ids)


def test_only_the_process_of_an_import_reads_files_of_runs() -> None:
    assert not {name for name in modules() if "engine.transfer.import_child" in imports(name)}
    assert all(
        "engine.transfer.import_process" in imports(name) for name in ("app.runs.import_dialog", "engine.cli.transfer")
    )


def test_who_may_not_import_is_told_so(bundle: Path, ours: Store) -> None:
    ours.people.add("ada", "admin", by="ada")
    ours.people.add("vi", "viewer", by="ada")
    with pytest.raises(Forbidden, match="vi"):
        import_in_child(ours.db.home, bundle, by="vi")
    with pytest.raises(Forbidden, match="no active account") as refused:
        import_in_child(ours.db.home, bundle, by="root")
    assert refused.value.may == ("ada",), "the command line prints the command under such an account"


def test_a_process_that_ends_without_an_answer_is_a_sentence(
    bundle: Path, ours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # no interpreter starts
    with pytest.raises(
        EngineError, match=r"The import process for runs\.zip exited with code 1\. Nothing was imported"
    ):
        import_in_child(ours.db.home, bundle, by="Lin")


def test_only_one_import_goes_on_in_a_lab(bundle: Path, ours: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_process, "WAIT_S", 0.2)
    with FileLock(ours.db.home.import_lock):
        assert "Another import has been running for more than 0.2 s" in refusal(ours.db.home, bundle)


def test_an_import_that_needs_more_memory_than_it_may_is_a_sentence(ours: Store, tmp_path: Path) -> None:
    path = zipped(tmp_path, {f"tags/{number}": noise(MB - 2_000) for number in range(1)})
    assert re.fullmatch(
        (
            r"mlruns\.zip needs more than the import's memory limit of 0\.0002 GB\. Nothing was imported\. Import "
            r"fewer runs at a time\."
        ),
        refusal(ours.db.home, path, memory_bytes=200_000),
    )


@contextmanager
def held(store: Store) -> Iterator[None]:
    """Hold the store's write lock."""
    with store.db.change():
        yield


def test_an_import_that_takes_too_long_is_killed_and_leaves_nothing(bundle: Path, ours: Store) -> None:
    before = counts(ours)
    with (
        Store.open(ours.db.home) as other,
        held(other),
        pytest.raises(ImportRefused) as refused,
    ):  # it waits for the lock
        import_in_child(ours.db.home, bundle, by="Lin", allowance=Allowance(time_s=3))
    assert (
        str(refused.value)
        == "Importing runs.zip took longer than 3 s. Nothing was imported. Import fewer runs at a time."
    )
    assert (counts(ours), importers(), list(ours.db.home.path.glob("runs/*"))) == (before, [], [])


ENDLESS = """
CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n;
CREATE TRIGGER waits BEFORE INSERT ON runs BEGIN SELECT count(*) FROM endless; END;
"""


def test_an_import_that_is_killed_between_its_files_and_its_rows_leaves_no_folder(bundle: Path, ours: Store) -> None:
    """Its first row takes for ever; it is killed once a folder is there."""
    ours.db.connection.executescript(ENDLESS)
    seen: list[list[Path]] = []

    def kill() -> None:
        wait_until(lambda: list(ours.db.home.path.glob("runs/*")), "the folder of the run is there")
        seen.append(list(ours.db.home.path.glob("runs/*")))
        for process in importers():
            process.send_signal(signal.SIGKILL)

    killing = threading.Thread(target=kill)
    before = counts(ours)
    killing.start()
    with pytest.raises(ImportRefused, match=rf"{bundle.name} was killed by signal 9 .* Nothing was imported"):
        import_in_child(ours.db.home, bundle, by="Lin")
    killing.join()
    assert seen
    assert (counts(ours), list(ours.db.home.path.glob("runs/*"))) == (before, [])


COST = """
import resource, sys
from pathlib import Path
from engine.errors import ImportRefused
from engine.home import Home
from engine.transfer.import_process import import_in_child
for path in sys.argv[1:]:
    try: import_in_child(Home.find(), Path(path), by="Lin")
    except ImportRefused: pass
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def test_a_small_file_that_unpacks_to_much_costs_no_more_than_its_program(home: Home, tmp_path: Path) -> None:
    """4 MB of parameters became a row of 300 MB and 2.2 GB of memory; 7 MB of one line took 4 GB."""
    attacks: list[dict[str, bytes]] = [
        {},
        {f"params/p{number}": b"x" * 20_000 for number in range(1_500)},
        {"metrics/long": b"1" * (30 * MB)},
    ]
    paths = []
    for number, members in enumerate(attacks):
        (tmp_path / str(number)).mkdir()
        paths.append(zipped(tmp_path / str(number), members))
    assert max(path.stat().st_size for path in paths) < 2 * MB
    ended = subprocess.run(
        [sys.executable, "-c", COST, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    nothing, parameters, line = map(float, ended.stdout.split())
    assert max(parameters, line) < nothing + 40, (nothing, parameters, line)
