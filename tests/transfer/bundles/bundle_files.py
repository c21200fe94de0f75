"""What several tests of imports share: rows counted, a run as its page shows it, bundles changed by hand."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.cli.runs import in_full
from engine.errors import ImportRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.transfer.import_child import import_path

OF_ITS_STORE = {
    "id",
    "version",
    "command_id",
    "cores",
    "gpus",
    "worker",
    "pid",
    "heartbeat_at",
    "begun_uptime_s",
    "data_folder",
    "uid",
    "resumed_uid",
    "terms",
    "parent_id",
    "chain",
    "retried_as",
    "resumed_as",
}


def counts(store: Store) -> dict[str, int]:
    """Return how many rows each table has, but the audit log, which keeps what was refused too."""
    tables = [row[0] for row in store.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        table: store.db.rows(f"SELECT count(*) FROM {table}")[0][0]
        for table in tables
        if table not in ("sqlite_sequence", "audit")
    }


def told(home: Home, run_id: int) -> dict[str, Any]:
    """Return what a run's page shows, and every point of it, but for what belongs to its store."""
    with Reader.open(home) as reader:
        found = {name: value for name, value in in_full(reader, run_id).items() if name not in OF_ITS_STORE}
        found["events"] = [event for event in found["events"] if event["kind"] != "imported"]
        found["ranks"] = [{**rank, "pid": None} for rank in found["ranks"]]
        names = {summary.metric for summary in reader.details.summaries(run_id)}
        return {
            **found,
            "series": repr(reader.curves.series(run_id, sorted(names))),
            "drawn": repr(reader.curves.series(run_id, sorted(names), max_points=10)),
        }


Change = Callable[[dict[str, bytes]], None]


def changed(bundle: Path, change: Change, *, resigned: bool = True) -> Path:
    """Write the bundle anew with its members changed, its checksums too, as one who means harm would."""
    with zipfile.ZipFile(bundle) as file:
        held = {name: file.read(name) for name in file.namelist()}
    change(held)
    if resigned:
        resign(held)
    path = bundle.with_name("changed.zip")
    with zipfile.ZipFile(path, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)
    return path


def resign(held: dict[str, bytes]) -> None:
    about = json.loads(held["parallab.json"])
    for name, sheet in about["tables"].items():
        if f"{name}.jsonl" in held:
            sheet["sha256"] = hashlib.sha256(held[f"{name}.jsonl"]).hexdigest()
    held["parallab.json"] = json.dumps(about).encode()


def resign_logs(path: Path) -> None:
    """Write the checksums of a bundle's logs anew."""
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()}
    about = json.loads(held["parallab.json"])
    for log in about["logs"]:
        log["sha256"] = hashlib.sha256(held[log["member"]]).hexdigest()
    held["parallab.json"] = json.dumps(about).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)


def manifest(**values: object) -> Change:
    def change(held: dict[str, bytes]) -> None:
        held["parallab.json"] = json.dumps({**json.loads(held["parallab.json"]), **values}).encode()

    return change


def row(table: str, column: str, value: object) -> Change:
    """Return the change of one column of a table's first row."""

    def change(held: dict[str, bytes]) -> None:
        place = json.loads(held["parallab.json"])["tables"][table]["columns"].index(column)
        lines = held[f"{table}.jsonl"].splitlines()
        values = json.loads(lines[0])
        values[place] = value
        held[f"{table}.jsonl"] = b"\n".join([json.dumps(values).encode(), *lines[1:]]) + b"\n"

    return change


def without(name: str) -> Change:
    return lambda held: held.pop(name) and None


def text(name: str, data: bytes) -> Change:
    return lambda held: held.update({name: data})


def refusal(store: Store, path: Path) -> str | None:
    """Return why a file is refused, None where it is taken in."""
    try:
        import_path(store, path, by="Lin")
    except ImportRefused as refused:
        return str(refused)
    return None
