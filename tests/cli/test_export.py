"""Exports: every point, also those that are no numbers."""

import csv
import io
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import OutputFailed
from engine.home import ROOT, Home
from engine.store import Store
from engine.store.runs.files import content_path
from engine.transfer.tables import complete_file
from tests.cli.conftest import Parallab, environment
from tests.labs import sweeps
from tests.labs.basic import keep


def test_csv_has_a_row_for_every_point_and_keeps_nan_and_infinity(parallab: Parallab, ended: int) -> None:
    rows = list(csv.DictReader(io.StringIO(parallab("export", str(ended), "--format", "csv").stdout)))
    assert len(rows) == 7
    losses = [float(row["value"]) for row in rows if row["metric"] == "train/loss" and row["role"] == "trainer1"]
    assert (losses[0], math.isnan(losses[1]), losses[2], losses[3]) == (2.5, True, math.inf, 0.5)
    whole = [row for row in rows if row["rank"] == ""]
    assert [(row["metric"], row["step"], row["passes"], row["time_s"]) for row in whole] == [
        ("test/accuracy", "4", "1.0", "0.4"),
        ("test/accuracy", "8", "2.0", "0.8"),
    ]


def test_json_has_whole_runs_with_their_series(parallab: Parallab, ended: int, queued: Callable[..., int]) -> None:
    other = queued()
    told = json.loads(parallab("export", str(ended), str(other), "--format", "json").stdout)
    assert [(run["id"], run["status"]) for run in told] == [(ended, "finished"), (other, "queued")]
    loss = next(series for series in told[0]["series"] if series["metric"] == "train/loss" and series["rank"] == 0)
    assert loss["values"] == [2.5, "NaN", "Infinity", 0.5]
    assert loss["steps"] == [1, 2, 3, 4]
    assert told[1]["series"] == []


def test_one_metric_alone_where_asked(parallab: Parallab, ended: int) -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(parallab("export", str(ended), "--format", "csv", "--metric", "test/accuracy").stdout)
        )
    )
    assert {row["metric"] for row in rows} == {"test/accuracy"}
    assert len(rows) == 2


