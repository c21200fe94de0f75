"""Kept files on pages: small pictures by address, tables and texts as text, and nothing that a browser would run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.run.live_update import frame
from engine.home import Home
from engine.store import Reader, Store
from engine.store.imports.reports import Report, ReportedEnd, ReportedRun
from engine.system.file_views import MOST_ROWS, FileTable, FileView, table_in, text_in, view_of
from tests.api.test_files import BOMB, PNG
from tests.app.reading import all_words, give_name, html, opened
from tests.labs import basic

JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xfe\0\x03x\xff\xc2\0\x11\x08\0\x06\0\x08\x03"
DRAWING = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script></svg>"
Keep = Callable[..., int]


@pytest.fixture
def keep(home: Home, store: Store) -> Keep:
    """Return what adds an ended run that keeps files, by their names."""

    def add(files: dict[str, bytes], **config: Any) -> int:
        run = ReportedRun("net", f"key {store.read.runs.count()}", config=config)
        run_id = store.reports.begin(run, by="ada")
        store.reports.report(run_id, Report(end=ReportedEnd("finished")), by="ada")
        for name, content in files.items():
            basic.keep(store, run_id, name, content)
        return run_id

    return add


def test_a_run_shows_its_files_with_their_lineage_and_offers_their_removal(
    home: Home, store: Store, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "ada")
    made = {"a.png": PNG, "b.csv": b"step,loss\n1,<b>0.5</b>\n", "c.svg": DRAWING, "bomb.png": BOMB, "net.pt": b"\0\1"}
    run_id, user, other = keep(made), keep({}), keep({})
    (weights,) = (each.sha256 for each in store.read.files.of([run_id]) if each.name == "net.pt")
    store.files.use(user, weights, by="ada")
    test = opened("run", {"run": str(run_id), "section": "Files"})
    shown = html(test)
    assert f'<img src="/api/v1/runs/{run_id}/files/a.png" alt="a.png of run {run_id}" width="8" height="6">' in shown
    assert shown.count("<img") == 1 and "<svg" not in shown and "<script" not in shown and "<b>0.5" not in shown
    assert "<td>&lt;b&gt;0.5&lt;/b&gt;</td>" in shown and "&lt;svg xmlns=" in shown
    assert f'<a href="/api/v1/runs/{run_id}/files/net.pt" download>net.pt</a>' in shown
    assert f"run {user}" in shown and "2 B" in shown and "bomb.png" in shown
    theirs = html(opened("run", {"run": str(user), "section": "Files"}))
    assert "net.pt" in theirs and f">run {run_id}</a>" in theirs
    assert "Files" not in opened("run", {"run": str(other)}).button_group[0].options
    test.selectbox(key=f"file-{run_id}").set_value("net.pt").run()
    test.button(key=f"remove-file-{run_id}").click().run()
    assert "net.pt" not in html(test)
    assert "no longer kept" in html(opened("run", {"run": str(user), "section": "Files"}))


def test_compare_shows_files_of_one_name_side_by_side(home: Home, keep: Keep) -> None:
    first, second, third = (
        keep({"loss.png": PNG, "t.csv": b"a\n1\n"}, lr=1),
        keep({"loss.png": PNG + b"2"}, lr=2),
        keep({}, lr=3),
    )
    query = {"runs": f"{first}-{third}", "tab": "files", "group": "none"}
    test = opened("compare", query)
    shown, words = html(test), all_words(test)
    assert [shown.count(f"/api/v1/runs/{run_id}/files/loss.png") for run_id in (first, second)] == [1, 1]
    assert f"No loss.png: run {third}." in words and f"No t.csv: runs {second}, {third}." in words
    chosen = opened("compare", {**query, "files": "t.csv"})
    assert "loss.png" not in html(chosen) and chosen.query_params["files"] == "t.csv"
    odd = keep({"*b* :red[c].png": PNG})
    heads = [each.value for each in opened("compare", {**query, "runs": str(odd)}).header]
    assert heads == ["\\*b\\* \\:red\\[c\\]\\.png"], "a name is text, not Markdown"
    assert "None of these runs keeps a picture" in all_words(opened("compare", {**query, "runs": str(third)}))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", PNG, FileView("picture", "image/png", 8, 6)),
        ("a.jpg", JPEG, FileView("picture", "image/jpeg", 8, 6)),
        ("a.jpg", JPEG[:12], FileView("other")),
        ("a.png", PNG[:20], FileView("other")),
        ("a.svg", DRAWING, FileView("text")),
        ("a.CSV", b"a,b\n", FileView("table")),
        ("a.csv", b"a\0b", FileView("other")),
        ("a.txt", "ä".encode() * 4_000, FileView("text")),
        ("a.txt", b"", FileView("other")),
        ("a.txt", b"\xff\xfe", FileView("other")),
    ],
)
def test_what_a_file_is_follows_from_its_bytes(tmp_path: Path, name: str, content: bytes, expected: FileView) -> None:
    path = tmp_path / "content"
    path.write_bytes(content)
    assert view_of(path, name) == expected


def test_pictures_that_are_bombs_by_their_header_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(BOMB)
    assert view_of(tmp_path / "bomb", "a.png").why_not == "it declares 60,000 × 60,000 pixels, more than 25 million"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", 'step,"lo,ss"\n1,2\n\n3\n', FileTable(["step", "lo,ss"], [["1", "2"], ["3", ""]], True)),
        ("a.tsv", "\ufeffa\tb\n1\t2", FileTable(["a", "b"], [["1", "2"]], True)),
        ("a.json", '[{"a": 1}, {"b": [null, "x"]}]', FileTable(["a", "b"], [["1", ""], ["", '[null, "x"]']], True)),
        ("a.json", '{"columns": ["a"], "data": [[1], [true]]}', FileTable(["a"], [["1"], ["true"]], True)),
        ("a.json", '{"a": [1, 2], "b": ["x"]}', FileTable(["a", "b"], [["1", "x"], ["2", ""]], True)),
        ("a.json", '{"acc": 0.5}', FileTable(["name", "value"], [["acc", "0.5"]], True)),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', FileTable(["a"], [["1"], ["2"]], True)),
        ("a.json", "[[1, 2], [3]]", FileTable(["1", "2"], [["1", "2"], ["3", ""]], True)),
        ("a.json", "[" * 100_000, None),
        ("a.json", "7", None),
        ("a.json", "1" * 5_000, None),
        ("a.csv", "", None),
        ("a.csv", f'"{"x" * 200_000}"\n', None),
    ],
)
def test_a_table_is_read_as_text_and_what_is_none_is_no_table(
    tmp_path: Path, name: str, text: str, expected: FileTable | None
) -> None:
    path = tmp_path / "content"
    path.write_text(text)
    assert table_in(path, name) == expected


def test_of_long_tables_and_texts_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_text("\n".join(",".join(["x" * 300] * 40) for _ in range(5_000)))
    found = table_in(path, "a.csv")
    assert found and (len(found.columns), len(found.rows), found.is_whole) == (30, MOST_ROWS, False)
    assert {len(cell) for row in found.rows for cell in row} == {201}
    text, is_whole = text_in(path)
    assert (len(text), is_whole) == (20_000, False)
    path.write_text(json.dumps([{"a": n} for n in range(101)]))
    found = table_in(path, "a.json")
    assert found and (len(found.rows), found.is_whole) == (100, False)


def test_the_page_of_a_running_run_is_drawn_again_when_it_keeps_a_file(home: Home, store: Store, keep: Keep) -> None:
    run_id = keep({})

    def now() -> int:
        with Reader.open(home) as reader:
            return frame(reader.runs.one(run_id), reader, "Overview", False)

    before = now()
    basic.keep(store, run_id, "x", b"x")
    assert now() != before
