"""Where a request comes from, by what the connection and a proxy say."""

import pytest
from starlette.requests import Request

from app.core.visitor import OF_A_PROXY, PEER, place

DIRECT = {"type": "http", "client": ("198.51.100.7", 0), "headers": [], "state": {PEER: "127.0.0.1"}}
"""As uvicorn hands on what a client of loopback said of itself."""


@pytest.mark.parametrize("name", OF_A_PROXY)
def test_what_a_proxy_says_counts_where_the_console_is_set_up_for_one(name: str) -> None:
    assert place(Request(DIRECT), {}) == "127.0.0.1"
    assert place(Request(DIRECT), {name: ""}) == "127.0.0.1"
    assert place(Request(DIRECT), {name: "1"}) == "198.51.100.7"


def test_a_request_of_another_server_is_where_it_says() -> None:
    assert place(Request(DIRECT | {"state": {}}), {}) == "198.51.100.7"
    assert place(Request(DIRECT | {"state": {}, "client": None}), {}) == ""
