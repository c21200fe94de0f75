"""What TensorBoard and MLflow recorded comes in as finished runs, and what is broken of it not at all."""

import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import strategies as some

from engine.access.quotas import Limits, set_limits
from engine.errors import ImportRefused
from engine.filter import read_field
from engine.home import Home
from engine.metrics import metric
from engine.store import Reader, Store
from engine.store.runs.files import LARGEST_FILE, content_path
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_bounds import LONGEST_METRIC, ImportBudget, Values, fit_units
from engine.transfer.import_child import import_path
from engine.transfer.readers.tensorboard import masked_checksum
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


BEGIN = 1_700_000_000.0
SPANS = [
    ("of one moment", [(BEGIN, True), (BEGIN, True)], None),
    ("written at once", [(BEGIN, True), (BEGIN + 0.03, True)], None),
    ("one scalar, after the writer was opened", [(BEGIN, False), (BEGIN + 60, True)], 60.0),
    ("converted later", [(BEGIN + 1e8, False), (BEGIN, True)], None),
    ("without times", [(BEGIN, False), (0.0, True)], None),
    ("scalars over a time", [(BEGIN - 9, False), (BEGIN, True), (BEGIN + 0.5, True)], 0.5),
]


@pytest.mark.parametrize(("times", "seconds"), [row[1:] for row in SPANS], ids=[row[0] for row in SPANS])
def test_a_run_whose_events_span_no_time_has_none(
    ours: Store, tmp_path: Path, times: list[tuple[float, bool]], seconds: float | None
) -> None:
    written = [events.event(at, 0, events.scalar("loss", 1.0) if has_scalar else b"") for at, has_scalar in times]
    (tmp_path / "events.out.tfevents.1").write_bytes(b"".join(map(events.record, written)))
    (run_id,) = import_path(ours, tmp_path, by="Lin").ids
    run, entry = ours.read.runs.one(run_id), ours.read.runs.entry(run_id)
    assert (run.execution_time_s, run.elapsed_s, entry.elapsed_s) == (seconds,) * 3
    if seconds is None:  # as an earlier version wrote it
        with ours.db.change() as connection:
            connection.execute("UPDATE runs SET execution_time_s = 0")
        assert ours.read.runs.one(run_id).execution_time_s is ours.read.runs.entry(run_id).execution_time_s is None
    untimed = ours.read.runs.find(matching=ours.read.fields.filter("imported and duration == none"))
    assert [each.id for each in untimed] == ([] if seconds else [run_id])


def test_event_files_are_known_again_read_up_to_a_cut_or_said_to_be_unknown(ours: Store, tmp_path: Path) -> None:
    path = events.write(tmp_path / "a" / "events.out.tfevents.1")
    (first,) = import_path(ours, path, by="Lin").ids
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.write(path, "deep/events.out.tfevents.9")
    again = import_path(ours, tmp_path / "b.zip", by="Lin")
    assert again.sentence == f"Nothing new: its run is already here, as run {first}."
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


def imported(store: Store, run_id: int) -> set[tuple[str, int, float]]:
    """Return each point of a run as metric, step and value."""
    names = [summary.metric for summary in store.read.details.summaries(run_id)]
    return {
        (series.metric, step, value)
        for series in store.read.curves.series(run_id, names)
        for step, value in zip(series.steps, series.values, strict=True)
    }


@drawn(at=some.integers(0, 5_000), bit=some.integers(0, 7))
def test_any_flipped_bit_of_an_event_file_is_said_and_never_becomes_a_number(
    ours: Store, tmp_path: Path, at: int, bit: int
) -> None:
    path = events.write(tmp_path / "events.out.tfevents.1")
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    before = counts(ours)
    arrived, sentence = None, ""
    try:
        arrived = import_path(ours, path, by="Lin")
    except ImportRefused as refused:
        sentence = str(refused)
    if arrived is None:
        assert sentence.startswith("Nothing was imported from events.out.tfevents.1. ")
        assert counts(ours) == before
        return
    assert "damaged" in arrived.notes[0] or "ends within a record" in arrived.notes[0]
    whole = {(name, step, value) for name, values in WRITTEN.items() for step, value in enumerate(values)}
    assert imported(ours, arrived.found[0]) <= whole


