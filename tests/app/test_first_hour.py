"""docs/first-hour.md names what is on the screen: each word in bold is a text of the console."""

import re

from app.ui.documentation import DOCS, GROUPS, pages
from engine.home import ROOT
from engine.registry import experiments

COMPOSED = {
    "Run quick Hogwild!": 'f"Run {FIRST[1]} {found.title}"',
    "Save and launch": 'f"Save and {verb}"',
    "Running runs": '"running runs"',
    "Checkpoint every (s)": "checkpoint_every_s: float",
    "Learning rate": "learning_rate: float",
    "Epochs": "epochs: int",
}
"""Labels that the console composes, with the place that does."""
SOURCES = ("app", "pages", "engine/experiments", "engine/training", "engine/access", "engine/store")


def labels() -> set[str]:
    text = (DOCS / "first-hour.md").read_text()
    return {" ".join(words.split()) for words in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)}


def test_each_label_of_the_first_hour_is_in_the_console() -> None:
    kinds = (
        path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".html")
    )
    console = "\n".join(path.read_text() for path in kinds) + "".join(one.title for one in experiments())
    named = labels()
    assert len(named) > 50
    assert {words for words in named if COMPOSED.get(words, words) not in console} == set()


def test_the_first_hour_is_the_first_page_of_the_documentation() -> None:
    assert GROUPS["Use"][0] == "first-hour" and "first-hour" in pages()
