"""Bundles: all of a run comes to another store once, and nothing of what is broken or hostile does."""

import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import strategies as some

from engine.errors import ImportRefused, WrongStatus
from engine.home import Home
from engine.store import Demand, Launch, Reader, Store
from engine.store.maintenance import integrity
from engine.transfer import archives
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.inputs import drawn
from tests.transfer.bundles.bundle_files import Change, changed, counts, manifest, refusal, row, text, told, without


def test_a_run_and_a_long_config_come_whole_to_another_store(
    theirs: Home, bundle: Path, ours: Store, tmp_path: Path
) -> None:
    arrived = import_path(ours, bundle, by="Lin")
    assert len(arrived.ids) == 5 and not arrived.known
    for old, new in zip([1, 2, 3, 4, 9], arrived.ids, strict=True):
        assert told(ours.db.home, new) == told(theirs, old)
    config = {f"p{number}": "x" * 400 for number in range(200)} | {"seed": 3}
    with Store.open(theirs) as store, Reader.open(theirs) as reader:
        run_id = store.runs.add(Launch("hogwild", config, "Ada", demand=Demand(1, 0, 1, 1)))
        store.runs.cancel(run_id, by="Ada")
        write_bundle(reader, [run_id], tmp_path / "long.zip", by="Ada")
    (here,) = import_path(ours, tmp_path / "long.zip", by="Lin").ids
    assert ours.read.runs.one(here).config == config
    with Reader.open(ours.db.home) as reader:
        assert len(reader.runs.entry(here).config) < 50


def test_an_imported_run_says_where_it_comes_from(bundle: Path, ours: Store) -> None:
    first = import_path(ours, bundle, by="Lin").ids[0]
    with Reader.open(ours.db.home) as reader:
        origin = reader.origins.of(first)
        assert origin and (origin.kind, origin.original_id, origin.owner, origin.file, origin.imported_by) == (
            "parallab",
            "1",
            "Grace <b>H</b>",
            "runs.zip",
            "Lin",
        )
        assert reader.runs.one(first).owner == origin.owner
        assert [event.kind for event in reader.details.events(first)][-1] == "imported"


def test_logs_come_along_under_names_of_our_own(bundle: Path, ours: Store) -> None:
    first = import_path(ours, bundle, by="Lin").ids[0]
    assert (ours.db.home.run_folder(first) / "logs" / "worker.log").read_text() == "first line\nsecond line\n"


def test_an_import_leaves_the_store_sound(bundle: Path, ours: Store) -> None:
    import_path(ours, bundle, by="Lin")
    assert (
        not integrity.damage(ours)
        + integrity.strangers(ours)
        + integrity.unlike_summaries(ours)
        + integrity.unlike_corners(ours)
        + integrity.behind(ours)
    )


def test_importing_twice_changes_nothing_and_names_the_runs_that_are_here(bundle: Path, ours: Store) -> None:
    ids = import_path(ours, bundle, by="Lin").ids
    before = counts(ours)
    again = import_path(ours, bundle, by="Lin")
    assert (again.ids, again.found) == ((), ids)
    assert again.sentence == f"Nothing new: all 5 runs are already here, as {', '.join(map(str, ids))}."
    assert again.in_words(with_ids=False) == "Nothing new: all 5 runs are already here."
    assert counts(ours) == before


def test_only_what_is_new_comes_of_a_larger_bundle(theirs: Home, tmp_path: Path, ours: Store) -> None:
    with Reader.open(theirs) as reader:
        write_bundle(reader, [1], tmp_path / "one.zip", by="Ada")
        write_bundle(reader, [1, 9], tmp_path / "two.zip", by="Ada")
    (first,) = import_path(ours, tmp_path / "one.zip", by="Lin").ids
    arrived = import_path(ours, tmp_path / "two.zip", by="Lin")
    assert arrived.known == {"1": first} and len(arrived.ids) == 1
    assert told(ours.db.home, arrived.ids[0]) == told(theirs, 9)