WRITTEN = {
    "accuracy": [0, 0.5, 1, 1.5, 2],
    "loss/train": [struct.unpack("f", struct.pack("f", 1 / step))[0] for step in range(1, 6)],
}
ONE = events.event(1.7e9, 0, events.scalar("a", 1))
DAMAGED_EVENTS = [
    (events.record(ONE) + b"\0" * 4_096, " is damaged from byte 39 on and was read up to there."),
    (events.record(ONE) + events.record(ONE)[:-2], " ends within a record"),
    (events.record(ONE)[:-1] + b"\0" + events.record(ONE), ": left out 1 damaged records."),
    (events.record(b"\x0a\xff") + events.record(ONE), ": left out 1 records that are not events of TensorBoard."),
    (
        events.record(events.event(-1e30, 0, events.scalar("a", 2))) + events.record(ONE),
        ": left out 1 values without a valid time.",
    ),
    (
        events.record(events.event(1.7e9, 0, events.field(1, events.field(1, b"h") + events.field(5, b"")))) * 2
        + events.record(ONE),
        ": left out 2 values of kind histo.",
    ),
]


@pytest.mark.parametrize(("data", "sentence"), DAMAGED_EVENTS)
def test_whole_events_of_a_damaged_file_come_in_and_the_others_are_said(
    ours: Store, tmp_path: Path, data: bytes, sentence: str
) -> None:
    (tmp_path / "events.out.tfevents.1").write_bytes(data)
    (tmp_path / "notes.tfevents.txt").write_bytes(b"what I tried")
    arrived = import_path(ours, tmp_path, by="Lin")
    assert imported(ours, arrived.ids[0]) == {("a", 0, 1.0)}
    assert arrived.notes[0].startswith(f"'events.out.tfevents.1'{sentence}")
    assert "'notes.tfevents.txt' is not a TensorBoard event file" in arrived.notes[1]


def scalar_of(dtype: int, *, content: bytes = b"", field: int = 0, packed: bytes = b"", shape: bytes = b"") -> bytes:
    """Return a scalar `x` of any type, as its bytes or in the field that lists such values."""
    tensor = b"\x08" + events.varint(dtype) + events.field(2, shape)
    tensor += events.field(4, content) if content else events.field(field, packed) if field else b""
    return events.field(
        1,
        events.field(1, b"x") + events.field(8, tensor) + events.field(9, events.field(1, events.field(1, b"scalars"))),
    )


ONE_LONG = events.field(2, b"\x08\x01")
TENSORS = [
    ("float", scalar_of(1, content=struct.pack("<f", -2.5)), -2.5),
    ("float, listed", scalar_of(1, field=5, packed=struct.pack("<f", -2.5)), -2.5),
    ("double", scalar_of(2, content=struct.pack("<d", 0.1)), 0.1),
    ("double, listed", scalar_of(2, field=6, packed=struct.pack("<d", 0.1)), 0.1),
    ("int32", scalar_of(3, content=struct.pack("<i", -7)), -7.0),
    ("int32, listed", scalar_of(3, field=7, packed=events.varint(-7)), -7.0),
    ("uint8", scalar_of(4, field=7, packed=events.varint(200)), 200.0),
    ("int16", scalar_of(5, content=struct.pack("<h", -300)), -300.0),
    ("int8", scalar_of(6, content=struct.pack("<b", -3)), -3.0),
    ("int64", scalar_of(9, content=struct.pack("<q", -(2**40))), -(2.0**40)),
    ("int64, listed", scalar_of(9, field=10, packed=events.varint(2**40)), 2.0**40),
    ("bool", scalar_of(10, content=b"\x01"), 1.0),
    ("bool, listed", scalar_of(10, field=11, packed=b"\x01"), 1.0),
    ("bfloat16", scalar_of(14, content=b"\x80\xbf"), -1.0),
    ("bfloat16, listed", scalar_of(14, field=13, packed=events.varint(0x4049)), 3.140625),
    ("uint16", scalar_of(17, content=struct.pack("<H", 60_000)), 60_000.0),
    ("half", scalar_of(19, content=struct.pack("<e", 0.5)), 0.5),
    ("half, listed", scalar_of(19, field=13, packed=events.varint(0xBC00)), -1.0),
    ("uint32", scalar_of(22, field=16, packed=events.varint(2**32 - 1)), 2.0**32 - 1),
    ("uint64", scalar_of(23, field=17, packed=events.varint(2**63)), 2.0**63),
    ("nothing listed is 0", scalar_of(3), 0.0),
    ("one of one", scalar_of(3, field=7, packed=b"\x05", shape=ONE_LONG), 5.0),
    (
        "several of one value",
        scalar_of(3, field=7, packed=b"\x05", shape=events.field(2, b"\x08\x03")),
        "not one number",
    ),
    ("two", scalar_of(3, field=7, packed=b"\x05\x06"), "not one number"),
    ("bytes that don't fit", scalar_of(9, content=b"\x05"), "not one number"),
    ("string", scalar_of(7, field=8, packed=b"good"), "string"),
    ("complex64", scalar_of(8, content=bytes(8)), "complex64"),
    ("float8", scalar_of(24, content=b"\x01"), "float8_e5m2"),
    ("a type of the future", scalar_of(99, content=b"\x01"), "type 99"),
]


