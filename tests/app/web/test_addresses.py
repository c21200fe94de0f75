"""Names in addresses: Streamlit's binding must not take one that another page has (app/links/addresses.py)."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from streamlit.testing.v1 import AppTest

from app.links.compare import CompareView
from app.links.launch import ASKED
from engine.home import ROOT

KEPT = ("addresses.take", "addresses.kept", "addresses.hidden")


def names(called: str) -> dict[str, list[str]]:
    """Return the constant names in addresses by file: widgets that Streamlit binds, or those that `addresses.take`
    keeps.
    """
    found: dict[str, list[str]] = {}
    for path in (*(ROOT / "app").rglob("*.py"), *(ROOT / "pages").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            options = {each.arg: each.value for each in node.keywords}
            value = options.get("key") if called == "bind" and "bind" in options else None
            if called == "take" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func) in KEPT:
                value = node.args[0]
            if isinstance(value, ast.Constant):
                found.setdefault(str(path.relative_to(ROOT)), []).append(value.value)
    return found


def test_no_name_that_streamlit_binds_is_another_pages_name() -> None:
    binding = names("bind")
    bound = [name for found in binding.values() for name in found]
    kept = {name for found in names("take").values() for name in found}
    assert len(bound) > 5 and {"group", "runs", "view"} <= kept
    assert not set(bound) & (kept | {field.name for field in fields(CompareView)} | set(ASKED))
    assert len(bound) == len(set(bound)), "two pages bind one name"
    for page in (ROOT / "pages").glob("*.py"):
        read = re.findall(r'query_params\.get(?:_all)?\("([\w-]+)"', page.read_text())
        others = [found for file, found in binding.items() if Path(file).parts[1].removesuffix(".py") != page.stem]
        assert not {name for found in others for name in found} & set(read), page


def test_a_popovers_widget_that_the_address_keeps_is_a_hidden_one() -> None:
    """Or the browser would send its old value again after a link or a button has set another one."""
    for path in (*(ROOT / "app").rglob("*.py"), *(ROOT / "pages").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.With) and any("popover(" in ast.unparse(item) for item in node.items):
                body = "\n".join(map(ast.unparse, node.body))
                assert not any(each in body for each in ("bind=", "addresses.kept", "addresses.take")), (
                    f"{path}: {body}"
                )


SCRIPT = """
import streamlit as st
from app.links import addresses
usual, known = st.session_state["case"]
addresses.begin("page")
addresses.take("it", usual, known)
if isinstance(usual, bool):
    st.toggle("it", key="it", on_change=addresses.keep, args=("it", usual))
elif isinstance(usual, tuple):
    st.multiselect("it", ["a", "b"], key="it", on_change=addresses.keep, args=("it", usual))
elif isinstance(usual, float):
    st.number_input("it", key="it", on_change=addresses.keep, args=("it", usual))
else:
    st.selectbox("it", known, key="it", on_change=addresses.keep, args=("it", usual))
"""


@pytest.mark.parametrize(
    ("usual", "known", "written", "read", "wrong"),
    [
        (False, None, "true", True, ["yes"]),
        (0.9, None, "0.5", 0.5, ["much"]),
        ("a", ["a", "b"], "b", "b", ["c"]),
        (("a",), None, ["b", "a"], ["b", "a"], []),
    ],
)
def test_a_kept_value_is_read_from_the_address_written_after_a_change_and_absent_where_usual(
    usual: Any, known: Any, written: str | list[str], read: Any, wrong: list[str]
) -> None:
    def opened(value: str | list[str] | None) -> AppTest:
        test = AppTest.from_string(SCRIPT)
        test.session_state["case"] = (usual, known)
        if value is not None:
            test.query_params["it"] = value
        return test.run()

    plain = list(usual) if isinstance(usual, tuple) else usual
    assert opened(None).session_state["it"] == plain
    test = opened(written)
    assert not test.exception and test.session_state["it"] == read
    for value in wrong:
        assert opened(value).session_state["it"] == plain
    (widget,) = [*test.toggle, *test.number_input, *test.selectbox, *test.multiselect]
    widget.set_value(plain).run()
    assert "it" not in test.query_params and test.session_state["it"] == plain
    widget.set_value(read).run()
    assert test.query_params["it"] == written
    del test.query_params["it"]  # another link to the same page, with the usual value
    assert test.run().session_state["it"] == plain


def test_only_one_module_writes_into_addresses_opens_pages_and_makes_fragments_of_them() -> None:
    """It knows then what the browser does not have yet."""
    found: dict[str, list[str]] = {}
    for path in (*(ROOT / "app").rglob("*.py"), *(ROOT / "pages").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute | ast.Subscript):
                continue
            of, name = ast.unparse(node.value), node.attr if isinstance(node, ast.Attribute) else ""
            writes = of == "st.query_params" and (
                not isinstance(node.ctx, ast.Load) if not name else name not in ("get", "get_all", "to_dict")
            )
            if writes or (of == "st" and name in ("switch_page", "fragment")):
                found.setdefault(str(path.relative_to(ROOT)), []).append(ast.unparse(node))
    mine = found.pop("app/links/addresses.py")
    assert {"st.switch_page", "st.fragment", "st.query_params.update"} <= {*mine}
    assert found == {"app/people/account.py": ["st.fragment"]}, "which keeps nothing in the address"


TWO = """
import streamlit as st
from app.links import addresses
addresses.begin(st.session_state["page"])
st.text_input("search", **addresses.kept("search", ""))
st.toggle("mine", **addresses.kept("mine", False))
if st.button("other"):
    pass
"""


def test_a_change_that_comes_with_the_address_before_another_change_keeps_both() -> None:
    def asked(query: dict[str, str]) -> str:
        """Run as if the browser had this address, and return the one of afterwards."""
        test.query_params.clear()
        test.query_params.update(query)
        test.run()
        return urlencode(dict(test.query_params), doseq=True)

    test = AppTest.from_string(TWO)
    test.session_state["page"] = "runs"
    test.run()
    test.text_input[0].set_value("a")
    assert asked({}) == "search=a"
    test.toggle[0].set_value(True)
    assert asked({}) == "search=a&mine=true", "the answer to the search had not come"
    test.button[0].click()
    assert asked({}) == "search=a&mine=true", "nor the one to the toggle"
    test.text_input[0].set_value("")
    assert asked({"search": "a"}) == "mine=true"
    assert asked({"search": "a"}) == "search=a", "a link or Back, with which no widget changes"
    test.button[0].click()
    assert asked({"search": "a"}) == "search=a"
    test.toggle[0].set_value(True)
    assert asked({"search": "a"}) == "search=a&mine=true"
    test.session_state["page"] = "compare"
    test.button[0].click()
    assert asked({"search": "a"}) == "search=a", "what another page wrote does not count"
