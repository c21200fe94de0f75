"""All uses of Streamlit's private API: the flow of `st.login`, options that `st.set_option` refuses, and what
asked for a run of a page.

Any release may change it; `tests/access/test_streamlit_internals.py` detects that. No other module imports a private
name.
"""

import json
from collections.abc import Mapping
from typing import Any

from streamlit.auth_util import get_cookie_with_chunks, get_origin_from_redirect_uri
from streamlit.config import set_option
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.user_info import generate_login_redirect_url
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_auth_routes import create_auth_routes
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

__all__ = [
    "follows_history",
    "follows_widget",
    "generate_login_redirect_url",
    "get_origin_from_redirect_uri",
    "login_endpoints",
    "set_option",
    "signed_claims",
]
WORKED_IN = "1.67.0"
"""The last Streamlit version tested with it."""


def login_endpoints(base: str) -> dict[str, Any]:
    """Return the endpoints of Streamlit's sign-in routes under `base`, by full path."""
    return {route.path: route.endpoint for route in create_auth_routes(base)}


def signed_claims(cookies: Mapping[str, str]) -> dict[str, Any]:
    """Return the claims of a verified ID token from Streamlit's signed cookies; empty without a sign-in."""

    def one(name: str) -> bytes | None:
        return decode_signed_value(get_cookie_secret(), name, cookies[name]) if name in cookies else None

    found = json.loads(get_cookie_with_chunks(one, USER_COOKIE_NAME) or b"{}")
    return found if isinstance(found, dict) and found.get("is_logged_in") else {}


def follows_widget() -> bool:
    """Return whether the browser asked for this run of a page because of a widget or a part that updates itself, not by
    a link, Back or Forward. It counts before the run draws its first widget.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or context.is_history_navigation:
        return False
    state = context.session_state._state
    return bool(context.fragment_ids_this_run) or any(map(state._widget_changed, state._new_widget_state))


def follows_history() -> bool:
    """Return whether the browser asked for this run of a page by Back or Forward, or by a link of the search
    (palette.js), which navigates as they do.
    """
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation
