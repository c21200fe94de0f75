"""What TensorBoard and MLflow recorded comes in as finished runs, and what is broken of it not at all."""

import zipfile
from pathlib import Path

import pytest
from hypothesis import strategies as some

from engine.errors import ImportRefused
from engine.store import Reader, Store
from engine.transfer.readers.tfrecord import masked_checksum
from engine.transfer.run_import import import_path
from tests.inputs import drawn
from tests.transfer.bundles.bundle_files import counts, refusal
from tests.transfer.readers import events


def test_a_folder_of_event_files_is_a_run_each(ours: Store, tmp_path: Path) -> None:
    events.write(tmp_path / "board" / "first" / "events.out.tfevents.1.lab")
    events.write(tmp_path / "board" / "second" / "events.out.tfevents.2.lab", steps=3)
    arrived = import_path(ours, tmp_path / "board", by="Lin")
    with Reader.open(ours.db.home) as reader:
        first, second = (reader.runs.one(run_id) for run_id in arrived.ids)
        assert (first.experiment, first.name, first.status, dict(first.config), first.created_at) == (
            "imported",
            "first",
            "finished",
            {"lr": 0.25},
            "2023-11-14T22:13:20.000Z",
        )
        assert (second.execution_time_s, first.execution_time_s) == (2.0, 4.0)
        accuracy, loss = reader.curves.series(first.id, ["loss/train", "accuracy"])
        assert (accuracy.values, accuracy.steps, accuracy.times_s) == (
            [0, 0.5, 1, 1.5, 2],
            [0, 1, 2, 3, 4],
            [0, 1, 2, 3, 4],
        )
        assert loss.values == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], rel=1e-6)
        origin = reader.origins.of(first.id)
        assert origin and (origin.kind, origin.file) == ("tensorboard", "board")


def test_event_files_are_known_again_read_up_to_a_cut_or_said_to_be_unknown(ours: Store, tmp_path: Path) -> None:
    path = events.write(tmp_path / "a" / "events.out.tfevents.1")
    (first,) = import_path(ours, path, by="Lin").ids
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.write(path, "deep/events.out.tfevents.9")
    with pytest.raises(ImportRefused, match=f"already exist here, as {first}"):
        import_path(ours, tmp_path / "b.zip", by="Lin")
    path = events.write(tmp_path / "events.out.tfevents.1")
    path.write_bytes(path.read_bytes()[:-3])
    arrived = import_path(ours, path, by="Lin")
    assert "ends within a record" in arrived.notes[0]
    with Reader.open(ours.db.home) as reader:
        assert [len(series.ids) for series in reader.curves.series(arrived.ids[0], ["accuracy", "loss/train"])] == [
            4,
            5,
        ]
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(ImportRefused, match=r"Supported: a bundle of this program .* TensorBoard .* MLflow"):
        import_path(ours, tmp_path / "holiday.jpg", by="Lin")
    crc = 0xE3069283  # of the nine digits, as every table of CRCs has it
    assert masked_checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


@drawn(at=some.integers(0, 5_000), bit=some.integers(0, 7))
def test_any_flipped_bit_of_an_event_file_is_found(ours: Store, tmp_path: Path, at: int, bit: int) -> None:
    path = events.write(tmp_path / "events.out.tfevents.1")
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    before = counts(ours)
    with pytest.raises(ImportRefused, match=r"damaged|not a TensorBoard event file|Nothing was imported"):
        import_path(ours, path, by="Lin")
    assert counts(ours) == before


@pytest.mark.parametrize(
    ("event", "sentence"),
    [(events.event(-1e30, 0, events.scalar("a", 1)), "invalid time"), (b"\x0a\xff", "is not an event")],
)
def test_an_event_that_is_none_is_a_sentence(ours: Store, tmp_path: Path, event: bytes, sentence: str) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(events.record(event))
    with pytest.raises(ImportRefused, match=sentence):
        import_path(ours, path, by="Lin")


# ---- MLflow ---------------------------------------------------------------------------------------------------------


