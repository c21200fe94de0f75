"""docs/security.md keeps its word: each promise names the tests that hold it, and they are there; docs/operations.md
names every file of a home.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from engine.home import ROOT, Home

PAGE = (ROOT / "docs" / "security.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    part = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@cache
def named_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_promise_names_tests_and_every_test_that_it_names_exists() -> None:
    promises = table(PAGE, "Promises")
    assert len(promises) > 30
    for promise, held in promises:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", held)
        assert named, f"Nothing holds '{promise}'"
        assert held == ", ".join(f"`{path}::{name}`" for path, name in named), "a cell holds tests and nothing else"
        for path, name in named:
            assert name in named_in(path), f"{path} has no {name}"


def test_every_test_of_the_door_holds_a_promise() -> None:
    """But for those that hold what is no promise to people."""
    named = set(re.findall(r"::(\w+)`", PAGE))
    beside = {
        "test_names_that_only_resemble_each_other_may_stand_side_by_side",
        "test_names_are_sorted_by_their_letters_in_all_lists",
        "test_a_use_a_minute_after_the_last_one_is_recorded_even_if_that_was_recorded_late",
        "test_who_was_signed_out_by_a_new_password_reads_that_on_the_sign_in_page",
    }
    files = ("test_sign_ins", "test_middleware", "test_doors", "test_names")
    assert {name for file in files for name in named_in(f"tests/access/{file}.py")} - named == beside


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAB_DATA", raising=False)


def files_of_a_home() -> set[str]:
    """Return the first part of each path that a home is asked for."""
    home = Home(Path("/lab"))
    asked = [getattr(home, name) for name, found in vars(Home).items() if isinstance(found, property)]
    return {path.relative_to(home.path).parts[0] for path in [*asked, home.run_folder(1)]}


def test_the_page_on_operations_names_every_file_of_a_home() -> None:
    rows = table(OPERATIONS, "Files of a home")
    named = {
        re.split(r"[/`]", text)[0]
        for row in rows
        for text in re.findall(r"`([^`]+)`", row[0])
        if not text.startswith(("-", "checkpoint", "resumed"))
    }
    assert named == files_of_a_home()
    assert all(len(row) == 4 and all(row) for row in rows), (
        "what it is, whether it may be deleted, whether a backup holds it"
    )
