"""What people write is kept and shown as text: it is no SQL in the store, no formula in a spreadsheet, no markup in a
report.
"""

import csv
import io
from contextlib import suppress
from html.parser import HTMLParser

import pytest

from app.run.header import run_report, settings_of
from engine.errors import EngineError
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, RankRow, Reader, Store
from engine.transfer.tables import FORMULA, as_csv, points_table, runs_table
from tests.cli.conftest import Parallab, parallab  # noqa: F401
from tests.stand_in import worker

SQL = (
    "'",
    '"',
    "';--",
    "' OR '1'='1",
    "'); DROP TABLE runs; --",
    '"; DELETE FROM people; --',
    "x' UNION SELECT key FROM tokens --",
    "%",
    "_",
    "\ud800",
    "\U0001d4b3'",
)
FORMULAS = ("=1+1", "+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", "\uff1d1")
MARKUP = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "</title><svg onload=alert(1)>",
    "]]>",
)
SIZE = Demand(1, 0, 1, 1)


def rows(store: Store) -> dict[str, int]:
    tables = [
        row[0]
        for row in store.db.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    return {table: store.db.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables if table != "audit"}


@pytest.mark.parametrize("text", SQL, ids=ascii)
def test_no_text_is_carried_out_by_the_store(home: Home, text: str) -> None:
    storable = text.encode("utf-8", "backslashreplace").decode()
    with Store.open(home) as store, Reader.open(home) as reader:
        store.people.add("ada", "admin", by="root")
        first = store.runs.add(Launch("hogwild", {"seed": 1, "note": storable}, "ada", name=storable, demand=SIZE))
        before = rows(store)
        store.annotations.tag([first], text[:40], by="ada")
        store.annotations.set_note(first, text, by="ada")
        store.annotations.rename(first, text, by="ada")
        store.views.save(storable, "compare", f"filter={storable}", owner="ada")
        assert rows(store) == {
            **before,
            "tags": before["tags"] + 1,
            "notes": before["notes"] + 1,
            "events": before["events"] + 3,
            "views": before["views"] + 1,
        }
        now, run = rows(store), reader.runs.one(first)
        assert (run.name, run.note, run.tags) == (storable.strip(), storable.strip(), (storable.strip(),))
        for ask in (
            lambda: reader.runs.find(search=text),
            lambda: reader.runs.find(owner=storable),
            lambda: reader.runs.find(experiment=storable),
            lambda: reader.runs.find(matching=reader.fields.filter(text)),
            lambda: reader.runs.find(order=reader.fields.order(text)),
            lambda: reader.runs.find(matching=reader.fields.filter(f'owner == "{text}"')),
            lambda: reader.audit.entries(who=storable, command=storable, since=storable),
            lambda: reader.curves.series(first, [storable]),
            lambda: reader.quotas.held(storable),
            lambda: store.access.permit("restore", by=storable),
            lambda: store.runs.add(Launch(storable, {}, storable, demand=SIZE)),
            lambda: store.people.set_role(storable, "admin", by="ada"),
            lambda: store.people.enable(text, by="ada"),
            lambda: store.people.enable("ada", by=text),
        ):
            with suppress(EngineError):
                ask()
        assert rows(store) == now
        assert store.read.access.standing("ada").role == "admin" and not store.db.rows("PRAGMA foreign_key_check")


def formula_lab(home: Home) -> int:
    """Return a run in which everything that a person or a program can name begins like a formula."""
    with Store.open(home) as store:
        run_id = store.runs.add(
            Launch("=2+3", dict(zip(FORMULAS, FORMULAS, strict=True)), "=1+2", "+1", "@SUM(1)", demand=SIZE)
        )
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), {"=host": "=host", "packages": {"=p": "-1+1"}})
        store.worker.add_ranks(run_id, [RankRow(0, "=role", None, "=cpu", "running", None, None, None)])
        store.worker.mark_running(run_id, 0.1)
        points = [Point(name, step, float(-step), 0.1 * step) for name in ("=metric", "-1", "@x") for step in (1, 2)]
        store.worker.write(run_id, [RankBatch(0, points, phases={"=wait": 1.0})])
        store.claims.end(run_id, "failed", "=HYPERLINK(1)", error="+1", execution_time_s=1.0)
        for tag in FORMULAS:
            if tag.strip() == tag:
                store.annotations.tag([run_id], tag, by="=1+2")
        store.annotations.set_note(run_id, "=1+1", by="=1+2")
    return run_id


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_no_cell_of_any_table_begins_like_a_formula(home: Home, parallab: Parallab, reader: Reader) -> None:  # noqa: F811
    run_id = formula_lab(home)
    tables = [
        points_table(reader, [run_id]),
        settings_of(reader.runs.one(run_id)),
        runs_table(reader, [reader.runs.entry(run_id)], {run_id: {"=strategy": "=1+1"}}),
    ]
    made = [as_csv(table).decode("utf-8-sig") for table in tables]
    path = home.path.parent / "points.csv"
    parallab("export", str(run_id), "--format", "csv", "--out", str(path))
    made += [path.read_text("utf-8-sig"), parallab("export", str(run_id), "--format", "csv").stdout]
    for text in made:
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert any("metric" in cell or "SUM" in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(FORMULA) and not is_number(cell)]


class Elements(HTMLParser):
    """What a browser would make of a page: the names of its elements, and the attributes that act."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.acting: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.acting += [
            name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")
        ]


def elements(page: str) -> Elements:
    read = Elements()
    read.feed(page)
    return read


def test_the_report_of_a_run_holds_no_element_that_a_person_wrote(home: Home) -> None:
    def made(texts: tuple[str, ...]) -> Elements:
        with Store.open(home) as store:
            run_id = store.runs.add(
                Launch("hogwild", {"seed": 1, "dataset": texts[0]}, texts[1], name=texts[2], demand=SIZE)
            )
            store.claims.claim(run_id, worker(), [])
            store.worker.begin(
                run_id, worker(), {"host": texts[3], "git_commit": texts[4], "packages": {texts[0]: texts[1]}}
            )
            store.worker.add_ranks(run_id, [RankRow(0, texts[5], None, texts[0], "running", None, None, None)])
            store.worker.mark_running(run_id, 0.1)
            store.worker.write(
                run_id,
                [RankBatch(0, [Point(f"train/{texts[1]}", step, 1.0, 0.1) for step in (1, 2)], phases={texts[2]: 1.0})],
            )
            store.claims.end(run_id, "failed", texts[3], error=texts[4], execution_time_s=1.0)
            store.annotations.tag([run_id], texts[0][:40], by=texts[1])
            store.annotations.set_note(run_id, texts[2], by=texts[3])
        return elements(run_report(run_id, texts[1]).decode())

    plain, hostile = made(("a", "b", "c", "d", "e", "f")), made(MARKUP)
    assert sorted(hostile.found) == sorted(plain.found)
    assert hostile.acting == plain.acting == []