@pytest.mark.parametrize(("summary", "value"), [row[1:] for row in TENSORS], ids=[row[0] for row in TENSORS])
def test_a_scalar_of_any_type_is_read_or_named(ours: Store, tmp_path: Path, summary: bytes, value: float | str) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(events.record(ONE) + events.record(events.event(1.7e9, 3, summary)))
    arrived = import_path(ours, path, by="Lin")
    other = {("x", 3, value)} if isinstance(value, float) else set()
    assert imported(ours, arrived.ids[0]) == {("a", 0, 1.0), *other}
    assert arrived.notes == (() if other else (f"'events.out.tfevents.1': left out 1 values of 'x' ({value}).",))


def test_long_names_that_begin_alike_stay_two_metrics(ours: Store, tmp_path: Path) -> None:
    block = "/".join(f"block_{number:03}" for number in range(24))
    names = [f"{block}/weight_norm", f"{block}/gradient_norm", f"{block * 3}/weight", f"{block * 3}/gradient"]
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"".join(events.record(events.event(1.7e9, 0, events.scalar(name, 1))) for name in names))
    arrived = import_path(ours, path, by="Lin")
    held = {name for name, _, _ in imported(ours, arrived.ids[0])}
    assert len(held) == 4 and set(names[:2]) < held and all(len(name) <= LONGEST_METRIC for name in held)
    assert len(arrived.notes) == 2
    assert f"has a name of {len(names[2])} characters: shortened to 500, ending in '" in arrived.notes[0]
    with Reader.open(ours.db.home) as reader:
        write_bundle(reader, arrived.ids, tmp_path / "runs.zip", by="Lin")
    with Store.open(Home(tmp_path / "other").create()) as other:
        (run_id,) = import_path(other, tmp_path / "runs.zip", by="Lin").ids
        assert imported(other, run_id) == imported(ours, arrived.ids[0])


def summary_folder(path: Path, *, values: int = 1, accuracy: float = 0.75) -> None:
    """Write the folder that PyTorch's `add_hparams` makes within a run's."""
    path.mkdir(parents=True, exist_ok=True)
    said = [events.event(1_700_000_009.0, 0, events.hparams("lr", 0.25))]
    said += [events.event(1_700_000_009.0, step, events.scalar("hparam/accuracy", accuracy)) for step in range(values)]
    (path / "events.out.tfevents.9").write_bytes(b"".join(map(events.record, said)))


def test_hyperparameters_in_a_folder_of_their_own_belong_to_their_run(ours: Store, tmp_path: Path) -> None:
    log = [events.event(1_700_000_000.0, step, events.scalar("loss", 1.0)) for step in range(3)]
    plain = b"".join(map(events.record, log))
    for name in ("torch", "tuned/train", "tuned/validation", "two"):
        (tmp_path / name).mkdir(parents=True)
        own = events.record(events.event(1e9, 0, events.scalar(name, 1.0)))
        (tmp_path / name / "events.out.tfevents.1").write_bytes(plain + own)
    summary_folder(tmp_path / "torch" / "1700000009.5")
    summary_folder(tmp_path / "told" / "again", values=0)
    (tmp_path / "told" / "events.out.tfevents.1").write_bytes(
        plain + events.record(events.event(1e9, 0, events.hparams("lr", 0.25)))
    )
    summary_folder(tmp_path / "tuned", values=0)
    for trial, accuracy in (
        ("two/a", 0.5),
        ("two/b", 0.6),
    ):  # trials that share the writer of a run: neither is the run's
        summary_folder(tmp_path / trial, accuracy=accuracy)
    summary_folder(tmp_path / "curve" / "own", values=3)
    arrived = import_path(ours, tmp_path, by="Lin")
    runs = {run.name: run for run in map(ours.read.runs.one, arrived.ids)}
    assert {name: dict(run.config) for name, run in runs.items()} == {
        "torch": {"lr": 0.25},
        "told": {"lr": 0.25},
        "tuned/train": {"lr": 0.25},
        "tuned/validation": {"lr": 0.25},
        "two": {},
        "two/a": {"lr": 0.25},
        "two/b": {"lr": 0.25},
        "curve/own": {"lr": 0.25},
    }
    assert ours.read.runs.entry(runs["torch"].id).last["hparam/accuracy"] == 0.75
    assert sorted(arrived.notes) == [
        "'told/again' has the hyperparameters of 'told': one run.",
        "'torch/1700000009.5' has the hyperparameters of 'torch': one run.",
    ]


