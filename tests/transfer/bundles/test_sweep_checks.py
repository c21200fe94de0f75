"""Sweeps travel with their runs: the same plan and the same results in the other lab, and nothing of a broken one."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ImportRefused
from engine.home import Home
from engine.published import figure
from engine.published.comparison import FigureComparison, compare, sweeps_of
from engine.store import Reader, Store
from engine.store.maintenance import integrity
from engine.store.records import BAD_ENDS
from engine.store.sweeps.sweeps import Sweep
from engine.sweep.extend import extend_sweep
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.labs import figures
from tests.labs import sweeps as sweep_labs
from tests.transfer.bundles.bundle_files import Change, changed, counts, manifest, row, text

FIGURE, RUNS = "pipeline_as_run", 20


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Give a lab with the sweep of a figure whose last run failed."""
    home = Home(tmp_path_factory.mktemp("theirs") / "home").create()
    _, runs = figures.figure_sweep(home, FIGURE)
    assert len(runs) == RUNS
    for run in runs:
        figures.end(
            home, run, run.config["splits"] / 10 + run.config["seed"] / 100, "failed" if run.id == RUNS else "finished"
        )
    return home


@pytest.fixture(scope="module")
def whole(theirs: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a bundle of all its runs."""
    return exported(theirs, range(1, RUNS + 1), tmp_path_factory.mktemp("bundle") / "runs.zip")


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "runs.zip"
    path.write_bytes(whole.read_bytes())
    return path


def exported(home: Home, run_ids: Any, path: Path) -> Path:
    with Reader.open(home) as reader:
        write_bundle(reader, list(run_ids), path, by="Ada")
    return path


def compared(home: Home) -> FigureComparison:
    with Reader.open(home) as reader:
        found = figure(FIGURE)
        (sweep,) = sweeps_of(reader, found)
        return compare(reader, found, sweep)


def planned(sweep: Sweep) -> list[Any]:
    names = (
        "experiment",
        "name",
        "owner",
        "grid",
        "created_at",
        "exclusive",
        "stop_after",
        "draw",
        "timing",
        "figure",
        "statuses",
    )
    return [getattr(sweep, name) for name in names]


def sweeps(home: Home) -> list[Sweep]:
    with Reader.open(home) as reader:
        return reader.sweeps.recent()


def test_a_figure_has_the_same_results_in_the_other_lab(theirs: Home, bundle: Path, home: Home) -> None:
    sweep_labs.pipeline(home, {"splits": [1, 2]})
    with Store.open(home) as store:
        arrived = import_path(store, bundle, by="Lin")
    assert (arrived.sweeps, len(arrived.ids)) == ((2,), RUNS)
    assert arrived.sentence.endswith("Part of sweep 2 here.")
    here, there = compared(home), compared(theirs)
    assert (here.values, here.size) == (there.values, there.size)
    assert (here.missing, here.obstacles) == (there.missing, there.obstacles)
    assert here.finished and here.missing, "it has runs, and one that failed"
    assert planned(here.sweep) == planned(there.sweep) and here.sweep.is_imported


def test_runs_that_come_later_join_their_sweep_and_a_third_lab_knows_it(
    theirs: Home, home: Home, tmp_path: Path
) -> None:
    with Store.open(home) as store:
        import_path(store, exported(theirs, range(1, 5), tmp_path / "first.zip"), by="Lin")
        import_path(store, exported(theirs, range(1, RUNS + 1), tmp_path / "all.zip"), by="Lin")
        assert not integrity.damage(store) + integrity.strangers(store)
    assert [sweep.total for sweep in sweeps(home)] == [RUNS]
    assert compared(home).values == compared(theirs).values
    third = Home(tmp_path / "third").create()
    with Store.open(third) as store:
        import_path(store, exported(theirs, [RUNS], tmp_path / "last.zip"), by="Ken")
        import_path(store, exported(home, range(1, RUNS), tmp_path / "again.zip"), by="Ken")
    assert [sweep.total for sweep in sweeps(third)] == [RUNS], "over two stores it is the same sweep"


def test_a_sweep_that_was_extended_elsewhere_comes_home(home: Home, tmp_path: Path) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweep_labs.drive(home, run, "lost" if run.id == 2 else "finished")
    other = Home(tmp_path / "other").create()
    with Store.open(other) as store:
        import_path(store, exported(home, [1, 2], tmp_path / "out.zip"), by="Lin")
        again = list(store.sweeps.retry(sweep_id, by="Lin", statuses=BAD_ENDS).values())
    new = [*again, *extend_sweep(other, sweep_id, {"splits": [4]}, owner="Lin")]
    with Reader.open(other) as reader:
        added = [run for run in reader.sweeps.runs(sweep_id) if run.id in new]
    for run in added:
        sweep_labs.drive(other, run)
    with Store.open(home) as store:
        arrived = import_path(store, exported(other, [1, 2, *new], tmp_path / "back.zip"), by="Ada")
    assert (arrived.known, arrived.sweeps) == ({"1": 1, "2": 2}, (sweep_id,))
    (sweep,) = sweeps(home)
    assert (sweep.grid["splits"], sweep.total, sweep.is_imported) == ((1, 2, 4), 4, False)


def as_version_1(held: dict[str, bytes]) -> None:
    """Make of a bundle what was written before sweeps travelled: without them, and with whose baseline each run was."""
    about = json.loads(held["parallab.json"])
    del about["tables"]["sweeps"], held["sweeps.jsonl"]
    columns = about["tables"]["runs"]["columns"]
    place = columns.index("sweep_id")
    rows = [json.loads(line) for line in held["runs.jsonl"].splitlines()]
    held["runs.jsonl"] = b"".join(
        json.dumps([*each[:place], *each[place + 1 :], "Ada"]).encode() + b"\n" for each in rows
    )
    about["tables"]["runs"]["columns"] = [*columns[:place], *columns[place + 1 :], "pinned_by"]
    held["parallab.json"] = json.dumps({**about, "version": 1}).encode()


def test_a_bundle_of_before_comes_in_without_its_sweep(bundle: Path, home: Home) -> None:
    with Store.open(home) as store:
        assert len(import_path(store, changed(bundle, as_version_1), by="Lin").ids) == RUNS
    assert not sweeps(home)


def test_a_baseline_elsewhere_is_none_here(theirs: Home, home: Home, tmp_path: Path) -> None:
    with Store.open(theirs) as store:
        store.annotations.pin(1, by="Ada")
    with Store.open(home) as store:
        import_path(store, exported(theirs, [1], tmp_path / "one.zip"), by="Lin")
        store.annotations.pin(1, by="Lin")
        import_path(store, exported(theirs, [1, 2], tmp_path / "two.zip"), by="Lin")
    with Reader.open(home) as reader:
        assert {name: run.id for name, run in reader.runs.pinned().items()} == {"pipeline": 1}


def grid(**values: Any) -> Change:
    """Return the change of a sweep's grid; a field that is given None goes."""

    def change(held: dict[str, bytes]) -> None:
        place = json.loads(held["parallab.json"])["tables"]["sweeps"]["columns"].index("grid")
        found = {**json.loads(json.loads(held["sweeps.jsonl"])[place]), **values}
        row("sweeps", "grid", json.dumps({name: each for name, each in found.items() if each is not None}))(held)

    return change


def twice(held: dict[str, bytes]) -> None:
    held["sweeps.jsonl"] *= 2
    about = json.loads(held["parallab.json"])
    about["tables"]["sweeps"]["rows"] = 2
    held["parallab.json"] = json.dumps(about).encode()


def config(**values: Any) -> Change:
    """Return the change of the first run's config; a setting that is given None goes."""

    def change(held: dict[str, bytes]) -> None:
        place = json.loads(held["parallab.json"])["tables"]["runs"]["columns"].index("config")
        found = {**json.loads(json.loads(held["runs.jsonl"].splitlines()[0])[place]), **values}
        row("runs", "config", json.dumps({name: each for name, each in found.items() if each is not None}))(held)

    return change


REFUSED: list[tuple[str, Change, str]] = [
    ("missing", lambda held: held.pop("sweeps.jsonl") and None, "member 'sweeps.jsonl' is missing"),
    ("sweeps in version 1", manifest(version=1), "unknown table 'sweeps'"),
    ("not the one", row("runs", "sweep_id", 77), "its sweep is not in the bundle"),
    ("twice", twice, "duplicate sweep"),
    ("no id", row("sweeps", "id", "1"), "the id is not a positive integer"),
    ("no owner", row("sweeps", "owner", ""), "owner is empty"),
    ("no time", row("sweeps", "created_at", "soon"), "created_at is not a time"),
    ("no fingerprint", row("sweeps", "fingerprint", "abc"), "the fingerprint is invalid"),
    ("other experiment", row("sweeps", "experiment", "dppo"), "its experiment differs from its sweep's"),
    ("unknown experiment", row("sweeps", "experiment", "strange"), "its experiment differs from its sweep's"),
    ("figure that leads out", row("sweeps", "figure", "../x/full"), "figure is not a name and size"),
    ("stop after nothing", row("sweeps", "stop_after", 0), "stop_after is invalid"),
    ("exclusive word", row("sweeps", "exclusive", "yes"), "exclusive or stop_after"),
    *(
        (f"timing {text}", row("sweeps", "timing", text), "timing is not a JSON object")
        for text in (
            "{",
            "[]",
            '{"within": "x", "most": 9}',
            '{"within": 0, "most": 9}',
            '{"most": 2}',
            '{"a": 1}',
            None,
        )
    ),
    *(
        (f"equal work {text}", row("sweeps", "equal_work", text), "equal_work is not a JSON object")
        for text in ("{", "[]", '{"batches": 2}', '{"splits": 1}', '{"splits": 1, "batches": [2]}', None)
    ),
    ("grid no object", row("sweeps", "grid", "[1]"), "grid is not a JSON object"),
    ("infinite", row("sweeps", "grid", '{"splits": [1e999], "seed": [0]}'), "plain values per field"),
    ("no seeds", grid(seed=None), "are not integers"),
    ("words as seeds", grid(seed=["0"]), "are not integers"),
    ("empty field", grid(splits=[]), "plain values per field"),
    ("lists as values", grid(splits=[[1]]), "plain values per field"),
    ("words as splits", grid(splits=["many"]), "a value of 'splits' has the wrong type for pipeline"),
    ("many fields", grid(a=[1], b=[1]), "has 3 fields"),
    ("many runs", grid(splits=list(range(1, 500))), "more than 500 runs"),
    ("draw of nonsense", row("sweeps", "draw", "{"), "its draw is not a JSON object"),
    (
        "draw of a figure",
        row("sweeps", "draw", '{"count": 2, "seed": 0, "over": {"splits": "1..4"}}'),
        "doesn't match its grid",
    ),
    ("run without the field", config(splits=None), "its config has no plain value of 'splits'"),
    ("run without a seed", config(seed=None), "its config has no plain value of 'seed'"),
    ("newer", text("sweeps.jsonl", b"[]\n"), "the row is not a list of 13 values"),
]


@pytest.mark.parametrize(("change", "sentence"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_a_sweep_that_makes_no_sense_is_refused_with_its_runs(
    bundle: Path, home: Home, change: Change, sentence: str
) -> None:
    with Store.open(home) as store:
        before = counts(store)
        with pytest.raises(ImportRefused) as refused:
            import_path(store, changed(bundle, change), by="Lin")
        assert sentence in str(refused.value)
        assert counts(store) == before
    assert not list(home.path.glob("runs/*"))


def test_a_plan_that_was_changed_under_a_known_fingerprint_is_refused(
    theirs: Home, bundle: Path, home: Home, tmp_path: Path
) -> None:
    with Store.open(home) as store:
        import_path(store, exported(theirs, [1], tmp_path / "one.zip"), by="Lin")
        before = counts(store)
        with pytest.raises(
            ImportRefused, match=r"Sweep 1 of the file has the fingerprint of sweep 1 here but a different plan"
        ):
            import_path(store, changed(bundle, grid(mode=["gpipe"])), by="Lin")
        assert counts(store) == before
