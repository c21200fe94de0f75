"""How tests open pages, and read what is on them."""

from collections.abc import Mapping
from html import unescape
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.core import visitor
from app.ui import components
from app.ui.widgets import PAGES
from engine.home import ROOT, Home
from tests.waiting import PATIENCE_S


def opened(page: str, query: Mapping[str, Any] | None = None) -> AppTest:
    """Open a page through the frame, as a link does."""
    test = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=PATIENCE_S)
    if page != "home":
        test = test.switch_page(str(PAGES[page]))
    for name, value in (query or {}).items():
        test.query_params[name] = value
    return test.run()


def in_form(test: AppTest) -> dict[str, Any]:
    """Return what the launch form holds, by the keys that its widgets had at first (`config_form.renew`)."""
    found: dict[str, tuple[int, Any]] = {}
    for key, value in test.session_state.items():
        name, _, times = key.partition("#")
        found[name] = max(found.get(name, (-1, None)), (int(times or 0), value), key=lambda each: each[0])
    return {name: value for name, (_, value) in found.items()}


def give_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Answer the dialog that asks for the name."""
    monkeypatch.setattr(components, "name_form", lambda *_: visitor.hand_over(Home.find(), name))


def said(test: AppTest) -> str:
    """Return all plain words on the page, as a person sees them."""
    kinds = (
        test.title,
        test.header,
        test.subheader,
        test.markdown,
        test.caption,
        test.warning,
        test.error,
        test.success,
        test.info,
        test.text,
    )
    return " ".join(str(element.value) for kind in kinds for element in kind).replace("\\", "")


def html(test: AppTest) -> str:
    """Return all HTML of ours on the page."""
    return " ".join(str(element.proto.body) for element in test.get("html"))


def all_words(test: AppTest) -> str:
    """Return all words on a page that has opened, those in HTML and badges too."""
    assert not test.exception
    badges = " ".join(str(each.proto.body) for each in test.get("badge"))
    return unescape(f"{said(test)} {html(test)} {badges}".replace("\\", ""))


def places(test: AppTest) -> dict[str, tuple[int, ...]]:
    """Return where each control stands: the positions that lead to it. Where these change, a browser makes it anew."""
    found = {}

    def look(node: Any, path: tuple[int, ...]) -> None:
        if key := getattr(node, "key", None):
            found[key] = path
        for position, child in getattr(node, "children", {}).items():
            look(child, (*path, position))

    look(test._tree, ())
    return found


def popovers(test: AppTest) -> list[str]:
    """Return the labels of all popovers on the page."""
    return [each.proto.popover.label.replace("\\", "") for each in test.get("popover")]
