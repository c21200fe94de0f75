"""Imported runs whose settings fit no experiment of ours: every page bears them."""

import json
from pathlib import Path

import pytest

from app.run_report import run_report
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Status
from engine.transfer.bundle import write_bundle
from engine.transfer.incoming import import_path
from tests.app import labs
from tests.app.test_pages import opened
from tests.transfer.test_bundles import changed


@pytest.fixture
def strange(home: Home, tmp_path: Path) -> tuple[int, ...]:
    """Import a pipeline's run without any settings, and one with settings that make no sense."""
    theirs = Home(tmp_path / "theirs").create()
    with Store.open(theirs) as store, Reader.open(theirs) as reader:
        ids = [labs.pipeline_run(store, shares=(0.5, 0.5), splits=4) for _ in range(2)]
        write_bundle(reader, ids, tmp_path / "runs.zip", by="Ada")

    def change(held: dict[str, bytes]) -> None:
        columns = json.loads(held["parallab.json"])["tables"]["runs"]["columns"]
        rows = [json.loads(line) for line in held["runs.jsonl"].splitlines()]
        for row, config in zip(rows, ({}, {"splits": -5, "stages": 10**9, "mode": "zigzag", "gone": {"x": [1]}}), strict=True):
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


@pytest.mark.parametrize("page", ["runs", "results"])
def test_lists_bear_them_too(strange: tuple[int, ...], page: str) -> None:
    test = opened(page)
    assert not test.exception and not test.error


def test_they_have_reports(strange: tuple[int, ...], lab: dict[Status, int]) -> None:
    assert all(run_report(run_id, "Lin") for run_id in strange)
