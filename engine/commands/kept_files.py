"""Keep files of a run: from the network, and from the folder in which its command left them."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.access.rules import Program
from engine.errors import EngineError, counted
from engine.store import Store
from engine.store.runs.files import FileContent, KeptFile, arriving_content, checked_file_name
from engine.system.run_files import opened_within

log = logging.getLogger(__name__)
FOLDER = "files"
"""Of a run's folder: what its command leaves there is kept at its end."""
MOST_SAID = 3
WORKER = Program("worker")


def keep_file(store: Store, run_id: int, name: str, content: FileContent, *, by: str) -> tuple[KeptFile, bool]:
    """Keep content as a file of a run; return it, and whether it was not there already. Raises as
    `FileCommands.keep`.
    """
    kept, before = store.files.keep(run_id, name, content, by=by)
    if before and before.sha256 != kept.sha256:
        store.files.drop(before.sha256)
    return kept, before != kept


def remove_file(store: Store, run_id: int, name: str, *, by: str) -> None:
    """Remove a file of a run, and its content where no other run keeps it; raises NoSuchRun, NoSuchFile, Forbidden."""
    store.files.drop(store.files.remove(run_id, name, by=by).sha256)


def keep_left_files(
    store: Store, run_id: int, folder: Path, patiently: Callable[[Callable[[], object]], object] = lambda do: do()
) -> None:
    """Keep what the command of a run left in the folder of its files, whose processes have ended, and record what was
    not kept and why. Links, folders and special files stay there, as does what exceeds a limit.

    May be killed and repeated: what is kept leaves the folder.
    """
    try:
        left = os.open(folder / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    refused = list[str]()
    try:
        for name in sorted(os.listdir(left)):  # noqa: PTH208 of a descriptor
            if why := _keep_left(store, run_id, left, name, patiently):
                log.warning("the file %r of run %d was not kept: %s", name, run_id, why)
                refused.append(f"{name!r} ({why.rstrip('.')})")
    finally:
        os.close(left)
    if refused:
        more = f" and {len(refused) - MOST_SAID:,} more" if len(refused) > MOST_SAID else ""
        said = f"{counted(len(refused), 'file')} stayed in the run's folder: {'; '.join(refused[:MOST_SAID])}{more}."
        patiently(lambda: store.runs.add_event(run_id, "files not kept", "worker", said))
    with suppress(OSError):
        (folder / FOLDER).rmdir()


def _keep_left(store: Store, run_id: int, left: int, name: str, patiently: Callable[..., object]) -> str:
    """Keep one file of the folder `left`, and remove it there; return why not, empty if it is kept."""
    try:
        checked_file_name(name)
        with opened_within(left, name) as file:
            store.files.check(run_id, name, os.fstat(file.fileno()).st_size, by=WORKER)
            with arriving_content(store.db.home, file) as content:
                patiently(lambda: keep_file(store, run_id, name, content, by=WORKER))
        os.unlink(name, dir_fd=left)
    except EngineError as error:
        return str(error)
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""