def test_notes_on_many_folders_of_hyperparameters_are_two_lines(ours: Store, tmp_path: Path) -> None:
    plain = [events.record(events.event(1_700_000_000.0, step, events.scalar("loss", 1.0))) for step in range(3)]
    for number in range(5):
        summary_folder(tmp_path / f"run{number}" / "hp")
        unlike = events.record(events.event(1e9, 0, events.scalar(f"m{number}", 1.0)))
        (tmp_path / f"run{number}" / "events.out.tfevents.1").write_bytes(b"".join([*plain, unlike]))
    assert import_path(ours, tmp_path, by="Lin").notes == (
        "'run0/hp' has the hyperparameters of 'run0': one run.",
        "4 more folders have the hyperparameters of the run above them: one run each.",
    )


# ---- units of both ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ("0.12 0.93", "imported/test/accuracy"),
        ("12.5 93.1", "test/accuracy"),
        ("-3 97", "imported/test/accuracy"),
        ("40 140", "imported/test/accuracy"),
        ("nan 97", "test/accuracy"),
        ("nan nan", "test/accuracy"),
    ],
)
def test_a_metric_with_a_name_of_ours_has_our_unit_only_where_its_values_fit(
    ours: Store, tmp_path: Path, values: str, name: str
) -> None:
    folder = mlruns(tmp_path)
    lines = [f"1700000003000 {value} {step}\n" for step, value in enumerate(values.split())]
    (folder / "42" / "0a1b2c" / "metrics" / "test" / "accuracy").write_text("".join(lines))
    arrived = import_path(ours, folder, by="Lin")
    assert len(ours.read.curves.series(arrived.ids[0], [name])[0].values) == 2
    assert metric(name).unit == ("%" if name == "test/accuracy" else "") and metric(name).better == "max"
    assert [note for note in arrived.notes if "without a unit" in note] == (
        [] if name == "test/accuracy" else [arrived.notes[-1]]
    )


def test_units_are_judged_by_the_values_of_each_run() -> None:
    runs = [Values("a", ImportBudget()), Values("b", ImportBudget())]
    for run, value in zip(runs, (0.93, 93.0), strict=True):
        run.add("test/accuracy", 0.0, 0, value)
    (note,) = fit_units(runs)
    assert [list(run.names) for run in runs] == [["imported/test/accuracy"], ["test/accuracy"]]
    assert note.startswith("test/accuracy has values from 0.93 to 0.93 in 1 of 2 runs")


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


def mlflow_database(top: Path) -> Path:
    """Write MLflow's database with the same run."""
    run = "0a1b2c"
    with closing(sqlite3.connect(top / "mlflow.db")) as found, found:
        found.executescript(
            """CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name TEXT, lifecycle_stage TEXT);
            CREATE TABLE experiment_tags (key TEXT, value TEXT, experiment_id INTEGER);
            CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT, user_id TEXT, status TEXT, start_time BIGINT,
                end_time BIGINT, lifecycle_stage TEXT, experiment_id INTEGER);
            CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);
            CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE logged_models (model_id TEXT, experiment_id INTEGER, name TEXT, lifecycle_stage TEXT,
                source_run_id TEXT);
            INSERT INTO experiments VALUES (42, 'baselines', 'active');
            INSERT INTO logged_models VALUES ('m-77', 42, 'best', 'active', '0a1b2c');
            INSERT INTO experiment_tags VALUES ('mlflow.note.content', 'about all', 42);"""
        )
        at = 1_700_000_000_000
        lived = ("FINISHED", at, at + 60_000)
        found.execute("INSERT INTO runs VALUES (?, ?, 'ada', ?, ?, ?, 'active', 42)", (run, "it's a run", *lived))
        found.execute("INSERT INTO runs VALUES ('dd', 'gone', 'ada', 'FINISHED', 1, 2, 'deleted', 42)")
        metrics = [("train/loss", 2.5, 1, 0, 0), ("train/loss", 0.0, 2, 1, 1), ("train/loss", 0.5, 3, 2, 0)]
        for key, value, after_s, step, is_nan in [*metrics, ("test/accuracy", 97.5, 3, 0, 0)]:
            row = (key, value, at + 1000 * after_s, run, step, is_nan)
            found.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
        found.execute("INSERT INTO metrics VALUES ('loss', 1, 1, 'dd', 0, 0)")
        found.execute("INSERT INTO params VALUES ('learning_rate', '0.1', ?)", (run,))
        named = {"mlflow.note.content": "an old result", "mlflow.source.git.commit": "abc", "team": "vision"}
        found.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(*tag, run) for tag in named.items()])
    return top / "mlflow.db"


