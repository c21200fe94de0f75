"""The console as one ASGI app: Streamlit's pages, our routes beside them, and a guard and a gate before both.

Start it with `python -m app` (`make run`), which looks before whether it may be served; whoever starts it otherwise is
told here.
"""

import gc
import os
import sys
from dataclasses import replace

import streamlit as st
from starlette.middleware import Middleware

from app.auth.middleware import Gate, Guard
from app.auth.oidc_routes import provider_routes
from app.core import assets
from app.core.console_address import REFUSED, ConsoleAddress, answering, refusal
from app.core.streamlit_internals import set_option
from app.ui.current_user import why_no_commands_without_accounts
from app.web.page_html import missing_page_routes
from app.web.polling import PollingRoutes, backpressure
from app.web.prometheus import requests
from app.web.request_metrics import RequestCounter
from app.web.routes import polled_routes, routes
from app.web.supervision import share_heaps, supervised
from engine.access.command_link import ask_before_commands
from engine.access.providers import configured
from engine.cli.frame import code_of
from engine.errors import EngineError
from engine.home import ROOT, Home
from engine.upkeep.private_home import close_home


def _settled() -> ConsoleAddress:
    """Return where to serve by the environment and by Streamlit's own options, and let each know what the other says;
    raises ConfigError.
    """
    if path := str(st.get_option("server.baseUrlPath")).strip("/"):
        os.environ.setdefault(assets.VARIABLE, path)
    asked = ConsoleAddress.of()
    hosts = answering([*asked.hosts, *st.get_option("server.allowedHosts")])
    set_option("server.baseUrlPath", asked.base.strip("/"))
    set_option("server.allowedHosts", list(hosts))
    return replace(asked, address=st.get_option("server.address") or "0.0.0.0", hosts=hosts)


def _checked() -> ConsoleAddress:
    """Return where to serve; end the process with a sentence where that may not be."""
    try:
        configured()
        close_home(Home.find())
        serving = _settled()
        if not (reason := refusal(serving)):
            return serving
        code = REFUSED
    except EngineError as error:
        reason, code = str(error), code_of(error)
    print(reason, file=sys.stderr, flush=True)
    raise SystemExit(code)


share_heaps()
ask_before_commands(why_no_commands_without_accounts)
serving = _checked()
auth = configured().auth
app = st.App(
    ROOT / "app" / "main.py",
    secrets={"auth": dict(auth)} if auth else None,
    routes=[*routes(), *provider_routes(), *missing_page_routes()],
    middleware=[
        Middleware(RequestCounter, requests=requests),
        Middleware(Guard, hosts=lambda: serving.hosts),
        Middleware(Gate),
        Middleware(PollingRoutes, routes=polled_routes(), backpressure=backpressure),
    ],
    lifespan=supervised,
)
gc.freeze()  # collections skip what was imported
gc.enable()
