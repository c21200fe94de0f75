"""Times, markup and diagrams: what a person reads."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from app.diagram import diagram
from app.durations import ago, duration
from app.markup import as_text, facts, number, table
from engine.registry import Experiment, Flow, experiments

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("past", "text"), [(0, "just now"), (5, "5 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")])
def test_a_moment_is_said_by_its_distance(past: float, text: str) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert ago((at - timedelta(seconds=past)).isoformat(timespec="milliseconds").replace("+00:00", "Z"), at) == text


MARKED_UP = ["![x](http://evil.example/x.png)", "[a](javascript:b)", "# big", "**b** `c` <img src=x>", ":red[x] $x$", "- b", "| a | b |"]


@pytest.mark.parametrize("text", MARKED_UP)
def test_no_sign_of_a_persons_text_is_left_to_markdown(text: str) -> None:
    shown = as_text(text)
    assert re.sub(r"\\([^\w\s])", r"\1", shown) == text
    assert not re.search(r"(?<!\\)[!-/:-@\[\]^-`{-~]", shown)


def test_a_table_and_its_caption_hold_no_foreign_markup() -> None:
    assert "<script>" not in table(["<script>"], [], caption="<script>") + facts([("<script>", "1")])


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (97.78, "97.78"), (0.03249, "0.03249"), (5036.4, "5,036"), (1_234_567, "1,234,567")])
def test_a_number_has_a_few_figures(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize("one", experiments(), ids=lambda one: one.name)
def test_an_experiments_diagram_names_every_party_and_all_that_flows(one: Experiment) -> None:
    words = " ".join(ElementTree.fromstring(diagram(one.flows)).itertext())
    for flow in one.flows:
        assert flow.source in words
        assert flow.target in words
        assert all(word in words for word in flow.what.split())


def test_a_diagram_goes_round_the_nodes_between() -> None:
    drawing = ElementTree.fromstring(diagram([Flow("master", "stage1", "x"), Flow("stage1", "stage2", "y"), Flow("stage2", "master", "<loss>")]))
    assert [title.text for title in drawing.iter(f"{SVG}title")] == ["<loss>"]
    assert len(list(drawing.iter(f"{SVG}rect"))) == 3
