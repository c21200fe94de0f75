"""Downloads and imports on the pages, and runs of an experiment that is in no registry on every page."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.frames import of_frame
from app.importing import _take_in
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Status
from engine.transfer.incoming import import_path
from tests.app.test_pages import SECTIONS, opened, said
from tests.transfer import events
from tests.transfer.test_other_programs import mlruns


@pytest.fixture
def imported(home: Home, tmp_path: Path) -> tuple[int, int]:
    """Import a run of TensorBoard and one of MLflow."""
    with Store.open(home) as store:
        (first,) = import_path(store, events.write(tmp_path / "events.out.tfevents.1"), by="Lin").ids
        (second,) = import_path(store, mlruns(tmp_path), by="Lin").ids
    return first, second


def labels(test: AppTest, kind: str = "download_button") -> list[str]:
    return [element.proto.label for element in test.get(kind)]


def test_a_run_that_ended_offers_a_report_its_tables_and_a_bundle(home: Home, lab: dict[Status, int]) -> None:
    assert labels(opened("run", {"run": str(lab["finished"])})) == ["Report (HTML)", *["CSV", "JSON", "Parquet"] * 2, "Bundle"]
    assert "Bundle" not in labels(opened("run", {"run": str(lab["running"])}))


def test_the_results_table_can_be_saved_and_runs_imported(home: Home, lab: dict[Status, int]) -> None:
    test = opened("results")
    assert labels(test) == ["Report (HTML)", "CSV", "JSON", "Parquet", "Bundle of 4 runs"]
    assert "Import" in [button.label for button in test.button]


@pytest.mark.parametrize("page", ["runs", "results", "launch", "machine"])
def test_every_page_bears_imported_runs(home: Home, imported: tuple[int, int], page: str) -> None:
    test = opened(page)
    assert not test.exception and not test.error


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_of_an_imported_run_opens(home: Home, imported: tuple[int, int], section: str) -> None:
    for run_id in imported:
        test = opened("run", {"run": str(run_id), "section": section})
        assert not test.exception and not test.error
        assert test.title[0].value.startswith(f"Run {run_id}")


def test_an_imported_run_that_failed_is_neither_resumed_nor_cloned_with_an_error(home: Home, tmp_path: Path) -> None:
    with Store.open(home) as store:
        (run_id,) = import_path(store, mlruns(tmp_path, status="4"), by="Lin").ids
    test = opened("run", {"run": str(run_id)})
    assert not test.exception
    for label in ("Clone", "Retry"):
        for button in [each for each in test.button if each.label == label]:
            after = button.click().run()
            assert not after.exception


def test_an_upload_comes_in_by_its_own_name(home: Home, tmp_path: Path) -> None:
    arrived = _take_in("../../events.out.tfevents.1", io.BytesIO(events.write(tmp_path / "a.tfevents").read_bytes()))
    with Reader.open(home) as reader:
        assert arrived and (origin := reader.origin(arrived.ids[0])) and origin.file == "events.out.tfevents.1"


def _import_nonsense() -> None:
    import io

    from app.importing import _take_in

    _take_in("runs.zip", io.BytesIO(b"PK nonsense"))


def test_a_broken_upload_is_a_sentence(home: Home) -> None:
    test = AppTest.from_function(_import_nonsense, default_timeout=120).run()
    assert not test.exception
    assert "no zip file" in said(test).replace("\\", "")


def test_the_button_opens_the_dialog(home: Home, lab: dict[Status, int]) -> None:
    test = opened("results")
    after = next(button for button in test.button if button.label == "Import").click().run()
    assert not after.exception
    assert labels(after, "file_uploader") == ["File"]


def test_the_dialog_opens_in_an_empty_lab_too(home: Home) -> None:
    after = next(button for button in opened("results").button if button.label == "Import").click().run()
    assert labels(after, "file_uploader") == ["File"]


def test_a_frame_becomes_a_table_of_plain_values() -> None:
    values: dict[str, Any] = {"run": [1, 2], "loss": [0.5, float("nan")], "tags": [["a"], []], "at": pd.to_datetime(["2026-01-01", None], utc=True)}
    table = of_frame(pd.DataFrame(values))
    assert table.columns == ("run", "loss", "tags", "at")
    assert [type(cell).__name__ for cell in table.rows[0]] == ["int", "float", "list", "datetime"]
    assert list(table.rows[1]) == [2, None, [], None]