@pytest.mark.parametrize("written", [mlruns, mlflow_database])
def test_a_run_of_mlflow_keeps_its_names_numbers_and_words(
    ours: Store, tmp_path: Path, written: Callable[[Path], Path]
) -> None:
    (run_id,) = import_path(ours, written(tmp_path), by="Lin").ids
    with Reader.open(ours.db.home) as reader:
        run = reader.runs.one(run_id)
        assert (run.experiment, run.name, run.owner, run.status, run.execution_time_s) == (
            "baselines",
            "it's a run",
            "Lin",
            "finished",
            60.0,
        )
        assert (dict(run.config), run.tags, run.note, run.environment["git_commit"]) == (
            {"learning_rate": 0.1},
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
        origin = reader.origins.of(run_id)
        assert origin and origin.owner == "ada", "it belongs to who brought it; who recorded it is kept"


def test_mlflows_database_is_found_in_its_folder_and_refused_where_it_is_no_database(
    ours: Store, tmp_path: Path
) -> None:
    path = mlflow_database(tmp_path)
    arrived = import_path(ours, tmp_path, by="Lin")
    assert arrived.notes == ("'42/dd' was skipped: it was deleted in MLflow.",)
    again = import_path(ours, mlruns(tmp_path / "as_files"), by="Lin")
    assert (again.ids, again.found) == ((), arrived.ids)
    whole = path.read_bytes()
    for data, said in (
        (whole[:5_000] + b"\xff" * (len(whole) - 5_000), r"mlflow.db can't be read: .* import a copy of the file"),
        (whole.replace(b"experiment_tags", b"experiment_rags"), "nothing to import"),
        (b"SQLite", "nothing to import.* its database mlflow.db, not in a zip"),
    ):
        path.write_bytes(data)
        with pytest.raises(ImportRefused, match=said):
            import_path(ours, path, by="Lin")


def test_runs_come_in_the_order_in_which_they_began(ours: Store, tmp_path: Path) -> None:
    for name, began in {"a": 3, "b": 1, "c": 2}.items():
        folder = tmp_path / "mlruns" / "42" / name
        (folder / "params").mkdir(parents=True)
        (folder / "params" / "lr").write_text("1")
        (folder / "meta.yaml").write_text(f"run_id: {name}\nrun_name: {name}\nstart_time: {began}\n")
    ids = import_path(ours, tmp_path, by="Lin").ids
    assert [ours.read.runs.one(run_id).name for run_id in ids] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("status", "ours_is"), [("4", "failed"), ("KILLED", "cancelled"), ("1", "lost"), ("99", "finished")]
)
def test_its_status_is_one_of_ours(ours: Store, tmp_path: Path, status: str, ours_is: str) -> None:
    assert ours.read.runs.one(import_path(ours, mlruns(tmp_path, status=status), by="Lin").ids[0]).status == ours_is


