"""All experiments with a link to the launch form of each, as HTML for the Home page of an empty lab."""

from markupsafe import Markup

from app.core.base_path import at
from app.links.launch import LAUNCH
from app.ui.html import block, entry, joined, link
from engine.registry import experiments


def experiments_html() -> Markup:
    """Return an entry for each experiment: its title as a link, and what it does."""
    return block(
        "pl-cards",
        joined(
            (entry(link(one.title, f"{at(LAUNCH)}?experiment={one.name}"), [one.tagline]) for one in experiments()),
            "",
        ),
    )
