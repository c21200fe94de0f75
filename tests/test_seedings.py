"""Runs that draw random numbers by different rules stand apart, or it is said, wherever several runs are
put together.
"""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from app.compare.groups import groups_of
from app.compare.selection import names_of
from app.run.summary_html import facts_of
from app.runs.rows import differing, run_rows
from engine.analysis.comparability import mixture
from engine.analysis.scaling.scaling_data import study
from engine.duel.outcome import outcome
from engine.errors import ConfigError
from engine.filter import read_filter
from engine.home import Home
from engine.published import comparison, figure
from engine.store import Reader, Store
from engine.store.records import RunRow
from engine.sweep.extend import extend_sweep
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.app.reading import opened, said
from tests.labs import compare, duel, figures


def drew_by_1(home: Home, *run_ids: int) -> None:
    """Make runs ones of an older version."""
    with Store.open(home) as store, store.db.change() as connection:
        connection.executemany("UPDATE runs SET seeding = 1 WHERE id = ?", [[run_id] for run_id in run_ids])


@pytest.fixture
def mixed(home: Home) -> list[RunRow]:
    """Return three runs that differ in the seed, the first of them by rule 1."""
    with Store.open(home) as store:
        ids = [compare.add(store, steps=5, seed=seed) for seed in range(3)]
    drew_by_1(home, ids[0])
    with Reader.open(home) as reader:
        return reader.runs.some(ids)


def test_settings_with_the_most_values_come_first_among_those_that_differ(home: Home) -> None:
    with Store.open(home) as store:
        ids = [
            compare.add(store, steps=5, trainers=trainers, batch_size=32, learning_rate=rate)
            for trainers, rate in ((2, 0.1), (2, 0.2), (4, 0.3))
        ]
    with Reader.open(home) as reader:
        found = differing(run_rows(reader.runs.some(ids)))
    assert found == [
        "learning rate 0.1, trainers 2",
        "learning rate 0.2, trainers 2",
        "learning rate 0.3, trainers 4",
    ]


def test_a_mixture_of_rules_is_named_wherever_runs_are_put_together(mixed: list[RunRow], home: Home) -> None:
    assert "(seeding 1: run 1; seeding 2: runs 2, 3)" in mixture(mixed)
    assert mixture(mixed[1:]) == mixture(()) == ""
    assert [(group.name, [run.id for run in group.runs]) for group in groups_of(mixed, ["trainers"])] == [
        ("trainers 2, seeding 1", [1]),
        ("trainers 2, seeding 2", [2, 3]),
    ]
    assert [group.name for group in groups_of(mixed[1:], ["trainers"])] == ["trainers 2"]
    assert "seeding 1" in names_of(mixed)[1]
    assert differing(run_rows(mixed)) == ["seeding 1", "seeding 2", "seeding 2"]
    assert differing(run_rows(mixed[1:])) == ["", ""]
    with Reader.open(home) as reader:
        assert [run.id for run in reader.runs.find(matching=read_filter("seeding == 1"))] == [1]
    with Reader.open(home) as reader:
        assert "rule 1 (this version: 2)" in facts_of(reader.runs.one(mixed[0].id))
        assert "Seeding" not in facts_of(reader.runs.one(mixed[1].id))
    assert [each for each in study(mixed, {}, "trainers").obstacles if "seeding 1: run 1" in each]


def test_a_duel_judges_by_runs_of_one_rule(home: Home) -> None:
    found = duel.whole(home, "hogwild", "parameter_server", seeds=6)
    run = found.of("judging", 0)[0].run
    assert run
    drew_by_1(home, run.id)
    told = outcome(duel.gathered(home, found.stored.id))
    assert [len(each.by_seed) for each in told.found] == [5]
    assert f"Evaluation runs {run.id} use an older seeding rule than the others and are excluded." in " ".join(
        told.cautions
    )


def test_a_figure_of_a_mixture_is_not_comparable_and_its_sweep_is_not_extended(home: Home) -> None:
    sweep_id, runs = figures.pipeline(home, lambda splits: 10.0 / splits)
    drew_by_1(home, runs[0].id)
    with Reader.open(home) as reader:
        ours = comparison.compare(reader, figure("pipeline_as_run"), reader.sweeps.one(sweep_id))
    assert {value.result for value in ours.values} == {"not comparable"} and ours.values[0].reason == ours.obstacles[0]
    assert any(
        f"seeding 1: run {runs[0].id}" in each and each.endswith("Launch the figure again.") for each in ours.obstacles
    )
    with pytest.raises(
        ConfigError,
        match=r"its runs use seeding rule 1, and new runs use rule 2\. Launch a new sweep",
    ):
        extend_sweep(home, sweep_id, {}, seeds=1, owner="Ada")
    page = opened("sweep", {"sweep": str(sweep_id)})
    assert not page.exception
    assert f"seeding 1: run {runs[0].id}" in said(page)


def test_a_bundle_carries_the_rule_and_one_that_names_none_is_of_rule_1(
    home: Home, mixed: list[RunRow], tmp_path: Path
) -> None:
    bundle, older = tmp_path / "runs.zip", tmp_path / "older.zip"
    with Reader.open(home) as reader:
        write_bundle(reader, [1, 2], bundle, by="Ada")
    with zipfile.ZipFile(bundle) as file:
        held = {name: file.read(name) for name in file.namelist()}
    about = json.loads(held["parallab.json"])
    place = about["tables"]["runs"]["columns"].index("seeding")
    del about["tables"]["runs"]["columns"][place]
    rows = [json.loads(line) for line in held["runs.jsonl"].splitlines()]
    held["runs.jsonl"] = b"".join(json.dumps([*row[:place], *row[place + 1 :]]).encode() + b"\n" for row in rows)
    about["tables"]["runs"]["sha256"] = hashlib.sha256(held["runs.jsonl"]).hexdigest()
    held["parallab.json"] = json.dumps(about).encode()
    with zipfile.ZipFile(older, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)
    for path, rules in ((bundle, [1, 2]), (older, [1, 1])):
        with Store.open(Home(tmp_path / path.stem)) as other:
            assert [other.read.runs.one(run_id).seeding for run_id in import_path(other, path, by="Lin").ids] == rules