A, B, C = b"1700000000000 1 0\n", b"1700000001000 0.5 1\n", b"1700000002000 0.25 2\n"
DAMAGED = [
    (A + B + b"17000", [1, 0.5], "1 of 3 lines left out as incomplete or damaged, the first is line 3"),
    (A + B + b"1700000012000 0.25 12", [1, 0.5], "1 of 3"),  # of 1200
    (A + b"1700000001000 0.", [1], "1 of 2"),
    (A[:-1], [], "1 of 1"),
    (A + B + b"\0" * 30, [1, 0.5], "1 of 3"),
    (A + b"\0" * 10_000 + B + C, [1, 0.25], "1 of 3"),  # a block that was never written, then the next writer
    (b"\0" * 5_000, [], "1 of 1"),
    (A + B[:15] + B + C, [1, 0.25], "1 of 3"),  # cut, then resumed
    (A + b"1700000001000 0.5\n" + C, [1, 0.25], "1 of 3"),  # cut, then closed by an editor
    (b"much\n\xff\xfe\x00\n" + A, [1], "2 of 3 lines left out as incomplete or damaged, the first is line 1"),
    (A + b"1700000001000 much 1\n", [1], "1 of 2"),
    (A + b"17e400 1 1\n-5 1 1\n9999999999999 1 1\n", [1], "3 of 4"),
    (A + f"1700000001000 1 {2**80}\n".encode(), [1], "1 of 2"),
    (A + b"1_700_000_001_000 1 1\n1700000001000 1_0 1\n", [1], "2 of 3"),
    (A + b"1700000001000 0.5 1 2\n", [1], "1 of 2"),
    ((A + B).replace(b"\n", b"\r\n") + C[:-1] + b"\r", [1, 0.5], "1 of 3"),
    (A + b"1" * 5_000 + b"\n" + B, [1, 0.5], "1 of 3"),
    ((A + B).replace(b"\n", b"\r\n") + b"\n", [1, 0.5], ""),
    (b"1700000000000 1\n1700000001000 0.5\n", [1, 0.5], ""),
    (b"1700000000000 1\n" + B, [1, 0.5], ""),  # continued by a later MLflow
    (b"\xef\xbb\xbf" + A + B, [1, 0.5], ""),  # saved by an editor of Windows
    ((A + B).decode().encode("utf-16"), [], "3 of 3"),
    (b"", [], ""),
]


@pytest.mark.parametrize(("data", "values", "said"), DAMAGED)
def test_whole_lines_of_a_damaged_metric_come_in_and_the_others_are_said(
    ours: Store, tmp_path: Path, data: bytes, values: list[float], said: str
) -> None:
    folder = mlruns(tmp_path)
    (folder / "42" / "0a1b2c" / "metrics" / "train" / "loss").write_bytes(data)
    arrived = import_path(ours, folder, by="Lin")
    assert [series.values for series in ours.read.curves.series(arrived.ids[0], ["test/accuracy", "train/loss"])] == [
        [97.5],
        *([values] if values else []),
    ]
    assert [note.startswith(f"'42/0a1b2c/metrics/train/loss': {said}") for note in arrived.notes] == [True] * bool(said)


NAMED = [
    ('"\\U0001F680 best run"', "\U0001f680 best run"),
    ("a long name with many\n  words end", "a long name with many words end"),
    ("'two\n\n  lines'", "two\nlines"),
    ('"tab\\there \\"quoted\\" and \'single\'"', "tab\there \"quoted\" and 'single'"),
    ("'Größe: 3 # not a comment'", "Größe: 3 # not a comment"),
    ("plain # a comment", "plain"),
    ("'it''s 5 o''clock: go'", "it's 5 o'clock: go"),
    ("'null'", "null"),
    ("null", "of the tag"),
    ("~", "of the tag"),
    ("", "of the tag"),
    ("''", "of the tag"),
    ("1e5", "1e5"),
    ("0017", "0017"),
    ("yes", "yes"),
    ("2026-01-01", "2026-01-01"),
    ("|\n  literal\n  block", "literal\nblock"),
    (">-\n  folded\n  block", "folded block"),
    ("&anchor named", "named"),
    ("!!python/object/apply:os.getcwd []", "of the tag"),
]


@pytest.mark.parametrize(("written", "name"), NAMED)
def test_a_name_is_read_as_yaml_writes_it(ours: Store, tmp_path: Path, written: str, name: str) -> None:
    folder = mlruns(tmp_path)
    run = folder / "42" / "0a1b2c"
    (run / "meta.yaml").write_text(f"run_name: {written}\nrun_id: 0a1b2c\nstatus: 3\n", encoding="utf-8")
    (run / "tags" / "mlflow.runName").write_text("of the tag\n")
    assert ours.read.runs.one(import_path(ours, folder, by="Lin").ids[0]).name == " ".join(name.split())


PARAMETERS = {
    "64": 64,
    "-3": -3,
    "0": 0,
    "0.10": 0.1,
    "1e-3": 0.001,
    ".5": 0.5,
    "2.": 2.0,
    "True": True,
    "false": False,
    "None": None,
    "null": None,
    "007": "007",
    "1e999": "1e999",
    "nan": "nan",
    "1_000": "1_000",
    "0x10": "0x10",
    "5 min": "5 min",
    "[1, 2]": "[1, 2]",
    "123456789012345678901": "123456789012345678901",
    "": "",
    "\u0664": "\u0664",
}


