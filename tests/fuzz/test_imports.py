"""Real exported files, changed byte by byte and in their structure: they come in whole or not at all, with
a sentence.
"""

import json
import resource
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.store import Store
from engine.store.maintenance import integrity
from tests.fuzz.hostile import JSON, WORDS
from tests.inputs import counts, inputs
from tests.transfer.bundles.bundle_files import changed, refusal
from tests.transfer.bundles.bundle_files import counts as rows_of
from tests.transfer.conftest import bundle, ours, theirs  # noqa: F401
from tests.transfer.readers import events
from tests.transfer.readers.test_other_programs import mlruns

MOST_GROWTH_MB = 400


class Lab:
    """The store that files come to, and what of it must stay."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.before = rows_of(store)
        self.came = 0

    def take(self, path: Path) -> None:
        """Import a file: refused with a sentence and nothing changed but the audit log, or whole."""
        if (sentence := refusal(self.store, path)) is not None:
            assert sentence.endswith((".", "?")) and len(sentence) < 5_000
            now = rows_of(self.store)
            assert {**now, "audit": 0} == {**self.before, "audit": 0}
            return
        self.came += 1
        assert not integrity.unlike_summaries(self.store) + integrity.strangers(self.store)
        with self.store.db.change() as connection:  # the next one finds the store as it was
            connection.execute("DELETE FROM runs WHERE id IN (SELECT run_id FROM origins)")
            connection.execute("DELETE FROM sweeps WHERE NOT EXISTS (SELECT 1 FROM runs WHERE sweep_id = sweeps.id)")
        assert {**rows_of(self.store), "audit": 0, "sqlite_sequence": 0} == {
            **self.before,
            "audit": 0,
            "sqlite_sequence": 0,
        }


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.fixture
def lab(ours: Store) -> Lab:  # noqa: F811
    return Lab(ours)


def mutated(draw: Any, data: bytes) -> bytes:
    """Draw a change of some bytes: another byte, some cut out, some put in, some repeated, or the end cut off."""
    for _ in range(draw(some.integers(1, 4))):
        at = draw(some.integers(0, max(0, len(data) - 1)))
        length = draw(some.integers(0, 40))
        how = draw(some.sampled_from(["flip", "cut", "put", "repeat", "end"]))
        piece = {
            "flip": bytes([draw(some.integers(0, 255))]),
            "cut": b"",
            "put": draw(some.binary(max_size=20)),
            "repeat": data[at : at + length] * 2,
            "end": b"",
        }[how]
        rest = {
            "flip": data[at + 1 :],
            "cut": data[at + length :],
            "put": data[at:],
            "repeat": data[at + length :],
            "end": b"",
        }[how]
        data = data[:at] + piece + rest
    return data


@counts()
def test_a_bundle_changed_byte_by_byte(bundle: Path, lab: Lab, count: int) -> None:  # noqa: F811
    whole, path = bundle.read_bytes(), bundle.with_name("broken.zip")

    @inputs(count)
    @given(data=some.data())
    def holds(data: some.DataObject) -> None:
        path.write_bytes(mutated(data.draw, whole))
        lab.take(path)

    at_first = memory_mb()
    holds()
    assert memory_mb() - at_first < MOST_GROWTH_MB


def otherwise(held: dict[str, bytes], draw: Any) -> None:
    """Put another value into a row of a table, or into the manifest."""
    name = draw(
        some.sampled_from(sorted(name for name in held if name.endswith((".jsonl", ".json")) and held[name].strip()))
    )
    if name.endswith(".json"):
        about = json.loads(held[name])
        about[draw(some.sampled_from(sorted(about)))] = draw(JSON)
        held[name] = json.dumps(about).encode()
        return
    lines = held[name].splitlines()
    at = draw(some.integers(0, len(lines) - 1))
    row = json.loads(lines[at])
    row[draw(some.integers(0, len(row) - 1))] = draw(some.one_of(WORDS, some.integers(-(2**65), 2**65), JSON))
    lines[at] = json.dumps(row).encode()
    held[name] = b"\n".join(lines) + b"\n"


@counts()
def test_a_bundle_whose_values_are_others_and_whose_checksums_fit(bundle: Path, lab: Lab, count: int) -> None:  # noqa: F811
    @inputs(count)
    @given(data=some.data())
    def holds(data: some.DataObject) -> None:
        try:
            path = changed(bundle, lambda held: otherwise(held, data.draw))
        except (
            KeyError,
            TypeError,
            AttributeError,
        ):  # the test's own re-signing found no tables in the manifest any more
            return
        lab.take(path)

    holds()


@counts()
def test_event_files_changed_with_their_checksums(lab: Lab, tmp_path: Path, count: int) -> None:
    payload = events.event(1_700_000_000.0, 3, events.scalar("train/loss", 0.5) + events.scalar("accuracy", 0.9))
    path = tmp_path / "events.out.tfevents.1.lab"

    @inputs(count)
    @given(
        parts=some.lists(
            some.one_of(some.composite(mutated)(payload), some.binary(max_size=60), some.just(payload)), max_size=5
        ),
        tail=some.binary(max_size=12),
    )
    def holds(parts: list[bytes], tail: bytes) -> None:
        path.write_bytes(b"".join(map(events.record, parts)) + tail)
        lab.take(path)

    holds()
    path.write_bytes(struct.pack("<Q", 2**62) + b"\x00" * 8)
    lab.take(path)


@counts()
def test_a_folder_of_mlflow_with_nonsense_in_its_files(lab: Lab, tmp_path: Path, count: int) -> None:
    folder = mlruns(tmp_path)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = some.lists(some.builds(lambda *words: " ".join(words), WORDS, WORDS, WORDS), max_size=4).map(
        lambda found: "\n".join(found)
    )
    yaml = some.lists(
        some.builds(
            lambda key, value: f"{key}: {value}",
            some.sampled_from(["run_id", "start_time", "status", "run_name"]),
            WORDS,
        ),
        max_size=5,
    )

    @inputs(count)
    @given(data=some.data())
    def holds(data: some.DataObject) -> None:
        path = data.draw(some.sampled_from(sorted(files)))
        made = data.draw(
            some.one_of(some.composite(mutated)(files[path]), lines.map(_bytes), yaml.map("\n".join).map(_bytes))
        )
        path.write_bytes(made)
        try:
            lab.take(folder)
        finally:
            path.write_bytes(files[path])

    holds()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
