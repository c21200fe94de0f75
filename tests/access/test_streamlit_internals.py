"""What the console takes of Streamlit beside its public names is as it was; if not, a sentence says what changed and in
which version it last worked.
"""

import ast
import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest
import streamlit as st

from engine.home import ROOT

PLACE = ROOT / "app" / "core" / "streamlit_internals.py"
PUBLIC = {"streamlit", "streamlit.delta_generator"}
"""Modules whose public names the documentation knows."""
OFFERED_MODULES = {"column_config", "components", "connections"}
AS_IT_WAS = {
    "streamlit.auth_util.get_cookie_with_chunks": "(get_single_cookie_fn, cookie_name)",
    "streamlit.auth_util.get_origin_from_redirect_uri": "()",
    "streamlit.config.set_option": "(key, value, where_defined)",
    "streamlit.runtime.scriptrunner.get_script_run_ctx": "(suppress_warning)",
    "streamlit.user_info.generate_login_redirect_url": "(provider)",
    "streamlit.web.server.server_util.get_cookie_secret": "()",
    "streamlit.web.server.starlette.starlette_app_utils.decode_signed_value": "(secret, name, value, max_age_days)",
    "streamlit.web.server.starlette.starlette_auth_routes.create_auth_routes": "(base_url)",
    "streamlit.web.server.starlette.starlette_server_config.USER_COOKIE_NAME": "'_streamlit_user'",
}
"""Each private name, with the parameters or the value that it has in `WORKED_IN`."""


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Return the module and the name of each import from Streamlit in a module's text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.split(".")[0] == "streamlit")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "streamlit":
            yield from ((str(node.module), each.name) for each in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "st":
            yield "streamlit", node.attr


def is_private(module: str, name: str) -> bool:
    """Say whether that name of Streamlit is none that `st` offers, or begins with an underscore."""
    offered = module != "streamlit" or not name or (hasattr(st, name) and not inspect.ismodule(getattr(st, name)))
    return module not in PUBLIC or name.startswith("_") or not (offered or name in OFFERED_MODULES)


def version_it_worked_in() -> str:
    tree = ast.parse(PLACE.read_text())
    values = [node.value for node in tree.body if isinstance(node, ast.Assign) and "WORKED_IN" in ast.unparse(node)]
    return str(ast.literal_eval(values[0]))


def what_changed(name: str, was: str) -> str:
    """Return what became of a private name, as a sentence; empty where it is as it was."""
    module, _, own = name.rpartition(".")
    told = f"Streamlit {st.__version__} changed `{name}`, which last worked in {version_it_worked_in()}: "
    mend = f". Mend {PLACE.relative_to(ROOT)}, try a sign-in at a provider, then raise WORKED_IN."
    try:
        found = getattr(import_module(module), own)
    except ImportError as error:
        return f"{told}its module is gone ({error}){mend}"
    except AttributeError:
        return f"{told}it is gone from its module{mend}"
    now = f"({', '.join(inspect.signature(found).parameters)})" if callable(found) else repr(found)
    return "" if now == was else f"{told}it was {was} and is {now}{mend}"


@pytest.mark.parametrize("name", AS_IT_WAS)
def test_each_private_name_of_streamlit_is_as_it_was(name: str) -> None:
    assert not (changed := what_changed(name, AS_IT_WAS[name])), changed


def test_all_private_names_are_looked_at_and_stand_in_one_module() -> None:
    taken = {f"{module}.{name}" for module, name in imported(PLACE.read_text()) if module not in PUBLIC}
    assert taken == set(AS_IT_WAS)
    others = [path for folder in ("app", "pages") for path in (ROOT / folder).rglob("*.py") if path != PLACE]
    found = {
        f"{path.relative_to(ROOT)} takes {module}.{name}": path
        for path in others
        for module, name in imported(path.read_text())
        if is_private(module, name)
    }
    assert not found, f"Only {PLACE.relative_to(ROOT)} may take private names of Streamlit: {', '.join(found)}."


def test_the_sentence_tells_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "__version__", "9.9.9")
    gone = what_changed("streamlit.auth_util.absent", "()")
    assert gone.startswith("Streamlit 9.9.9 changed `streamlit.auth_util.absent`, which last worked in 1.")
    assert "it is gone from its module" in gone
    assert "its module is gone" in what_changed("streamlit.nowhere.name", "()")
    assert "it was () and is (provider)" in what_changed("streamlit.user_info.generate_login_redirect_url", "()")


