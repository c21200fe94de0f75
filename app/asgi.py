"""The console as one ASGI app: Streamlit's pages, our routes beside them, and a guard and a gate before both.

Start it from the root: `python -m streamlit run app/asgi.py`.
"""

import streamlit as st
from starlette.middleware import Middleware

from app.gate import Gate
from app.guard import LOOPBACK, Guard
from app.routes import routes
from app.supervision import supervised
from engine.home import ROOT


def _hosts() -> list[str]:
    return list(st.get_option("server.allowedHosts") or LOOPBACK)


app = st.App(ROOT / "app" / "main.py", routes=routes(), middleware=[Middleware(Guard, hosts=_hosts), Middleware(Gate)], lifespan=supervised)
