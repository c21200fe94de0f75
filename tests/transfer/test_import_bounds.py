"""How much a file of runs may hold: each bound is found out before anything large is built, and named with
its number.
"""

import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.access.quotas import Limits, set_limits
from engine.errors import ImportRefused, LimitReached
from engine.store import Store
from engine.store.imports import bundle_import
from engine.transfer import archives
from engine.transfer.archives import members
from engine.transfer.import_bounds import MOST_SETTINGS, ImportBudget
from engine.transfer.import_child import import_path
from tests.transfer.bundles.bundle_files import changed, counts, resign_logs, row
from tests.transfer.readers import events
from tests.transfer.readers.test_other_programs import mlruns

MB = 1 << 20


noise = os.urandom


def zipped(folder: Path, more: dict[str, bytes]) -> Path:
    """Zip MLflow's folder of one run with more files in the run's folder."""
    path = folder / "mlruns.zip"
    top = mlruns(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for each in sorted(top.rglob("*")):
            if each.is_file():
                file.write(each, each.relative_to(top).as_posix())
        for name, data in more.items():
            file.writestr(f"42/0a1b2c/{name}", data)
    return path


def refused(store: Store, path: Path) -> tuple[str, float]:
    """Return why a file is refused, and the most memory (MB) that Python held meanwhile."""
    before = counts(store)
    tracemalloc.start()
    try:
        with pytest.raises(ImportRefused) as told:
            import_path(store, path, by="Lin")
        return str(told.value), tracemalloc.get_traced_memory()[1] / MB
    finally:
        tracemalloc.stop()
        assert counts(store) == before


def test_parameters_and_tags_are_bounded_in_number_and_together(ours: Store, tmp_path: Path) -> None:
    whole = {f"params/p{number}": b"1" for number in range(MOST_SETTINGS)}
    tags = {f"tags/t{number}": b"1" for number in range(MOST_SETTINGS)}
    done = import_path(ours, zipped(tmp_path, whole | tags), by="Lin")
    run = ours.read.runs.one(done.ids[0])
    assert (len(run.config), len(run.tags)) == (MOST_SETTINGS, MOST_SETTINGS - 2), "MLflow's own tags come first"
    assert [note for note in done.notes if "left out" in note] == [
        f"'42/0a1b2c' has {count}; at most 1,000 with 1,048,576 bytes can be imported with a run."
        for count in ("1,001 parameters: 1 was left out", "1,003 tags: 3 were left out")
    ]


def test_long_parameters_are_left_out_unread(ours: Store, tmp_path: Path) -> None:
    padding = {f"artifacts/{number}": noise(MB) for number in range(4)}  # so that the zip as a whole is not too dense
    path = zipped(tmp_path, {f"params/p{number}": b"x" * 100_000 for number in range(200)} | padding)
    done = import_path(ours, path, by="Lin")
    assert len(ours.read.runs.one(done.ids[0]).config) == 11
    assert "'42/0a1b2c' has 201 parameters: 190 were left out" in done.notes[0]


def test_an_endless_line_is_left_out_and_dense_members_and_long_names_are_refused_unread(
    ours: Store, tmp_path: Path
) -> None:
    digits = noise(6 * MB).translate(bytes(48 + value % 10 for value in range(256)))
    path = zipped(tmp_path, {"metrics/long": digits})
    tracemalloc.start()
    (note,) = import_path(ours, path, by="Lin").notes
    assert "'42/0a1b2c/metrics/long': 1 of 1 lines left out as incomplete or damaged" in note
    assert tracemalloc.get_traced_memory()[1] < 5 * MB
    tracemalloc.stop()
    sentence, held = refused(
        ours, zipped(tmp_path, {"metrics/long": b"1" * (20 * MB), "artifacts/model": noise(2 * MB)})
    )
    assert "Member '42/0a1b2c/metrics/long' unpacks to" in sentence and "zip bombs" in sentence
    assert held < 3
    sentence, _ = refused(ours, zipped(tmp_path, {"/".join("a" * 600): b""}))
    assert "has 1,209 characters; at most 1,000" in sentence


def test_a_repeated_log_is_no_bomb_and_training_is_far_from_any_bound(tmp_path: Path, ours: Store) -> None:
    path = tmp_path / "runs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("logs/0.txt", b"UserWarning: again\n" * MB)
    with members(path) as found:
        assert [*found.names] == ["logs/0.txt"]
    params = {f"params/group/p{number}": b"0.001" for number in range(300)}
    curve = "".join(f"{1_700_000_000_000 + step} {1 / (step + 1):.6f} {step}\n" for step in range(20_000)).encode()
    (run_id,) = import_path(ours, zipped(tmp_path, params | {"metrics/curve": curve}), by="Lin").ids
    assert len(ours.read.runs.one(run_id).config) == 301
    assert archives.DENSEST >= 100


def test_hyperparameters_of_tensorboard_are_bounded_too(ours: Store, tmp_path: Path) -> None:
    path = events.write(tmp_path / "events.out.tfevents.1")
    more = b"".join(
        events.record(events.event(1.7e9, 0, events.hparams(f"p{number}", 0.5))) for number in range(MOST_SETTINGS)
    )
    path.write_bytes(path.read_bytes() + more)
    done = import_path(ours, path, by="Lin")
    assert len(ours.read.runs.one(done.ids[0]).config) == MOST_SETTINGS
    assert "left out 1 parameters, over the limit of 1,000 and 1,048,576 bytes" in done.notes[0]


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        (
            "config",
            json.dumps({str(number): 1 for number in range(MOST_SETTINGS + 1)}),
            "config has 1,001 entries; at most 1,000",
        ),
        ("config", json.dumps({"a": "x" * MB}), "config has 1,048,585 characters; at most 1,048,576"),
        ("environment", json.dumps({"a": "x" * MB}), "environment has 1,048,585 characters; at most"),
        ("cause", "x" * 20_001, "cause has 20,001 characters; at most 20,000"),
    ],
)
def test_texts_of_a_bundle_are_bounded(bundle: Path, ours: Store, column: str, value: str, sentence: str) -> None:
    assert sentence in refused(ours, changed(bundle, row("runs", column, value)))[0]