def mlruns(top: Path, *, experiment: str = "baselines", status: str = "3") -> Path:
    """Write MLflow's folder with one run of two metrics."""
    run = top / "mlruns" / "42" / "0a1b2c"
    files = {
        "../meta.yaml": (
            f"artifact_location: mlruns/42\nexperiment_id: '42'\nlifecycle_stage: active\nname: {experiment}\n"
        ),
        "meta.yaml": f"run_id: 0a1b2c\nrun_name: 'it''s a run'\nstatus: {status}\nuser_id: ada\n"
        "start_time: 1700000000000\nend_time: 1700000060000\nlifecycle_stage: active\n",
        "metrics/train/loss": "1700000001000 2.5 0\n1700000002000 nan 1\n\n1700000003000 0.5 2\n",
        "metrics/test/accuracy": "1700000003000 97.5\n",
        "params/learning_rate": "0.1",
        "tags/mlflow.note.content": "an old result",
        "tags/mlflow.source.git.commit": "abc",
        "tags/team": "vision",
    }
    for name, text in files.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text)
    return top / "mlruns"


def test_a_run_of_mlflow_keeps_its_names_numbers_and_words(ours: Store, tmp_path: Path) -> None:
    (run_id,) = import_path(ours, mlruns(tmp_path), by="Lin").ids
    with Reader.open(ours.db.home) as reader:
        run = reader.runs.one(run_id)
        assert (run.experiment, run.name, run.owner, run.status, run.execution_time_s) == (
            "baselines",
            "it's a run",
            "ada",
            "finished",
            60.0,
        )
        assert (dict(run.config), run.tags, run.note, run.environment["git_commit"]) == (
            {"learning_rate": "0.1"},
            ("team=vision",),
            "an old result",
            "abc",
        )
        (loss,) = reader.curves.series(run_id, ["train/loss"])
        assert (loss.steps, loss.times_s) == ([0, 1, 2], [1.0, 2.0, 3.0]) and (loss.values[0], loss.values[2]) == (
            2.5,
            0.5,
        )
        assert reader.runs.entry(run_id).best["test/accuracy"] == 97.5


@pytest.mark.parametrize(
    ("status", "ours_is"), [("4", "failed"), ("KILLED", "cancelled"), ("1", "lost"), ("99", "finished")]
)
def test_its_status_is_one_of_ours(ours: Store, tmp_path: Path, status: str, ours_is: str) -> None:
    assert ours.read.runs.one(import_path(ours, mlruns(tmp_path, status=status), by="Lin").ids[0]).status == ours_is


BROKEN = [
    ("metrics/train/loss", "1700000001000 much 0\n", "line 1, is not an MLflow metric line"),
    ("metrics/train/loss", "17e400 1 0\n", "line 1, is not"),
    ("metrics/train/loss", f"1700000001000 1 {2**80}\n", "line 1, is not"),
    ("meta.yaml", "start_time: 99999999999999999999\nrun_id: a\n", "an invalid time"),
    ("meta.yaml", "run_name: a\n", "has no run_id"),
    ("meta.yaml", "\x00", "not a meta.yaml of MLflow"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), BROKEN)
def test_what_is_broken_is_named_with_its_line_and_nothing_is_imported(
    ours: Store, tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    folder = mlruns(tmp_path)
    (folder / "42" / "0a1b2c" / name).write_text(text)
    before = counts(ours)
    with pytest.raises(ImportRefused) as refused:
        import_path(ours, folder, by="Lin")
    assert sentence in str(refused.value)
    assert counts(ours) == before


def test_links_in_a_folder_are_not_followed(ours: Store, tmp_path: Path) -> None:
    folder = mlruns(tmp_path)
    (tmp_path / "secret").write_text("of the machine")
    (folder / "42" / "0a1b2c" / "params" / "secret").symlink_to(tmp_path / "secret")
    (run_id,) = import_path(ours, folder, by="Lin").ids
    assert dict(ours.read.runs.one(run_id).config) == {"learning_rate": "0.1"}


def test_the_name_of_one_of_our_experiments_is_not_taken(ours: Store, tmp_path: Path) -> None:
    (run_id,) = import_path(ours, mlruns(tmp_path, experiment="pipeline"), by="Lin").ids
    assert ours.read.runs.one(run_id).experiment == "imported"


@drawn(data=some.binary(max_size=200))
def test_no_bytes_in_any_of_its_files_get_past_a_sentence(ours: Store, tmp_path: Path, data: bytes) -> None:
    folder = mlruns(tmp_path)
    for name in ("meta.yaml", "metrics/train/loss", "params/learning_rate"):
        path = folder / "42" / "0a1b2c" / name
        whole = path.read_bytes()
        path.write_bytes(data)
        assert (refusal(ours, folder) or ".").endswith(".")
        path.write_bytes(whole)