def test_a_run_keeps_its_first_origin_over_two_stores(bundle: Path, ours: Store, tmp_path: Path) -> None:
    ids = import_path(ours, bundle, by="Lin").ids
    with Reader.open(ours.db.home) as reader:
        write_bundle(reader, ids, tmp_path / "again.zip", by="Lin")
    with Store.open(Home(tmp_path / "third")) as third:
        (first, *_) = import_path(third, tmp_path / "again.zip", by="Ken").ids
        with Reader.open(third.db.home) as reader:
            origin = reader.origins.of(first)
            assert origin and (origin.original_id, origin.imported_by) == ("1", "Ken")
        assert not import_path(third, bundle, by="Ken").ids


def test_a_bundle_holds_only_runs_that_ended_and_is_known_at_home(theirs: Home, tmp_path: Path, bundle: Path) -> None:
    with Reader.open(theirs) as reader, pytest.raises(WrongStatus, match="Run 6 is running"):
        write_bundle(reader, [1, 6], tmp_path / "x.zip", by="Ada")
    assert not list(tmp_path.glob("x.zip*"))
    with Store.open(theirs) as store:
        assert import_path(store, bundle, by="Ada").found == (1, 2, 3, 4, 9)
    file = io.BytesIO()
    with Reader.open(theirs) as reader:
        assert write_bundle(reader, [1], file, by="Ada") == 202
    assert zipfile.ZipFile(file).testzip() is None


# ---- what is broken or hostile --------------------------------------------------------------------------------------


REFUSED: list[tuple[str, Change, str]] = [
    ("newer", manifest(version=3), "has version 3; this Parallab supports up to version 2. Update Parallab"),
    ("no version", manifest(version="1"), "has no version"),
    ("other format", manifest(format="something"), "doesn't have the format parallab bundle"),
    ("no tables", manifest(tables={}), "table 'events' is missing"),
    ("tables of nonsense", manifest(tables=[1]), "is invalid at tables"),
    ("no manifest", without("parallab.json"), "has nothing to import"),
    ("manifest cut", text("parallab.json", b'{"format": "par'), "is not valid JSON"),
    ("deep manifest", text("parallab.json", b"[" * 100_000), "is not valid JSON"),
    ("table missing", without("points.jsonl"), "member 'points.jsonl' is missing"),
    ("no runs", text("runs.jsonl", b""), "rows instead of 5"),
    ("no JSON", text("events.jsonl", b"{\n"), "table 'events', row 1: the row is not valid JSON"),
    ("running", row("runs", "status", "running"), "'running', but a bundle holds only runs that have ended"),
    ("bad time", row("runs", "created_at", "yesterday"), "created_at is not a time"),
    ("bad day", row("events", "at", "2026-02-31T00:00:00.000Z"), "at is not a time"),
    ("config of nonsense", row("runs", "config", "[1]"), "config is not a JSON object"),
    (
        "text for a number",
        row("runs", "config", '{"trainers": "4"}'),
        "setting 'trainers' has the wrong type for hogwild",
    ),
    ("list for a text", row("runs", "config", '{"model": ["mnist_net"]}'), "setting 'model' has the wrong type"),
    ("long owner", row("runs", "owner", "x" * 201), "owner is not a text of at most 200 characters"),
    ("half a character", row("runs", "name", "\ud800"), "contains values that the store can't hold"),
    ("huge number", row("points", "step", 2**70), "neither text nor a supported number"),
    ("word for number", row("points", "value", "much"), "table 'points' contains values that the store can't hold"),
    ("not a number", text("phases.jsonl", b'[1,0,"wait",NaN]\n'), "the row is not valid JSON"),
    ("infinite", text("phases.jsonl", b'[1,0,"wait",1e999]\n'), "neither text nor a supported number"),
    ("neither value nor marker", row("points", "value", None), "neither a value nor a marker"),
    ("summary that lies", row("metrics", "high", 99.0), "doesn't match its points"),
    ("count that lies", row("metrics", "count", 7), "doesn't match its points"),
    ("last step that lies", row("metrics", "last_step", 802), "doesn't end at its last point"),
    ("stranger's rank", row("ranks", "run_id", 77), "table 'ranks' refers to 77, which is missing"),
    ("stranger with a long name", row("events", "run_id", "7" * 6_000), "table 'events' refers to '777"),
    ("stranger's points", row("points", "metric_id", 77), "table 'points' refers to 77"),
    ("metric twice", row("metrics", "id", 2), "metric 2 twice"),
    ("huge bucket", row("histograms", "bucket", 10**12), "out of range"),
]


