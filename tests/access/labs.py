"""A lab with a provider: a real console whose people sign in at a real provider, both on loopback, and a browser of
httpx that walks the way of one.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from re import search
from typing import Any

import httpx

from engine.home import ROOT, Home
from tests.browser.conftest import Console, free_port
from tests.waiting import PATIENCE_S, wait_until

GROUPS = """
[parallab.roles]
admin = ["lab-admins"]
member = ["lab-members"]
viewer = ["lab-guests"]

[parallab.names]
lab = "Lab ID"
gone = "Gone ID"
"""


class Provider:
    """The provider's process; people are put there with their claims."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [sys.executable, "tests/access/provider.py", str(self.port)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, "the provider answers")

    def knows(self, subject: str, *groups: str, name: str = "", email: str = "", verified: bool = True) -> None:
        """Let the provider know somebody, or know them anew."""
        claims: dict[str, Any] = {"name": name or subject.capitalize(), "groups": list(groups)}
        claims |= {"email": email, "email_verified": verified} if email else {}
        httpx.put(f"{self.address}/users/{subject}", json=claims, timeout=PATIENCE_S).raise_for_status()

    def register(self, console: Console) -> dict[str, str]:
        """Register a console and return its id and secret."""
        about = {"redirect_uris": [f"{console.address}/oauth2callback"]}
        answer = httpx.post(f"{self.address}/oauth2/clients", json=about, timeout=PATIENCE_S)
        return {key: answer.raise_for_status().json()[key] for key in ("client_id", "client_secret")}

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=PATIENCE_S)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.address}/jwks", timeout=2).is_success
        except httpx.HTTPError:
            return False


class Browser(httpx.Client):
    """A browser without scripts: it keeps cookies, follows redirects and sends what a page's form would."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            base_url=console.address,
            follow_redirects=True,
            headers={"accept": "text/html", "user-agent": "test"},
            timeout=PATIENCE_S,
        )

    def go_to_provider(self, at: str = "lab", wanted: str = "/") -> httpx.Response:
        """Click the way in; return where that leads, which is the provider's page where all is well."""
        return self.get("/signin/provider", params={"at": at, "next": wanted})

    def sign_in(self, subject: str, at: str = "lab", wanted: str = "/") -> httpx.Response:
        """Sign in at the provider as somebody; return the page of the console where that ends."""
        return self.post(str(self.go_to_provider(at, wanted).url), data={"sub": subject})

    def session(self) -> str:
        """Return what the console's own cookie holds, empty where there is none."""
        return next((cookie.value or "" for cookie in self.cookies.jar if cookie.name == "parallab_session"), "")


@contextmanager
def lab_with_provider(home: Home, folder: Path) -> Iterator[tuple[Console, Provider]]:
    """Serve a home whose people sign in at `lab`; `wrong` is the same provider with a secret that is not ours, and at
    `gone` nobody answers.
    """
    provider, console = Provider(), Console(home)
    try:
        known = provider.register(console)
        secrets = folder / "secrets.toml"
        secrets.write_text(_secrets(provider, known) + GROUPS)
        console.settings = {"PARALLAB_SECRETS": str(secrets)}
        console.start()
        yield console, provider
    finally:
        console.stop()
        provider.stop()


def said(answer: httpx.Response) -> str:
    """Return what the page with the ways in says beside them, empty for nothing."""
    found = search(r'<p role="(?:alert|status)" >(.*?)</p>', answer.text)
    return unescape(found[1]) if found else ""


def _secrets(provider: Provider, known: dict[str, str]) -> str:
    places = {
        "lab": (provider.address, known["client_secret"]),
        "wrong": (provider.address, "not-the-secret"),
        "gone": (f"http://127.0.0.1:{free_port()}", "any"),
    }
    shared = f'[auth]\nredirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"\ncookie_secret = "{"c" * 40}"\n'
    return shared + "".join(
        (
            f'[auth.{key}]\nclient_id = "{known["client_id"]}"\nclient_secret = "{secret}"\nserver_metadata_url = '
            f'"{address}/.well-known/openid-configuration"\n'
        )
        for key, (address, secret) in places.items()
    )
