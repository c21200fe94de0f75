"""HTML is made by templates, in which whatever is no Markup is text."""

import ast
import re
from collections import Counter

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from app.core.assets import CURVES_SCRIPTS, FIGURE_SCRIPTS, PICTURE_SCRIPTS, render, static_text
from app.report.document import SCRIPTS
from app.ui import html
from app.web.page_html import HEADER_SCRIPTS
from engine.home import ROOT

HOSTILE = "<img src=x onerror=\"alert('1')\">&"
SHOWN = "&lt;img src=x onerror"
PUT_TOGETHER_BY_CODE = {"ui/html.py", "web/page_html.py"}
"""What is made by the hundred, a drawing, and Streamlit's own page (docs/decisions/jinja2.md)."""
OF_PLOTLY = re.compile(r"</?(br|b|extra)>")
TAG = re.compile(r"</?[a-z][a-z0-9]*(\s[^<]*)?>")


def test_every_piece_shows_a_text_as_it_stands() -> None:
    made = [
        html.link(HOSTILE, HOSTILE, HOSTILE),
        html.run_link(HOSTILE, 1),
        html.figure_link(f"{HOSTILE}/{HOSTILE}"),
        html.moment(HOSTILE, HOSTILE, HOSTILE),
        html.as_cell(HOSTILE, HOSTILE),
        html.cell_link(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE),
        html.term(HOSTILE),
        html.term(HOSTILE, "rank"),
        html.term_within(f"{HOSTILE} ranks", "ranks", "rank"),
        html.term_within(HOSTILE, "no such words", "rank"),
        *(piece(HOSTILE) for piece in (html.nowrap, html.strong, html.small, html.quiet, html.code)),
        *(piece(HOSTILE) for piece in (html.paragraph, html.caption, html.wide)),
        html.titled(HOSTILE, HOSTILE),
        html.labelled(HOSTILE, HOSTILE),
        html.block(HOSTILE, HOSTILE),
        html.fact_row([HOSTILE]),
        html.joined([HOSTILE, Markup("<br>")]),
        html.stacked([HOSTILE]),
        html.entry(HOSTILE, [HOSTILE]),
        html.facts([(HOSTILE, HOSTILE)]),
        html.tile_row([html.tile(HOSTILE, HOSTILE, HOSTILE, HOSTILE)]),
        html.table([HOSTILE], [[HOSTILE]], caption=HOSTILE),
        html.bar(0.5, HOSTILE),
    ]
    for each in made:
        assert isinstance(each, Markup)
        assert SHOWN in each and "<img" not in each and '"alert' not in each


def test_what_is_html_already_stays_html() -> None:
    link = html.run_link("run 1", 1)
    assert f"<td>{link}</td>" in html.table(["Run"], [[link]], caption="Runs")
    assert html.joined(["by <b>", link], " ") == "by <b> " + link == f"by &lt;b&gt; {link}"


def test_a_template_misses_no_value() -> None:
    with pytest.raises(UndefinedError):
        render("sign_in/refused.html")


def test_no_other_module_puts_html_together() -> None:
    found = {
        str(path.relative_to(ROOT / "app"))
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr) and TAG.search(_fixed(node))
    }
    assert found == PUT_TOGETHER_BY_CODE


def _fixed(text: ast.JoinedStr) -> str:
    """Return what an f-string holds beside its values, without the tags that plotly's labels know."""
    return OF_PLOTLY.sub("", "".join(str(part.value) for part in text.values if isinstance(part, ast.Constant)))


DECLARED = re.compile(r"^(?:export default )?(?:async )?(?:function\*?|const|let|class) (\w+)", re.M)


@pytest.mark.parametrize(
    "scripts", [CURVES_SCRIPTS, FIGURE_SCRIPTS, PICTURE_SCRIPTS, ("page/ago.js", *HEADER_SCRIPTS), SCRIPTS]
)
def test_scripts_that_are_joined_declare_each_name_once(scripts: tuple[str, ...]) -> None:
    """A browser refuses the whole of them otherwise, and the charts of the page with it."""
    declared = DECLARED.findall(static_text(*scripts))
    assert len(declared) > 3 and not [name for name, count in Counter(declared).items() if count > 1]
