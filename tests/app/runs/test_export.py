"""Downloads and imports on the pages, and runs of an experiment that is in no registry on every page."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.compare import session_state
from app.report.document import of_frame
from app.run.header import run_report
from app.runs.import_dialog import _import
from engine.analysis.run_values import field_in_words
from engine.filter import Names, read_filter
from engine.home import ROOT, Home
from engine.metrics import METRICS, metric
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.records import Status
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from engine.transfer.tables import runs_table
from tests.app.reading import give_name, html, opened, said
from tests.app.test_pages import SECTIONS
from tests.labs import basic
from tests.transfer.bundles.bundle_files import changed
from tests.transfer.readers import events
from tests.transfer.readers.test_other_programs import mlruns
from tests.waiting import PATIENCE_S


@pytest.fixture
def imported(home: Home, tmp_path: Path) -> tuple[int, int]:
    """Import a run of TensorBoard and one of MLflow."""
    with Store.open(home) as store:
        (first,) = import_path(store, events.write(tmp_path / "events.out.tfevents.1"), by="Lin").ids
        (second,) = import_path(store, mlruns(tmp_path), by="Lin").ids
    return first, second


def labels(test: AppTest, kind: str = "download_button") -> list[str]:
    return [element.proto.label for element in test.get(kind)]


def test_a_run_that_ended_and_the_results_offer_what_they_hold_as_files(home: Home, lab: dict[Status, int]) -> None:
    assert labels(opened("run", {"run": str(lab["finished"])})) == [
        "Report (HTML)",
        *["CSV", "JSON", "Parquet"] * 2,
        "Bundle",
    ]
    assert "Bundle" not in labels(opened("run", {"run": str(lab["running"])}))
    test = opened("runs")
    assert labels(test) == ["Report (HTML)", *["CSV", "JSON", "Parquet"] * 2, "Bundle of 4 runs"]
    assert "Import" in [button.label for button in test.button]


def test_the_rows_of_runs_have_one_mean_staleness_which_is_of_all_gradients(
    store: Store, lab: dict[Status, int]
) -> None:
    points = [Point(f"perf/staleness{which}", 9, 2.0, 9.0) for which in ("", "_mean", "_p99")]
    store.worker.write(lab["running"], [RankBatch(0, points)])
    columns = runs_table(store.read, store.read.runs.some([lab["running"]])).columns
    assert [name for name in columns if "staleness" in name and "mean" in name] == ["perf/staleness.mean (updates)"]
    assert not [name for name in columns if name.startswith(("perf/staleness_mean", "perf/staleness_p99"))]
    assert metric("perf/staleness_mean").label != "Mean staleness", "that of the page is of all gradients"


def test_the_document_that_downloads_lead_to_explains_every_metric(home: Home, lab: dict[Status, int]) -> None:
    path = ROOT / "docs" / "compare.md"
    text = path.read_text()
    written = re.findall(r"^\| `\w+/\w+` \|.*\n", text, re.M)
    rows = [f"| `{each.name}` | {each.heading} | {each.help} |\n" for each in METRICS.values()]
    if os.environ.get("PARALLAB_WRITE_DOCS"):
        path.write_text(text.replace("".join(written), "".join(rows)))
    assert written == rows, "PARALLAB_WRITE_DOCS=1 pytest tests/app/runs/test_export.py writes them"
    assert "/docs?page=compare#a-row-per-run" in html(opened("runs"))


@pytest.mark.parametrize("page", ["runs", "launch", "machine"])
def test_every_page_bears_imported_runs(home: Home, imported: tuple[int, int], page: str) -> None:
    test = opened(page)
    assert not test.exception and not test.error


def test_an_imported_runs_parameters_are_as_recorded_and_have_no_defaults(home: Home, tmp_path: Path) -> None:
    folder = mlruns(tmp_path)
    for name, value in {"Lr": "0.1", "weights": "None", "batch size": "8"}.items():
        (folder / "42" / "0a1b2c" / "params" / name).write_text(value)
    with Store.open(home) as store:
        (run_id,) = import_path(store, folder, by="Lin").ids
    config = opened("run", {"run": str(run_id), "section": "Config"})
    for name, value in (("Lr", "0.1"), ("weights", "None"), ("batch size", "8"), ("learning_rate", "0.1")):
        assert re.search(rf">{name}</t[dh]>\s*<td[^>]*>{value}<", html(config)), (name, html(config))
    assert "automatic" not in html(config) + said(config) and "default" not in html(config) + said(config)
    differences = html(opened("compare", {"runs": str(run_id), "tab": "differences", "same": "1"}))
    assert all(f">{name}<" in differences for name in ("Lr", "weights", "batch size"))
    options = opened("compare", {"runs": str(run_id)}).multiselect(key=f"{session_state._WIDGETS}group").options
    assert {"Lr", "weights", "batch size", "Learning rate · learning_rate"} <= {*options}
    assert [field_in_words(name, value) for name, value in (("Lr", 0.1), ("batch size", 8), ("Acc (%)", 5))] == [
        "Lr 0.1",
        "batch size 8",
        "Acc (%) 5",
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_of_an_imported_run_opens(home: Home, imported: tuple[int, int], section: str) -> None:
    for run_id in imported:
        test = opened("run", {"run": str(run_id), "section": section})
        assert not test.exception and not test.error
        assert test.title[0].value.startswith(f"Run {run_id}")


def test_a_run_of_another_program_offers_nothing_that_launches_it_again(
    home: Home, tmp_path: Path, store: Store
) -> None:
    (run_id,) = import_path(store, mlruns(tmp_path, status="4"), by="Lin").ids
    test = opened("run", {"run": str(run_id)})
    assert not test.exception
    assert not {"Clone", "Retry", "Resume"} & {button.label for button in test.button}


@pytest.mark.processes
def test_an_upload_comes_in_by_its_own_name_and_a_broken_one_is_a_sentence(
    home: Home, tmp_path: Path, reader: Reader
) -> None:
    arrived = _import("../../events.out.tfevents.1", io.BytesIO(events.write(tmp_path / "a.tfevents").read_bytes()))
    assert arrived and (origin := reader.origins.of(arrived.ids[0])) and origin.file == "events.out.tfevents.1"
    test = AppTest.from_function(_import_nonsense, default_timeout=PATIENCE_S).run()
    assert not test.exception
    assert "not a zip file" in said(test)


def _import_nonsense() -> None:
    import io

    from app.runs.import_dialog import _import

    _import("runs.zip", io.BytesIO(b"PK nonsense"))


def test_the_import_dialog_opens_in_any_lab(
    home: Home, lab: dict[Status, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "Ada")
    after = next(button for button in opened("runs").button if button.label == "Import").click().run()
    assert labels(after, "file_uploader") == ["File"]
    test = opened("runs")
    after = next(button for button in test.button if button.label == "Import").click().run()
    assert not after.exception
    assert labels(after, "file_uploader") == ["File"]


def test_the_import_leads_to_the_runs_that_it_brought(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def script() -> None:
        from app.runs.import_dialog import _show_result
        from engine.transfer.bundles.bundle import ImportResult

        _show_result(ImportResult((1, 2)))

    asked: dict[str, str] = {}
    monkeypatch.setattr("streamlit.switch_page", lambda page, query_params: asked.update(query_params))
    test = AppTest.from_function(script, default_timeout=PATIENCE_S).run()
    next(button for button in test.button if button.label == "Show results").click().run()
    assert asked == {"filter": "id in (1, 2)"}
    read_filter(asked["filter"], Names.usual())


def test_an_import_of_runs_that_are_here_is_information_with_their_links(home: Home) -> None:
    def script() -> None:
        from app.runs.import_dialog import _show_result
        from engine.transfer.bundles.bundle import ImportResult

        _show_result(ImportResult((), {"a": 4, "b": 5}))

    test = AppTest.from_function(script, default_timeout=PATIENCE_S).run()
    assert [each.value.replace("\\", "") for each in test.info] == ["Nothing new: all 2 runs are already here."]
    assert not test.error and not test.success and "run=5" in html(test)


def test_a_frame_becomes_a_table_of_plain_values() -> None:
    values: dict[str, Any] = {
        "run": [1, 2],
        "loss": [0.5, float("nan")],
        "tags": [["a"], []],
        "at": pd.to_datetime(["2026-01-01", None], utc=True),
    }
    table = of_frame(pd.DataFrame(values))
    assert table.columns == ("run", "loss", "tags", "at")
    assert [type(cell).__name__ for cell in table.rows[0]] == ["int", "float", "list", "datetime"]
    assert list(table.rows[1]) == [2, None, [], None]


@pytest.fixture
def strange(home: Home, tmp_path: Path) -> tuple[int, ...]:
    """Import a pipeline's run without any settings, and one with settings that make no sense."""
    theirs = Home(tmp_path / "theirs").create()
    with Store.open(theirs) as store, Reader.open(theirs) as reader:
        ids = [basic.pipeline_run(store, shares=(0.5, 0.5), splits=4) for _ in range(2)]
        write_bundle(reader, ids, tmp_path / "runs.zip", by="Ada")

    def change(held: dict[str, bytes]) -> None:
        columns = json.loads(held["parallab.json"])["tables"]["runs"]["columns"]
        rows = [json.loads(line) for line in held["runs.jsonl"].splitlines()]
        for row, config in zip(
            rows, ({}, {"splits": -5, "stages": 10**9, "mode": "zigzag", "gone": {"x": [1]}}), strict=True
        ):
            row[columns.index("config")] = json.dumps(config)
            row[columns.index("environment")] = '{"packages": 3, "gpus": {"a": null}, "host": ["h"]}'
        held["runs.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    with Store.open(home) as store:
        return import_path(store, changed(tmp_path / "runs.zip", change), by="Lin").ids


@pytest.mark.parametrize("section", ["Ranks", "Pipeline", "Config", "Environment"])
def test_a_run_without_sound_settings_is_shown(strange: tuple[int, ...], section: str) -> None:
    for run_id in strange:
        test = opened("run", {"run": str(run_id), "section": section})
        assert not test.exception, test.exception[0].message


def test_lists_bear_them_too(strange: tuple[int, ...]) -> None:
    test = opened("runs")
    assert not test.exception and not test.error


def test_they_have_reports(strange: tuple[int, ...], lab: dict[Status, int]) -> None:
    assert all(run_report(run_id, "Lin") for run_id in strange)
