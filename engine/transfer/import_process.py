"""Import a file of runs in a separate process with memory and time limits, one at a time per lab; for console and
command line.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from engine import errors
from engine.errors import EngineError, ImportRefused
from engine.home import ROOT, Home
from engine.store import Store
from engine.store.curves.ingest import clear, unfinished
from engine.system.processes import describe_exit
from engine.transfer.bundles.bundle import ImportResult

log = logging.getLogger(__name__)
WAIT_S = 60.0
"""Seconds to wait for another import to end."""


@dataclass(frozen=True)
class Allowance:
    """Resource limits of one import."""

    memory_bytes: int = 1 << 30
    """In addition to the program's own memory."""
    time_s: float = 300.0


def import_in_child(home: Home, path: Path, *, by: str, allowance: Allowance | None = None) -> ImportResult:
    """Import all new runs at a path.

    Raises ImportRefused, Forbidden, LimitReached or StoreError; nothing is imported then.
    """
    with _alone(home.create()), _tidy(home):
        answer = _answer(home, path, by, allowance or Allowance())
    if "error" in answer:
        error = _error(answer["error"], answer["sentence"])
        if isinstance(error, errors.Forbidden):
            error.may = tuple(answer["may"])
        raise error
    return ImportResult(tuple(answer["ids"]), answer["known"], tuple(answer["notes"]), tuple(answer["sweeps"]))


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    try:
        with FileLock(home.import_lock, timeout=WAIT_S, mode=0o600):
            yield
    except Timeout as error:
        raise ImportRefused(
            f"Another import has been running for more than {WAIT_S:g} s. Try again after it has ended."
        ) from error


@contextmanager
def _tidy(home: Home) -> Iterator[None]:
    """Clear away what killed imports have left, this one's too; only one runs at a time, so nothing is another's."""
    with Store.open(home) as store:  # also migrates it
        clear(store.db)
    try:
        yield
    finally:
        with suppress(EngineError), Store.open(home) as store:
            clear(store.db)


def clear_killed(store: Store) -> int:
    """Delete the rows and folders of killed imports, and return their number; 0 while an import is running."""
    if not unfinished(store.db):
        return 0
    try:
        with FileLock(store.db.home.import_lock, timeout=0, mode=0o600):
            return clear(store.db)
    except Timeout:
        return 0


def is_importing(home: Home) -> bool:
    """Return whether an import is running."""
    try:
        with FileLock(home.import_lock, timeout=0, mode=0o600):
            return False
    except Timeout:
        return True


def _answer(home: Home, path: Path, by: str, allowed: Allowance) -> dict[str, Any]:
    called = path.resolve().name
    asked = {
        "parent": os.getpid(),
        "home": str(home.path),
        "path": str(path.absolute()),
        "by": str(by),
        "name": called,
        **vars(allowed),
    }
    surroundings = os.environ | {"PARALLAB_HOME": str(home.path), "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.transfer.import_child"],
            cwd=ROOT,
            env=surroundings,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            answer, _ = process.communicate(json.dumps(asked).encode(), timeout=allowed.time_s)
        except subprocess.TimeoutExpired as error:
            raise ImportRefused(
                f"Importing {called} took longer than {allowed.time_s:g} s. Nothing was imported. Import fewer "
                "runs at a time."
            ) from error
        finally:
            _end(process)
        if process.returncode == 0:
            return dict(json.loads(answer))
        raise _broken(called, process.returncode, said)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its session, if still alive."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for channel in (process.stdin, process.stdout):
        if channel:
            channel.close()


def _broken(called: str, code: int, said: IO[bytes]) -> ImportRefused:
    said.seek(0)
    log.error("an import ended without an answer: %s", said.read()[-4_000:].decode(errors="replace"))
    return ImportRefused(
        f"The import process for {called} {describe_exit(code)}. Nothing was imported. Import fewer runs at a time."
    )


def _error(kind: str, sentence: str) -> EngineError:
    """Return the error raised in the child process."""
    found = getattr(errors, kind, None)
    if (
        not isinstance(found, type)
        or not issubclass(found, EngineError)
        or issubclass(found, errors.ConfigError | errors.FilterError | errors.RankFailed)
    ):
        return EngineError(sentence)
    return found(sentence)
