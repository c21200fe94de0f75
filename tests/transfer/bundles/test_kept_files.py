"""Kept files in bundles: they come along with their hash checked, and nothing hostile does."""

import json
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.runs.files import content_path, unkept
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.labs import basic
from tests.transfer.bundles.bundle_files import Change, changed, counts, refusal, row, text, without

WEIGHTS = b"\0" * 20_000_000
"""As compressible as a zip bomb."""
DIGEST = sha256(WEIGHTS).hexdigest()


@pytest.fixture
def with_files(theirs: Home, tmp_path: Path) -> Path:
    """Give a bundle of two runs, of which the second used what the first keeps."""
    with Store.open(theirs) as store:
        for run_id, name, content in ((1, "net.pt", WEIGHTS), (1, "a.txt", b"a"), (2, "copy.pt", WEIGHTS)):
            basic.keep(store, run_id, name, content)
        store.files.use(2, sha256(b"a").hexdigest(), by="Ada")
        write_bundle(store.read, [1, 2], tmp_path / "files.zip", by="Ada")
    return tmp_path / "files.zip"


def test_kept_and_used_files_come_along_once(with_files: Path, ours: Store) -> None:
    first, second = import_path(ours, with_files, by="Lin").ids
    with Reader.open(ours.db.home) as reader:
        kept = {(each.run_id, each.name, each.bytes) for each in reader.files.of([first, second])}
        assert kept == {
            *((first, "net.pt", len(WEIGHTS)), (first, "a.txt", 1)),
            (second, "copy.pt", len(WEIGHTS)),
        }
        assert [(each.name, each.sha256) for each in reader.files.used(second)] == [("a.txt", sha256(b"a").hexdigest())]
        assert unkept(reader.db) == [] and len(list(ours.db.home.files.glob("*/*"))) == 2
    assert content_path(ours.db.home, DIGEST).read_bytes() == WEIGHTS
    assert with_files.stat().st_size > len(WEIGHTS), "stored, not compressed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (row("files", "name", "../../.ssh/authorized_keys"), "must not have /"),
        (row("files", "name", "a\u202egpj"), "visible characters"),
        (row("files", "sha256", "../../x"), "not a SHA-256 hash"),
        (row("files", "sha256", "0" * 64), "is missing or has another size"),
        (row("files", "bytes", 7), "another size"),
        (row("file_uses", "sha256", 7), "not a SHA-256 hash"),
        (text(f"files/{DIGEST}", b"other weights"), "has the hash"),
        (without(f"files/{DIGEST}"), "is missing"),
    ],
)
def test_files_that_were_edited_are_refused_and_leave_nothing(
    with_files: Path, ours: Store, change: Change, why: str
) -> None:
    before = counts(ours)
    assert why in (refusal(ours, changed(with_files, change)) or "")
    assert counts(ours) == before
    ours.files.sweep()
    assert not list(ours.db.home.files.glob("*/*"))


def test_a_bundle_without_files_is_as_before_and_too_large_ones_are_not_made(
    theirs: Home, bundle: Path, with_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(bundle) as file:
        assert not {"files", "file_uses"} & set(json.loads(file.read("parallab.json"))["tables"])
    monkeypatch.setattr("engine.transfer.bundles.bundle.MOST_OF_FILES", 10)
    with Reader.open(theirs) as reader, pytest.raises(ConfigError, match="Export fewer runs"):
        write_bundle(reader, [1], tmp_path / "more.zip", by="Ada")