def test_parameters_are_numbers_booleans_and_none_with_their_text_kept(ours: Store, tmp_path: Path) -> None:
    folder = mlruns(tmp_path) / "42" / "0a1b2c" / "params"
    for number, text in enumerate(PARAMETERS):
        (folder / f"p{number:02}").write_text(text, encoding="utf-8")
    run = ours.read.runs.one(import_path(ours, tmp_path / "mlruns", by="Lin").ids[0])
    found = {text: run.config[f"p{number:02}"] for number, text in enumerate(PARAMETERS)}
    assert {text: (type(value), value) for text, value in found.items()} == {
        text: (type(value), value) for text, value in PARAMETERS.items()
    }
    kept = run.environment["parameters_as_text"]
    assert [kept[f"p{at:02}"] for at in (3, 4, 8, 10)] == ["0.10", "1e-3", "false", "null"] and "p00" not in kept


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("batch_size == 64", [64]),
        ("batch_size >= 100", [128, 1024]),
        ("weights == none", [16, 64, 128]),
        ('weights == "imagenet"', [1024]),
        ("shuffle", [64]),
        ('config["learning rate"] < 0.05', [16]),
        ('config["Größe, in cm"] == 3', [128]),
        ("optimizer.lr == 0.5 and batch_size < 200", [64]),
        ('config["optimizer.lr"] == 0.5', [64]),
        ('config["a/b"] == 1', [1024]),
        ("config.name == 7", [16]),
    ],
)
def test_imported_parameters_are_filtered_sorted_and_quoted(
    ours: Store, tmp_path: Path, filter: str, found: list[int]
) -> None:
    folder = mlruns(tmp_path) / "42"
    shutil.rmtree(folder / "0a1b2c")
    for params in (
        {"batch_size": "1024", "weights": "imagenet", "a/b": "1"},
        {"batch_size": "16", "learning rate": "1e-2", "name": "7"},
        {"batch_size": "128", "learning rate": "0.1", "Größe, in cm": "3"},
        {"batch_size": "64", "weights": "None", "shuffle": "True", "optimizer.lr": ".5"},
    ):
        for name, text in params.items():
            path = folder / params["batch_size"] / "params" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder / params["batch_size"] / "meta.yaml").write_text(f"run_id: r{params['batch_size']}\n")
    import_path(ours, tmp_path / "mlruns", by="Lin")
    fields = ours.read.fields
    runs = ours.read.runs.find(matching=fields.filter(f"({filter}) and id > 1"), order=fields.order("batch_size"))
    assert [run.config["batch_size"] for run in runs] == found
    for field in fields.filter(filter).fields:
        assert read_field(field.written, fields.names()) == field, "columns and addresses name it as a filter does"


