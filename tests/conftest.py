"""What every test may ask for: a home of its own, and the real MNIST where it lies.

No test ever touches the project's own store: `PARALLAB_HOME` always names a temporary folder.
"""

import atexit
import errno
import gc
import io
import logging
import os
import re
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from engine.doctor.machine import CHROMIUM, PROGRAMS, installation, program
from engine.home import ROOT, Home, make_private
from engine.runtime.rank import fork_server
from engine.store import Store
from engine.store import connection as connecting
from engine.store.schema.upgrade import bring_up_to_date

IN_CI = bool(os.environ.get("CI"))
SHARED_DATA = ROOT.parent / "shared" / "data"

if "PARALLAB_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["PARALLAB_DATA"] = str(SHARED_DATA)
os.environ["PARALLAB_HOME"] = str(Path(tempfile.gettempdir()) / "parallab-test-without-home")
os.environ["PARALLAB_SECRETS"] = os.devnull  # the providers of whoever runs the tests are none of theirs

connecting.SYNCHRONOUS = (
    "OFF"  # no test cuts the power, and waiting for the disk takes a tenth of the time of those that write
)

fork_server.ALSO.append("torch._dynamo")  # else each rank with an optimizer of torch's loads it, for seconds

settings.register_profile("parallab", deadline=None)  # how long an input takes says something of the machine alone
settings.load_profile("parallab")

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell's background job ignores it, and so would all that tests start


BUDGET_S = 9 * 60
"""What `make test` may take on two idle cores."""
WHOLE = "not long and not cluster"
"""The tests that `make test` runs."""


def idle() -> float:
    """Return for how long the cores of this process have been idle since the machine started, in seconds."""
    cores = psutil.cpu_times(percpu=True)
    return sum(float(cores[core].idle) for core in os.sched_getaffinity(0))


BEGAN, IDLE_BEFORE = time.monotonic(), idle()


def against_budget(took_s: float, idle_s: float) -> str:
    """Say how far a whole run was from its budget, and for what share of it its two cores were busy: tests that only
    wait are mended otherwise than those that work.
    """
    left, busy = round(BUDGET_S - took_s), 100 * (1 - idle_s / (2 * took_s))
    return (
        f"Budget of {BUDGET_S // 60} minutes on two idle cores: {abs(left)} s {'left' if left >= 0 else 'too many'}; "
        f"the cores were busy for {busy:.0f} % of the time."
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say so after a run of all that `make test` runs, on two cores."""
    whole = config.args_source is config.ArgsSource.TESTPATHS and not config.option.keyword
    if whole and config.option.markexpr == WHOLE and len(os.sched_getaffinity(0)) == 2:
        terminalreporter.write_line(against_budget(time.monotonic() - BEGAN, idle() - IDLE_BEFORE))


LONGEST = {"test_toolbar", "test_report", "test_access", "test_live", "test_way_of_a_run"}
"""Files of browser tests that take at least 20 s of processor time."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file, nor the folder of browser tests, whose marks `-m` leaves out as a whole, unless it is named."""
    chosen = config.option.markexpr
    if not re.fullmatch(r"(not )?\w+( and (not )?\w+)*", chosen) or any(
        collection_path.name in name for name in config.args
    ):
        return None
    left_out = {*re.findall(r"not (\w+)", chosen)}
    if collection_path.is_dir():
        return True if collection_path.name in left_out & {"browser"} else None
    if collection_path.suffix != ".py":
        return None
    marks = re.search(r"^pytestmark = .*(\n[ \]].*)*", collection_path.read_text(), re.M)
    return True if marks and left_out & {*re.findall(r"pytest\.mark\.(\w+)", marks[0])} else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, which takes a third of that time, in each worker. Later ones leave
    out what has been loaded: half a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # extension modules report what is left at the end as leaks


def pytest_xdist_auto_num_workers() -> int:
    """Run one test more at a time than there are cores for this process: with as many as two cores, an eighth of their
    time is idle.
    """
    return 1 + len(os.sched_getaffinity(0))


@pytest.hookimpl(tryfirst=True)  # before pytest looks at -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left with one at the end."""
    first: dict[Path, int] = {}
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.needs_program(CHROMIUM[0]))
            turn = 0 if item.path.stem in LONGEST else 1
        else:
            turn = 2 if item.get_closest_marker("processes") else 3
        first[item.path] = min(turn, first.get(item.path, turn))
    items.sort(key=lambda item: first[item.path])


OPTIONAL = frozenset(
    re.findall(r"[\w-]+", (ROOT / ".ci" / "bare").read_text().partition("hidden=(")[2].partition(")")[0])
)
"""Programs of which a test finds only those that its marks name; others would make it depend on the machine."""
FOLDERS = {f"{top}/{name}" for top in ("", "/usr", "/usr/local") for name in ("bin", "sbin")}
EXPECTED = os.environ.get("PARALLAB_TEST_PROGRAMS")
"""`required`: a missing program fails its tests; `hidden`: it counts as missing; otherwise its tests are skipped."""
visible: frozenset[str] = frozenset()
"""The optional programs that the running test may find."""


