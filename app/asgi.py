"""The console as one ASGI app: Streamlit's pages, our routes beside them, and a guard and a gate before both.

Start it from the root: `python -m streamlit run app/asgi.py`.
"""

import streamlit as st
from starlette.middleware import Middleware

from app.counting import Counted
from app.gate import Gate
from app.guard import LOOPBACK, Guard
from app.prometheus import requests
from app.routes import routes
from app.supervision import supervised
from engine.home import ROOT


def _hosts() -> list[str]:
    return list(st.get_option("server.allowedHosts") or LOOPBACK)


BEFORE = [Middleware(Counted, requests=requests), Middleware(Guard, hosts=_hosts), Middleware(Gate)]
app = st.App(ROOT / "app" / "main.py", routes=routes(), middleware=BEFORE, lifespan=supervised)