def beside_a_run(top: Path) -> None:
    """Write what MLflow keeps besides runs: notes of experiments, models with tags, deleted runs, traces, artifacts."""
    run = top / "42" / "0a1b2c"
    for name, text in {
        "42/tags/mlflow.note.content": "what the study is for",
        "models/net/meta.yaml": "name: net\ncreation_timestamp: 1\nlatest_versions: []\n",
        "models/net/tags/stage": "production",
        "models/net/version-1/meta.yaml": "name: net\nrun_id: 0a1b2c\nversion: 1\n",
        "models/net/version-1/tags/stage": "production",
        "42/models/m-77/meta.yaml": "model_id: m-77\nexperiment_id: '42'\nsource_run_id: 0a1b2c\n",
        "42/models/m-77/params/depth": "3",
        "42/models/m-77/metrics/loss": "1700000003000 0.5 0\n",
        "42/traces/tr-1/tags/mlflow.user": "ada",
        "42/traces/tr-1/trace_info.yaml": "trace_id: tr-1\n",
        "42/traces/tr-1/artifacts/traces.json": "{}",
        "42/0a1b2c/artifacts/data/meta.yaml": "run_id: copied\n",
        "42/0a1b2c/artifacts/data/params/lr": "1",
        "42/0a1b2c/outputs/m-77/meta.yaml": "model_id: m-77\n",
        "42/dead/meta.yaml": "run_id: dead\nlifecycle_stage: deleted\n",
        "42/dead/params/lr": "1",
        "42/odd/meta.yaml": "experiment_id: '42'\nrun_name: no id\n",
        "42/odd/params/lr": "1",
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (run / "tags" / "estimator").write_text("x" * 300)


def test_what_mlflow_keeps_besides_runs_stops_no_import(ours: Store, tmp_path: Path) -> None:
    beside_a_run(mlruns(tmp_path))
    arrived = import_path(ours, tmp_path / "mlruns", by="Lin")
    (run_id,) = arrived.ids
    assert sorted(arrived.notes) == [
        "'42/dead' was skipped: it was deleted in MLflow.",
        "'42/odd' was skipped: its meta.yaml has no run_id.",
        "1 trace was left out.",
        "2 logged or registered models were left out.",
    ]
    assert ours.read.runs.one(run_id).environment["experiment_note"] == "what the study is for"
    assert ours.read.runs.one(run_id).tags == (f"estimator={'x' * 300}", "team=vision"), "not cut"


def kept_files(store: Store, run_id: int) -> dict[str, bytes]:
    home = store.db.home
    return {each.name: content_path(home, each.sha256).read_bytes() for each in store.read.files.of([run_id])}


@pytest.mark.parametrize("written", [mlruns, mlflow_database])
def test_artifacts_become_files_that_the_run_keeps(
    ours: Store, tmp_path: Path, written: Callable[[Path], Path]
) -> None:
    written(tmp_path)
    folder = tmp_path / "mlruns" / "42" / "0a1b2c" / "artifacts"
    for name, content in {"a.png": b"png", "model/net.pt": b"net", "model-net.pt": b"", "artifacts/b": b"png"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    logged = tmp_path / "mlruns" / "42" / "models" / "m-77"  # of MLflow 3: beside the files of the run
    for place in (tmp_path / "mlruns" / "42" / "dd", logged):
        (place / "artifacts").mkdir(parents=True)
        (place / "artifacts" / "c").write_bytes(b"c")
    if written is mlruns:
        (logged / "meta.yaml").write_text("model_id: m-77\nname: best\nsource_run_id: 0a1b2c\n")
    arrived = import_path(ours, tmp_path, by="Lin")
    (run_id,) = arrived.ids
    assert kept_files(ours, run_id) == {
        "a.png": b"png",
        "model-net.pt": b"",
        "artifacts-b": b"png",
        "best-c": b"c",
    }
    left_out = "2 artifacts were left out."  # of a run that is no run, and one of two with one name
    assert (left_out in arrived.notes) == (written is mlruns)
    assert {each.who for each in ours.read.files.of([run_id])} == {"Lin"}


def test_artifacts_that_exceed_a_limit_or_lead_outside_are_left_out_with_the_reason(
    ours: Store, tmp_path: Path
) -> None:
    folder, secret = mlruns(tmp_path) / "42" / "0a1b2c" / "artifacts", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("hidden")
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "good").write_bytes(b"1234")
    (folder / "turned\u202etxt.exe").write_bytes(b"12")
    with (folder / "huge").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with (folder / "large").open("wb") as file:
        file.truncate(1 << 20)
    set_limits(ours.db.home, Limits(max_files_gb=1e-4))
    before = {*tmp_path.rglob("*")} - {*ours.db.home.path.rglob("*")}
    arrived = import_path(ours, tmp_path / "mlruns", by="Lin")
    assert arrived.notes[0] == "Left out as links: '42/0a1b2c/artifacts/link'."
    said = arrived.notes[1]
    assert said.startswith(f"Run {arrived.ids[0]}, 0a1b2c: 3 files left out: 'turned\\u202etxt.exe' (")
    assert "must have visible characters only" in said and "'large' (Quota of files of Lin: " in said
    assert "'huge' (A file can have at most " in said
    assert kept_files(ours, arrived.ids[0]) == {"good": b"1234"}
    assert {*tmp_path.rglob("*")} - {*ours.db.home.path.rglob("*")} == before


def test_a_run_with_a_time_that_is_none_has_those_of_its_values(ours: Store, tmp_path: Path) -> None:
    folder = mlruns(tmp_path)
    (folder / "42" / "0a1b2c" / "meta.yaml").write_text("start_time: 99999999999999999999\nrun_id: a\n")
    arrived = import_path(ours, folder, by="Lin")
    assert ours.read.runs.one(arrived.ids[0]).execution_time_s == 2.0 and "invalid start_time" in arrived.notes[0]


BROKEN = [
    ("meta.yaml", "run_name: a\n", "its meta.yaml has no run_id"),
    ("meta.yaml", "\x00", "its meta.yaml is damaged"),
    ("meta.yaml", "[1]", "its meta.yaml is damaged"),
    ("meta.yaml", "[" * 100_000, "its meta.yaml is damaged"),
    ("meta.yaml", "run_id: \xff: :", "its meta.yaml is damaged"),
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
    assert dict(ours.read.runs.one(run_id).config) == {"learning_rate": 0.1}


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