@pytest.hookimpl(tryfirst=True)  # before any fixture is made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test find the programs that its marks name; without one skip it."""
    global visible
    needed = {name for mark in item.iter_markers("needs_program") for name in mark.args}
    if EXPECTED != "hidden":
        visible = OPTIONAL if item.get_closest_marker("cluster") else frozenset(needed & PROGRAMS.keys())
        visible |= {*CHROMIUM} if CHROMIUM[0] in visible else frozenset()
    if missing := [name for name in PROGRAMS if name in needed and program(name) is None]:
        line = f"{' and '.join(missing)} not found: {installation(missing)}"
        if EXPECTED == "required":
            pytest.fail(line)
        pytest.skip(line)


def _is_hidden(path: str) -> bool:
    return Path(path).name in OPTIONAL - visible and str(Path(path).parent) in FOLDERS


LOOK = shutil.which
"""The look-up that sees every program."""


def _which(name: str, mode: int = os.F_OK | os.X_OK, path: str | None = None) -> str | None:
    found = LOOK(name, mode, path)
    return None if found and _is_hidden(found) else found


shutil.which = _which  # type: ignore[assignment]


STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")
"""What Python says of itself when it starts a process; multiprocessing says nothing."""
MAY_START = ("processes", "ranks", "browser", "cluster", "long")
started: list[str] = []
"""What this process has started."""


LDCONFIG = "/sbin/ldconfig"
"""Python's own look-up of a shared library (`ctypes.util`), once a process, in whichever test imports the library."""


def _note(event: str, what: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        _refuse(os.fsdecode(what[0]), what[3] or os.environ)  # type: ignore[arg-type]
    if event in STARTS and what[:1] != (LDCONFIG,):
        started.append(str(what)[:200])


def _refuse(name: str, environment: Mapping[str, str]) -> None:
    """Raise FileNotFoundError for a program that is hidden from the running test, as if it were not installed."""
    if (found := LOOK(name, path=environment.get("PATH"))) and _is_hidden(found):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _start(process: BaseProcess, start: object = BaseProcess.start) -> None:
    started.append(process.name)
    start(process)  # type: ignore[operator]


sys.addaudithook(_note)
BaseProcess.start = _start  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts processes or ranks and isn't marked so: `make test-quick` would take it."""
    before = len(started)
    yield
    if (found := started[before:]) and not any(request.node.get_closest_marker(name) for name in MAY_START):
        pytest.fail(
            "Mark this test `processes`, or `ranks` for ranks as threads, so that `make test-quick` leaves it "
            f"out. It started {found[0]}"
        )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Give the test an empty home, also as `PARALLAB_HOME`; end what still runs for it afterwards."""
    made, before = Home(tmp_path / "home").create(), len(started)
    monkeypatch.setenv("PARALLAB_HOME", str(made.path))
    yield made
    if len(started) > before:
        end_processes_of(made)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    """Give the home's store, open for the whole test."""
    with Store.open(home) as opened:
        yield opened


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store without a run, made by all steps of the schema once."""
    template = tmp_path_factory.mktemp("store") / "parallab.db"
    make_private(template)
    with closing(sqlite3.connect(template, isolation_level=None)) as made:
        made.execute("PRAGMA auto_vacuum = INCREMENTAL")
        made.execute("PRAGMA journal_mode = WAL")
        bring_up_to_date(made)
    return template


@pytest.fixture(autouse=True)
def copied_schema(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each new store of this process as a copy of that file, a fraction of the time of the schema's steps; tests
    marked `schema` carry the steps out.
    """
    if not request.node.get_closest_marker("schema"):
        template = request.getfixturevalue("migrated")

        def copy(path: Path) -> None:
            if path.exists():
                return
            with suppress(OSError):  # errors are left to its opening
                aside = shutil.copy(template, path.with_name(secrets.token_hex(8)))
                with suppress(FileExistsError):  # another thread was faster
                    os.link(aside, path)
                aside.unlink()

        def copy_into(made: sqlite3.Connection) -> None:
            if made.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                bring_up_to_date(made)
            else:
                with closing(sqlite3.connect(template)) as source:
                    source.backup(made)

        monkeypatch.setattr(connecting, "make_private", copy)
        monkeypatch.setattr(connecting, "bring_up_to_date", copy_into)


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """Put back what Streamlit takes for the main module while it runs a page: every rank that is started later would
    import that page.
    """
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Give what is logged during the test, at any level, with tracebacks."""
    lines, root = list[str](), logging.getLogger()
    handler = logging.StreamHandler(io.StringIO())
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.fixture
def mnist() -> Path:
    """Give the folder that holds the real MNIST; without it skip the test, in CI fail it."""
    folder = os.environ.get("PARALLAB_DATA")
    if folder and (Path(folder) / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        return Path(folder).absolute()
    line = f"MNIST was not found under PARALLAB_DATA ({folder or 'not set'}); this test needs the real data set."
    if IN_CI:
        pytest.fail(line)
    pytest.skip(line)


def end_processes_of(home: Home) -> None:
    """Kill every process whose `PARALLAB_HOME` is this home: a test that failed half-way must not slow the next.

    But for those of multiprocessing that later tests need as well, whichever test was the first to need them.
    """
    spared = (os.getpid(), resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
    for process in psutil.process_iter():
        try:
            if process.pid not in spared and process.environ().get("PARALLAB_HOME") == str(home.path):
                process.kill()
        except psutil.Error:
            continue
