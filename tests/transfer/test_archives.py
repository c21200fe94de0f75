"""Folders and zips as computers of all kinds make them: what systems and editors add is left out and said, back-slashes
are slashes, and nothing leads out of the folder.
"""

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.errors import ImportRefused
from engine.store import Store
from engine.transfer.archives import members, read
from engine.transfer.import_child import import_path
from tests.transfer.bundles.bundle_files import counts
from tests.transfer.readers import events
from tests.transfer.readers.test_other_programs import mlruns

ADDED = [
    *(".DS_Store", "._loss", "desktop.ini", "Desktop.ini", "Thumbs.db", "ehthumbs.db", "Icon\r"),
    *("loss~", ".loss.swp", ".#loss", "#loss#", "~$loss", ".nfs000000000001", ".goutputstream-X1"),
    *(".ipynb_checkpoints/loss-checkpoint", "__MACOSX/loss", ".git/HEAD", "@eaDir/loss"),
]
UNLIKE = ("a/x", "a\\x", "b\\..\\..\\y", "a\\..\\z")
NOISE = b"\x00\x00\x00\x01Bud1\xff\xfe"


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # zipfile cuts and changes some names
            file.writestr(info, data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()
    }


@pytest.mark.parametrize("is_zip", [False, True], ids=["folder", "zip"])
def test_what_systems_and_editors_add_is_left_out_everywhere_and_said(
    ours: Store, tmp_path: Path, is_zip: bool
) -> None:
    folder = mlruns(tmp_path)
    run = folder / "42" / "0a1b2c"
    for place in (run / "metrics", run / "metrics" / "train", run / "params", run / "tags", run, folder):
        for name in ADDED:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(NOISE)
    path = zipped(tmp_path / "runs.zip", contents(folder)) if is_zip else folder
    arrived = import_path(ours, path, by="Lin")
    (run_id,) = arrived.ids
    found = ours.read.runs.one(run_id)
    assert (dict(found.config), found.tags) == ({"learning_rate": 0.1}, ("team=vision",))
    assert {row.metric for row in ours.read.details.summaries(run_id)} == {"train/loss", "test/accuracy"}
    (note,) = arrived.notes
    assert note.startswith("Left out as files of the operating system or an editor: '") and note.endswith(
        f" and {6 * len(ADDED) - 3} more."
    )


def test_files_of_a_mac_beside_event_files_are_no_runs(ours: Store, tmp_path: Path) -> None:
    data = events.write(tmp_path / "events.out.tfevents.1").read_bytes()
    named = ("run/events.out.tfevents.1", "run/._events.out.tfevents.1", "__MACOSX/run/._events.out.tfevents.1")
    arrived = import_path(ours, zipped(tmp_path / "a.zip", {**dict.fromkeys(named, NOISE), named[0]: data}), by="Lin")
    assert len(arrived.ids) == 1 and "'run/._events.out.tfevents.1'" in arrived.notes[0]


@pytest.mark.parametrize("is_zip", [False, True], ids=["folder", "zip"])
def test_back_slashes_of_windows_are_slashes(ours: Store, tmp_path: Path, is_zip: bool) -> None:
    files = {f"mlruns/{name}": data for name, data in contents(mlruns(tmp_path)).items()}
    files["board/first/events.out.tfevents.1"] = events.write(tmp_path / "events").read_bytes()
    files["board/second/events.out.tfevents.2"] = events.write(tmp_path / "events", steps=2).read_bytes()
    for top, names in (("mlruns", ["it's a run"]), ("board", ["board/first", "board/second"])):
        chosen = {name.replace("/", "\\"): data for name, data in files.items() if name.startswith(top)}
        if is_zip:
            path = zipped(tmp_path / f"{top}.zip", {f"{top}\\": b"", **chosen})
        else:  # as a program unpacked it that keeps such names
            path = tmp_path / f"unpacked {top}"
            path.mkdir()
            for name, data in chosen.items():
                (path / name).write_bytes(data)
        arrived = import_path(ours, path, by="Lin", name=f"{top}{is_zip}")
        assert [ours.read.runs.one(run_id).name for run_id in arrived.ids] == names and not arrived.notes


@pytest.mark.parametrize(
    "others",
    [("run/a", "run\\a"), ("run/a", "run//a"), ("run/a", "./run/a"), ("run\\a", "run\\.\\a")],
)
def test_two_spellings_of_one_place_are_refused(ours: Store, tmp_path: Path, others: tuple[str, str]) -> None:
    data = events.write(tmp_path / "events").read_bytes()
    before = counts(ours)
    with pytest.raises(ImportRefused, match="Two members have the same name"):
        import_path(
            ours, zipped(tmp_path / "a.zip", {"run/events.tfevents": data, **dict.fromkeys(others, b"")}), by="Lin"
        )
    assert counts(ours) == before


def test_a_link_in_a_zip_is_left_out_and_said(ours: Store, tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", contents(mlruns(tmp_path)))
    with zipfile.ZipFile(path, "a") as file:
        link = zipfile.ZipInfo("42/0a1b2c/params/secret")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    arrived = import_path(ours, path, by="Lin")
    assert arrived.notes == ("Left out as links: '42/0a1b2c/params/secret'.",)
    assert dict(ours.read.runs.one(arrived.ids[0]).config) == {"learning_rate": 0.1}


def test_a_time_in_a_folders_name_is_no_drive(ours: Store, tmp_path: Path) -> None:
    data = events.write(tmp_path / "events").read_bytes()
    path = zipped(tmp_path / "a.zip", {"2026-11-01 12:30:05/events.out.tfevents.1": data})
    assert len(import_path(ours, path, by="Lin").ids) == 1


def test_a_back_slash_in_a_folder_that_would_hide_a_file_or_lead_out_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in UNLIKE:
        (tmp_path / name).write_bytes(name.encode())
    with members(tmp_path) as found:
        held = {name: read(found, name, 100).decode() for name in found.names}
    assert held == {name: name for name in UNLIKE}


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with members(tmp_path) as found:
        (tmp_path / "a").unlink()
        with pytest.raises(ImportRefused, match="'a' can't be read: No such file or directory"):
            found.open("a")