def test_a_private_name_is_told_from_a_public_one() -> None:
    assert list(imported("import streamlit.runtime\nfrom streamlit import config\nst._main")) == [
        ("streamlit.runtime", ""),
        ("streamlit", "config"),
        ("streamlit", "_main"),
    ]
    for module, name in (("streamlit.runtime", ""), ("streamlit", "config"), ("streamlit", "_main")):
        assert is_private(module, name)
    for module, name in (("streamlit", ""), ("streamlit", "button"), ("streamlit.delta_generator", "DeltaGenerator")):
        assert not is_private(module, name)


def test_streamlits_sign_in_has_the_routes_and_the_cookie_that_ours_stand_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streamlit_internals = import_module("app.core.streamlit_internals")
    signer = import_module("streamlit.web.server.starlette.starlette_app_utils")
    since = f"as in Streamlit {version_it_worked_in()}"
    routes = streamlit_internals.login_endpoints("lab")
    assert set(routes) == {"/lab/auth/login", "/lab/auth/logout", "/lab/oauth2callback"}, since
    monkeypatch.setattr(streamlit_internals, "get_cookie_secret", lambda: "k" * 32)
    for told in ({"is_logged_in": True, "sub": "ada"}, {"sub": "ada"}, []):
        name = streamlit_internals.USER_COOKIE_NAME
        signed = signer.create_signed_value("k" * 32, name, json.dumps(told)).decode()
        wanted = told if isinstance(told, dict) and told.get("is_logged_in") else {}
        assert streamlit_internals.signed_claims({name: signed}) == wanted, since
    assert streamlit_internals.signed_claims({}) == {}


def test_streamlits_runs_still_say_what_asked_for_them() -> None:
    """`follows_widget` reads these of a run's context, and of its widgets."""
    since = f"Streamlit {st.__version__} changed the context of a run; it last worked in {version_it_worked_in()}"
    context = import_module("streamlit.runtime.scriptrunner").ScriptRunContext
    assert {"is_history_navigation", "fragment_ids_this_run", "session_state"} <= context.__annotations__.keys(), since
    state = import_module("streamlit.runtime.state.session_state").SessionState()
    assert import_module("streamlit.runtime.state").SafeSessionState(state, lambda: None)._state is state, since
    state._old_state |= {"kept": 1, "moved": 1}
    for name, value in (("kept", 1), ("moved", 2)):
        state._new_widget_state.set_from_value(name, value)
    assert [name for name in state._new_widget_state if state._widget_changed(name)] == ["moved"], since


def test_streamlits_html_takes_the_address_that_its_script_asks_for() -> None:
    """app/web/page_html.py writes it behind the head's tag."""
    static = Path(str(files("streamlit"))) / "static"
    since = f"Streamlit {st.__version__} changed how its page is told the server's address; it last worked in "
    assert (static / "index.html").read_text().count("<head>") == 1, since + version_it_worked_in()
    scripts = [path.read_text() for path in (static / "static" / "js").glob("*.js")]
    told = [text for text in scripts if "__streamlit" in text and "BACKEND_BASE_URL" in text]
    assert told, since + version_it_worked_in()


def test_streamlit_still_refuses_the_options_that_are_set_past_it() -> None:
    """Where `st.set_option` takes them, app/asgi.py needs no private name."""
    for option in ("server.baseUrlPath", "server.allowedHosts"):
        with pytest.raises(st.errors.StreamlitAPIException):
            st.set_option(option, st.get_option(option))
