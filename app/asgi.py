"""The console as one ASGI app: Streamlit's pages, our routes beside them, and a guard and a gate before both.

Start it from the root: `python -m streamlit run app/asgi.py`.
"""

import sys

import streamlit as st
from starlette.middleware import Middleware

from app.arriving import provider_routes
from app.gate import Gate
from app.guard import LOOPBACK, Guard
from app.routes import routes
from app.supervision import supervised
from engine.access.providers import configured
from engine.errors import ConfigError
from engine.home import ROOT


def _hosts() -> list[str]:
    return list(st.get_option("server.allowedHosts") or LOOPBACK)


try:
    auth = configured().auth
except ConfigError as error:
    sys.exit(str(error))
app = st.App(
    ROOT / "app" / "main.py",
    secrets={"auth": dict(auth)} if auth else None,
    routes=[*routes(), *provider_routes()],
    middleware=[Middleware(Guard, hosts=_hosts), Middleware(Gate)],
    lifespan=supervised,
)