def test_an_export_goes_to_a_file_and_says_what_it_wrote(parallab: Parallab, ended: int, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    told = json.loads(parallab("export", str(ended), "--format", "csv", "--output", str(path), "--json").stdout)
    assert told == {"path": str(path), "runs": 1, "left_out": 0, "points": 7}
    assert len(path.read_text("utf-8-sig").splitlines()) == 8


def test_a_wrong_id_among_right_ones_writes_nothing(parallab: Parallab, ended: int, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    assert parallab("export", str(ended), "999", "--format", "csv", "--output", str(path)).returncode == 2
    assert not path.exists()


def test_an_unknown_metric_writes_nothing_and_names_the_one_meant(
    parallab: Parallab, ended: int, tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    refused = parallab("export", str(ended), "--metric", "acuracy", "--output", str(path))
    assert refused.returncode == 2 and "Did you mean 'test/accuracy'?" in refused.stderr
    assert not path.exists()


@pytest.mark.processes
def test_a_sweep_is_exported_by_its_number_and_known_where_it_comes_from(
    parallab: Parallab, home: Home, tmp_path: Path
) -> None:
    _, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    path = str(tmp_path / "sweep.zip")
    assert (
        "Nothing to export: no run of sweep 1 has ended yet."
        in parallab("export", "--sweep", "1", "--out", path).stderr
    )
    sweeps.drive(home, runs[0])
    exported = parallab("export", "--sweep", "1", "--out", path, "--json")
    assert {"runs": 1, "left_out": 1}.items() <= json.loads(exported.stdout).items()
    assert "Left out: 1 run that has not ended." in exported.stderr
    again = parallab("import", path)
    assert again.returncode == 0 and again.stdout.splitlines() == [
        "Nothing new: its run is already here, as run 1.",
        "On Runs, or by list --filter: id == 1",
    ]
    events = tmp_path / "mlruns" / "0" / "abc"
    (events / "metrics").mkdir(parents=True)
    (events / "meta.yaml").write_text("run_id: abc\nstatus: 3\nstart_time: 1000\nend_time: 2000\n")
    (events / "metrics" / "loss").write_text("1000 0.5 1\n")
    imported = parallab("import", str(tmp_path / "mlruns"), "--owner", "Mira")
    assert "Owner: Mira. Import under another name with --owner NAME." in imported.stdout, imported.stderr
    assert "give the ids of runs, or --sweep" in parallab("export", "--out", path).stderr


@pytest.mark.parametrize("kind", ["bundle", "csv", "json", "parquet"])
@pytest.mark.parametrize(
    ("place", "why"), [("/dev/full", "No space left on device"), ("nowhere/out", "No such file or directory")]
)
def test_a_file_that_cannot_be_written_is_a_sentence(
    parallab: Parallab, ended: int, tmp_path: Path, kind: str, place: str, why: str
) -> None:
    path = str(tmp_path / place)
    told = parallab("export", str(ended), "--format", kind, "--out", path)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == f"{path} can't be written: {why}. Choose another file, or free space on its disk.\n"


def test_where_the_disk_gets_full_the_file_of_before_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("of before")
    with pytest.raises(OutputFailed, match=r"out\.csv can't be written: File too large"):
        _write_too_much(path)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out.csv", "of before")]


def _write_too_much(path: Path) -> None:
    """Write more than this process may, which a file learns as it does of a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    with complete_file(path) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
        try:
            file.write(b"x" * 5000)
            file.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.processes
@pytest.mark.parametrize("words", [("list",), ("export", "1", "--format", "csv"), ("experiments", "--json")])
def test_a_full_disk_behind_standard_output_is_a_sentence(home: Home, ended: int, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "engine", *words]
        told = subprocess.run(command, cwd=ROOT, env=environment(home), stdout=full, stderr=subprocess.PIPE, text=True)
    assert told.returncode == 1
    assert told.stderr.startswith("Not everything could be written: No space left on device. Free space")
    assert len(told.stderr.splitlines()) == 1


def test_kept_files_are_listed_and_written_whole_or_not_at_all(
    parallab: Parallab, home: Home, ended: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parallab("files", str(ended)).stdout == f"Run {ended} keeps no files.\n"
    with Store.open(home) as store:
        keep(store, ended, "net.pt", b"weights")
        (kept,) = store.read.files.of([ended])
    assert parallab("files", str(ended)).stdout.splitlines()[1].startswith("net.pt  7 B   ")
    assert json.loads(parallab("files", str(ended), "--json").stdout)[0]["sha256"] == kept.sha256
    out = tmp_path / "copy.pt"
    told = parallab("files", str(ended), "net.pt", "--out", str(out))
    assert (told.stdout, out.read_bytes()) == (f"7 B written to {out}.\n", b"weights")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert parallab("files", str(ended), "net.pt").stdout == "7 B written to net.pt.\n"
    assert Path("net.pt").read_bytes() == b"weights"
    again = parallab("files", str(ended), "net.pt")
    assert again.returncode and "net.pt is already here. Give another file with --out." in again.stderr
    content = content_path(home, kept.sha256)
    for change, why in ((lambda: content.write_bytes(b"changed"), "damaged"), (content.unlink, "missing")):
        change()
        told = parallab("files", str(ended), "net.pt", "--out", str(tmp_path / why))
        assert told.returncode and f"The content of 'net.pt' is {why}." in told.stderr
    assert [each.name for each in tmp_path.glob("*") if each.is_file()] == ["copy.pt"]
    for words in (("other.pt", "--out", "x"), ("other.pt",), ("--out", "x")):
        assert parallab("files", str(ended), *words).returncode, words