def few_points(room: ImportBudget) -> None:
    room.points = 3


def few_metrics(room: ImportBudget) -> None:
    room.metrics = 1


def little_config(room: ImportBudget) -> None:
    room.config_bytes = 5


@pytest.mark.parametrize(
    ("narrow", "sentence"),
    [
        (few_points, "more than 3 values"),
        (few_metrics, "more than 1 metrics"),
        (little_config, "more than 5 bytes of parameters"),
    ],
)
@pytest.mark.parametrize("kind", ["mlflow", "tensorboard"])
def test_an_import_has_one_measure_for_all_of_its_runs(
    ours: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    narrow: Callable[[ImportBudget], None],
    sentence: str,
    kind: str,
) -> None:
    whole = ImportBudget.__init__

    def narrowed(room: ImportBudget) -> None:
        whole(room)
        narrow(room)

    monkeypatch.setattr(ImportBudget, "__init__", narrowed)
    events.write(tmp_path / "board" / "a" / "events.out.tfevents.1", steps=2)
    events.write(tmp_path / "board" / "b" / "events.out.tfevents.1", steps=1)
    path = mlruns(tmp_path) if kind == "mlflow" else tmp_path / "board"
    assert sentence in refused(ours, path)[0]


def test_metrics_of_a_run_in_a_bundle_are_bounded(ours: Store, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_import, "MOST_CURVES", 2)
    assert "Run 1 in the file exceeds the limit of 2 metrics" in refused(ours, bundle)[0]


@pytest.mark.parametrize("kind", ["bundle", "mlflow"])
def test_an_import_that_would_pass_a_persons_disk_limit_is_refused_before_it_is_written(
    ours: Store, bundle: Path, tmp_path: Path, kind: str
) -> None:
    set_limits(ours.db.home, Limits(max_disk_gb=0.001))
    curve = "".join(f"{1_700_000_000_000 + step} 0.5 {step}\n" for step in range(25_000)).encode()
    path = (
        zipped(tmp_path, {"metrics/curve": curve})
        if kind == "mlflow"
        else changed(bundle, lambda held: held.update({"logs/0.txt": noise(2 * MB)}))
    )
    if kind == "bundle":
        resign_logs(path)
    before = counts(ours)
    with pytest.raises(
        LimitReached, match=r"Disk quota of Lin: 0 B of 1\.0 MB used, and this needs about \d\.\d MB more"
    ):
        import_path(ours, path, by="Lin")
    assert counts(ours) == before


def test_a_member_with_a_wrong_checksum_is_named_and_the_others_come_in(ours: Store, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("a", "b"):
            file.writestr(f"42/{name}/meta.yaml", f"run_id: {name}\nstatus: 3\n")
            file.writestr(f"42/{name}/metrics/loss", "1700000000000 0.5 0\n")
            file.writestr(f"42/{name}/metrics/{name}", f"1700000000000 0.25 {name == 'a':d}\n")
    path.write_bytes(path.read_bytes().replace(b"0.25 1", b"0.75 1"))
    done = import_path(ours, path, by="Lin")
    assert len(done.ids) == 2 and done.notes == ("Left out as damaged: '42/a/metrics/a'.",)
    only = tmp_path / "events.zip"
    with zipfile.ZipFile(only, "w") as file:
        file.writestr("events.out.tfevents.1", b"x" * 40)
    only.write_bytes(only.read_bytes().replace(b"x" * 40, b"y" * 40))
    with pytest.raises(ImportRefused, match=r"'events\.out\.tfevents\.1' is damaged"):
        import_path(ours, only, by="Lin")