@pytest.mark.parametrize(("what", "change", "sentence"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_wrong_is_a_sentence_and_nothing_is_imported(
    bundle: Path, ours: Store, what: str, change: Change, sentence: str
) -> None:
    resigned = what not in ("no manifest", "manifest cut", "deep manifest", "tables of nonsense")
    before = counts(ours)
    with pytest.raises(ImportRefused) as refused:
        import_path(ours, changed(bundle, change, resigned=resigned), by="Lin")
    assert sentence in str(refused.value) and len(str(refused.value)) < 1_000
    assert counts(ours) == before
    assert not list(ours.db.home.path.glob("runs/*"))


def test_flipped_bits_are_found_and_quotes_cut_short(bundle: Path, ours: Store) -> None:
    with pytest.raises(ImportRefused, match=r"doesn't match\. Copy or download it again"):
        import_path(ours, changed(bundle, row("points", "step", 2), resigned=False), by="Lin")
    data = bytearray(bundle.read_bytes())
    with zipfile.ZipFile(bundle) as file:
        at = file.getinfo("sweeps.jsonl").header_offset + 27
    data[at] = 7  # the name's length in the member's own header: thousands of bytes of the file are now its name
    bundle.write_bytes(data)
    told = refusal(ours, bundle)
    assert told and "Member 'sweeps.jsonl' can't be read: " in told
    assert len(told) < 500 and ".." not in told.replace("...", "")


@drawn(cut=some.integers(0, 100_000), byte=some.integers(0, 255))
def test_a_file_with_any_byte_changed_or_cut_off_comes_whole_or_not_at_all(
    bundle: Path, ours: Store, cut: int, byte: int
) -> None:
    data = bytearray(bundle.read_bytes())
    at = cut % len(data)
    before = counts(ours)
    for broken in (bytes(data[:at]), bytes(data[:at]) + bytes([data[at] ^ (byte or 1)]) + bytes(data[at + 1 :])):
        path = bundle.with_name("broken.zip")
        path.write_bytes(broken)
        if (sentence := refusal(ours, path)) is not None:
            assert sentence.endswith(".")
            assert counts(ours) == before
        else:
            before = counts(ours)
            assert not integrity.unlike_summaries(ours) + integrity.strangers(ours)


LEADS_OUT = [
    *("../../evil.txt", "/etc/evil", "a/../../evil", "a/..", "C:/evil", "c:evil"),
    *("a\\..\\evil", "..\\..\\evil", "a/\\..\\..\\evil", "\\evil", "\\\\server\\share\\evil", "C:\\evil", "/\\evil"),
]


@pytest.mark.parametrize("name", LEADS_OUT)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, ours: Store, name: str) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, "evil")
    with pytest.raises(ImportRefused, match="unsafe path"):
        import_path(ours, path, by="Lin")


@pytest.mark.parametrize("source", ["../worker", "/etc/passwd", "a/b", ""])
def test_a_log_is_never_written_where_its_bundle_says(bundle: Path, ours: Store, source: str) -> None:
    def change(held: dict[str, bytes]) -> None:
        about = json.loads(held["parallab.json"])
        about["logs"][0]["source"] = source
        held["parallab.json"] = json.dumps(about).encode()

    with pytest.raises(ImportRefused, match=r"is invalid at logs\.0\.source"):
        import_path(ours, changed(bundle, change), by="Lin")


def test_a_zip_bomb_and_a_member_that_lies_about_its_size_are_refused(
    tmp_path: Path, ours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("parallab.json", "w") as member:
        for _ in range(40):
            member.write(bytes(1 << 20))
    with pytest.raises(ImportRefused, match="protection against zip bombs"):
        import_path(ours, path, by="Lin")
    monkeypatch.setattr(archives, "MOST_BYTES", 1000)
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("parallab.json", os.urandom(2000))
    with pytest.raises(ImportRefused, match="unpacks to"):
        import_path(ours, path, by="Lin")
